//! How wide a line may be, and texts that are wrapped to that.

use std::io;

/// What is written for everybody is as wide as this, at most.
pub(crate) const PAGE: usize = 80;

/// The columns of the terminal, if the output is one that tells.
pub(crate) fn terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The columns that a text may take: a page, or less on a terminal that is narrower.
pub(crate) fn page() -> usize {
    terminal().map_or(PAGE, |columns| columns.min(PAGE))
}

/// Puts a text on lines that are at most so wide. The first stands behind something that takes `before` columns, the
/// others are indented by as much. A word that is wider than a line has one to itself.
pub(crate) fn wrap(text: &str, width: usize, before: usize) -> String {
    let (mut wrapped, mut column) = (String::new(), before);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            wrapped.push('\n');
            column = 0;
        }
        // What a line begins with is how far it is indented.
        let words = line.trim_start_matches(' ');
        let indent = line.len() - words.len();
        wrapped.push_str(&" ".repeat(indent));
        column += indent;
        let left = if at == 0 { before } else { indent };
        for (number, word) in words.split(' ').enumerate() {
            let wide = seen(word);
            if number > 0 && column + 1 + wide > width {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(left));
                column = left;
            } else if number > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += wide;
        }
    }
    wrapped
}

/// How many columns a text takes; colours take none.
fn seen(text: &str) -> usize {
    anstream::adapter::strip_str(text)
        .map(|part| part.chars().count())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::paint;

    #[test]
    fn a_text_fits_and_keeps_its_words() {
        let text = "One two three four.\n\n  indented words\nfive";
        assert_eq!(wrap(text, 80, 0), text);
        assert_eq!(wrap(text, 11, 0), "One two\nthree four.\n\n  indented\n  words\nfive");
        assert_eq!(wrap("a b c", 6, 4), "a\n    b\n    c");
        assert_eq!(wrap("a muchtoolong b", 4, 0), "a\nmuchtoolong\nb");
    }

    #[test]
    fn colours_take_no_room() {
        let text = format!("{} two", paint::strong("one"));
        assert_eq!(wrap(&text, 7, 0), text);
        assert_eq!(wrap(&text, 6, 0), text.replace(' ', "\n"));
    }
}
