//! Times, long values and texts that others wrote, as people read them.

use std::borrow::Cow;
use std::fmt::Write as _;

use everstep::clock::Millis;

/// So many of something.
pub(crate) fn many(number: u64, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// A time as `2030-01-31 23:59:58` (UTC).
pub(crate) fn time(at_ms: Millis) -> String {
    let (days, second) = (at_ms / 86_400_000, at_ms / 1_000 % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a day since the epoch. Years begin in March here, so that the leap day is the last of one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// A length of time in the two largest units that matter: `1d 3h`, `2m 5s`, `1.25s`, `40ms`.
pub(crate) fn span(ms: Millis) -> String {
    let (seconds, minutes, hours, days) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () if seconds > 0 => format!("{seconds}.{:02}s", ms % 1_000 / 10),
        () => format!("{ms}ms"),
    }
}

/// A text that others wrote (a tag, a name, a message of an error) as it may be written to a terminal: on one line, and
/// with nothing in it that the terminal would obey. What would move the cursor, change colours or turn the direction of
/// the text is shown by its number instead.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_obeyed(character) {
            let _ = write!(plain, "{}", character.escape_default());
        } else {
            plain.push(character);
        }
    }
    Cow::Owned(plain)
}

/// The same for a line of JSON, in whose strings alone such a character can be: there it is written as JSON writes it.
pub(crate) fn plain_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_obeyed) {
        return Cow::Borrowed(json);
    }
    let mut plain = String::with_capacity(json.len() + 8);
    for character in json.chars() {
        if is_obeyed(character) {
            let _ = write!(plain, "\\u{:04x}", u32::from(character));
        } else {
            plain.push(character);
        }
    }
    Cow::Owned(plain)
}

/// Control characters, ends of lines, and marks that turn the direction of what follows.
fn is_obeyed(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns || character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// At most so many characters, all of them plain; what is left out shows as an ellipsis.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.replace(['\n', '\r'], " ");
    let line = plain(&line).into_owned();
    if line.chars().count() <= most {
        return line;
    }
    let cut = line.chars().take(most.saturating_sub(1)).chain(['…']);
    cut.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_399_000), "2000-02-28 23:59:59");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(time(1_893_456_000_000), "2030-01-01 00:00:00");
        assert_eq!(time(4_107_542_399_999), "2100-02-28 23:59:59");
        assert_eq!(time(4_107_542_400_000), "2100-03-01 00:00:00", "no leap year");
    }

    #[test]
    fn spans_have_two_units() {
        let told = [0, 999, 1_250, 125_000, 3_600_000, 97_200_000].map(span);
        assert_eq!(told, ["0ms", "999ms", "1.25s", "2m 5s", "1h 0m", "1d 3h"]);
    }

    #[test]
    fn long_lines_are_cut_at_characters() {
        assert_eq!(short("žluťoučký", 9), "žluťoučký");
        assert_eq!(short("žluťoučký kůň", 9), "žluťoučk…");
        assert_eq!(short("a\nb", 9), "a b");
        assert_eq!((short("ab", 1), short("ab", 0)), ("…".to_owned(), String::new()));
    }

    /// Found by a user: what somebody put into a tag coloured the operator's terminal, and could have done anything else
    /// that escape sequences can.
    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(plain("žluťoučký kůň €"), "žluťoučký kůň €");
        assert_eq!(plain("\x1b[2Ja\r\nb\x7f"), "\\u{1b}[2Ja\\r\\nb\\u{7f}");
        assert_eq!(plain("\u{9b}31m\u{202e}x\u{2066}"), "\\u{9b}31m\\u{202e}x\\u{2066}");
        assert_eq!(short("\x1b]0;x", 8), "\\u{1b}]…");
        for character in (0..=0x2100)
            .filter_map(char::from_u32)
            .filter(|found| is_obeyed(*found))
        {
            let told = serde_json::json!({"a": character.to_string()}).to_string();
            let told = plain_json(&told);
            assert!(!told.contains(is_obeyed), "{character:?}: {told}");
            let read: serde_json::Value = serde_json::from_str(&told).unwrap();
            assert_eq!(read["a"], character.to_string(), "{told}");
        }
    }
}
