//! Durations in attributes: the grammar of the runtime, read while the code compiles.
//!
//! The runtime has the same few lines in its own `duration.rs`; a macro crate can't borrow them, because the runtime
//! depends on it. `tests/durations.txt` holds the two together: both read it in their tests.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;

/// A century, as in the runtime's limits: the longest wait there is.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// The duration that a text means, or what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, behind) = split(rest, |character| character.is_ascii_digit());
        let number: u64 = number.parse().map_err(|_| "a number was expected")?;
        let (unit, behind) = split(behind.trim_start(), char::is_alphabetic);
        let unit = unit_millis(unit).ok_or("the unit is not ms, s, m, h, d or w")?;
        let part = number.checked_mul(unit).ok_or("it is too large")?;
        total = total
            .checked_add(Duration::from_millis(part))
            .ok_or("it is too large")?;
        rest = behind.trim_start();
    }
    if total > LONGEST {
        return Err("it is longer than a century");
    }
    Ok(total)
}

/// A duration as code.
pub(crate) fn literal(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

/// The beginning of which every character is of a kind, and the rest.
fn split(text: &str, of_kind: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|character| !of_kind(character)).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_millis(unit: &str) -> Option<u64> {
    const SECOND: u64 = 1_000;
    const DAY: u64 = 24 * 60 * 60 * SECOND;
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hour" | "hours" => 60 * 60 * SECOND,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_table_that_the_runtime_agrees_with() {
        let table = include_str!("../../tests/durations.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let (text, meaning) = row.split_once('|').expect("a row has two cells");
            let parsed = parse(text).ok().map(|duration| duration.as_millis());
            assert_eq!(parsed, meaning.trim().parse().ok(), "{text:?}");
        }
    }
}
