//! Durations as people write them: `"30s"`, `"1m30s"`, `"24 hours"`, `"7d"`.

use std::time::Duration;

use crate::limits::DURATION_MAX;

/// The text or number is not a duration that can be waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDuration {
    /// The text can't be read.
    #[error("`{text}` is not a duration: {reason}; write `30s`, `1m30s`, `24 hours` or `7d`")]
    Text {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The duration is longer than anything waits.
    #[error("{0:?} is longer than {DURATION_MAX:?}, the longest wait there is")]
    TooLong(Duration),
}

impl InvalidDuration {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "ES0104"
    }
}

/// Whatever says how long: a [`Duration`], or a text such as `"1m30s"`.
pub trait IntoDuration {
    /// The duration, if it is one.
    fn into_duration(self) -> Result<Duration, InvalidDuration>;
}

impl IntoDuration for Duration {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        if self > DURATION_MAX {
            Err(InvalidDuration::TooLong(self))
        } else {
            Ok(self)
        }
    }
}

impl IntoDuration for &str {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        parse(self)?.into_duration()
    }
}

impl IntoDuration for String {
    fn into_duration(self) -> Result<Duration, InvalidDuration> {
        self.as_str().into_duration()
    }
}

fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = |reason| InvalidDuration::Text {
        text: text.chars().take(40).collect(),
        reason,
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid("it is empty"));
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid("a number was expected"))?;
        let behind = behind.trim_start();
        let letters = behind
            .find(|character: char| !character.is_alphabetic())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let part = unit_millis(unit).ok_or_else(|| invalid("the unit is not ms, s, m, h, d or w"))?;
        let part = number.checked_mul(part).ok_or_else(|| invalid("it is too large"))?;
        total = total
            .checked_add(Duration::from_millis(part))
            .ok_or_else(|| invalid("it is too large"))?;
        rest = behind.trim_start();
    }
    Ok(total)
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
    fn durations_as_people_write_them() {
        let seconds = |seconds| Duration::from_secs(seconds);
        for (text, expected) in [
            ("0s", Duration::ZERO),
            ("250ms", Duration::from_millis(250)),
            ("30s", seconds(30)),
            ("1m30s", seconds(90)),
            ("1m 30s", seconds(90)),
            ("24 hours", seconds(86_400)),
            ("7d", seconds(7 * 86_400)),
            (" 2 weeks ", seconds(14 * 86_400)),
            ("1 day 2 hours", seconds(26 * 3_600)),
        ] {
            assert_eq!(text.into_duration(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for text in [
            "",
            "  ",
            "s",
            "5",
            "5 parsecs",
            "-1s",
            "1.5h",
            "5s!",
            "99999999999999999999s",
            "5s 7",
            "1M",
        ] {
            assert!(text.into_duration().is_err(), "{text:?}");
        }
        assert!(matches!("99999999w".into_duration(), Err(InvalidDuration::TooLong(_))));
        assert!(Duration::MAX.into_duration().is_err());
    }

    #[test]
    fn agrees_with_the_table_that_the_macros_agree_with() {
        let table = include_str!("../tests/durations.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let (text, meaning) = row.split_once('|').expect("a row has two cells");
            let parsed = text.into_duration().ok().map(|duration| duration.as_millis());
            assert_eq!(parsed, meaning.trim().parse().ok(), "{text:?}");
        }
    }
}
