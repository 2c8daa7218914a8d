//! Rust text as tokens with their lines. Comments, strings and characters are
//! gone, so a rule that looks for a word finds code and nothing else.

/// A word (identifier, keyword or number), or one character of punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_start)
    }
}

pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let length = match silent(rest) {
            Some(length) => length,
            None => {
                let length = word(rest).unwrap_or(first.len_utf8());
                if !first.is_whitespace() {
                    let text = &rest[..length];
                    tokens.push(Token { text, line });
                }
                length
            }
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// Where the group that opens at `open` closes, or the end of the tokens.
pub(crate) fn group_end(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Whether the tokens from `at` on read exactly like this.
pub(crate) fn reads(tokens: &[Token<'_>], at: usize, words: &[&str]) -> bool {
    tokens
        .get(at..at + words.len())
        .is_some_and(|found| found.iter().zip(words).all(|(token, word)| token.text == *word))
}

/// Whether a macro of this name is called at `at`.
pub(crate) fn calls_macro(tokens: &[Token<'_>], at: usize, name: &str) -> bool {
    reads(tokens, at, &[name, "!"])
        && tokens
            .get(at + 2)
            .is_some_and(|token| matches!(token.text, "(" | "[" | "{"))
}

fn is_word_start(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(rest: &str) -> Option<usize> {
    rest.starts_with(is_word_start)
        .then(|| rest.find(|c| !is_word_start(c)).unwrap_or(rest.len()))
}

/// The length of the comment, string or character that begins here, if one does.
fn silent(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    // b"", c"", r"", br##""##, b'' and the plain "".
    let letters = rest.find(|c| !matches!(c, 'b' | 'c' | 'r'))?;
    if letters > 2 {
        return None;
    }
    let (prefix, body) = rest.split_at(letters);
    if prefix == "b" && body.starts_with('\'') {
        return character(body).map(|length| length + 1);
    }
    let length = if prefix.ends_with('r') {
        raw_string(body)?
    } else {
        1 + closing(body.strip_prefix('"')?, '"')
    };
    Some(letters + length)
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// A character literal. A lifetime (`'a` with no quote behind it) is none.
fn character(rest: &str) -> Option<usize> {
    let mut inside = rest[1..].chars();
    let first = inside.next()?;
    if first == '\\' {
        return Some(1 + closing(&rest[1..], '\''));
    }
    (inside.next() == Some('\'')).then(|| 2 + first.len_utf8())
}

/// `"..."` or `#"..."#` with any number of hashes; `r#word` is no string.
fn raw_string(body: &str) -> Option<usize> {
    let hashes = body.find(|c| c != '#')?;
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &body[..hashes]);
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(hashes + 1 + length)
}

/// The length up to and with the closing quote, stepping over escapes.
fn closing(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_and_punctuation_come_out_one_by_one() {
        assert_eq!(texts("use crate::a_1;"), ["use", "crate", ":", ":", "a_1", ";"]);
    }

    #[test]
    fn comments_and_literals_are_silent() {
        assert_eq!(texts("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(texts(r#"a "b \" c" d b"e" c"f""#), ["a", "d"]);
        assert_eq!(texts(r###"a r"b\" c r#"d " e"# br##"f "# g"## h"###), ["a", "c", "h"]);
        assert_eq!(texts(r"a 'b' '\'' '\u{1f}' b'c' '{' d"), ["a", "d"]);
    }

    #[test]
    fn lifetimes_and_raw_words_are_no_literals() {
        assert_eq!(texts("&'a str"), ["&", "'", "a", "str"]);
        assert_eq!(texts("r#type b c br"), ["r", "#", "type", "b", "c", "br"]);
    }

    #[test]
    fn lines_are_counted_through_comments_and_strings() {
        let lines: Vec<_> = tokens("a\n/* \n */ b \"\n\" c\n\nd")
            .iter()
            .map(|token| token.line)
            .collect();
        assert_eq!(lines, [1, 3, 4, 6]);
    }

    #[test]
    fn an_unclosed_literal_ends_with_the_text() {
        for text in ["a \"b", "a /* b", "a r#\"b\"", "a '\\", "a b'"] {
            assert_eq!(texts(text)[0], "a");
        }
    }

    #[test]
    fn groups_close_where_they_should() {
        let tokens = tokens("f(a[1], {b}) c");
        assert_eq!(group_end(&tokens, 1), 10);
        assert_eq!(tokens[11].text, "c");
    }
}
