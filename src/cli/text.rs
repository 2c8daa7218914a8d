//! Times and long values, as people read them.

use everstep::clock::Millis;

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

/// At most so many characters; what is left out shows as an ellipsis.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.replace(['\n', '\r'], " ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
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
    }
}
