//! Times across the days on which clocks are set, and across long absences.

use super::*;
use crate::timing::{Cron, Timing};

fn times(pattern: &str, zone: &str) -> Times {
    let timing = Timing::from(Cron::new(pattern).zone(zone));
    timing.into_rule().unwrap().times().unwrap()
}

fn at(text: &str) -> Millis {
    let at: Timestamp = text.parse().unwrap();
    u64::try_from(at.as_millisecond()).unwrap()
}

/// The times after `from` up to `to`.
fn between(times: &Times, from: &str, to: &str) -> Vec<String> {
    let next = std::iter::successors(times.after(at(from)), |slot| times.after(*slot));
    next.take_while(|slot| *slot <= at(to)).map(in_utc).collect()
}

/// FAULTS 30.
#[test]
fn a_fixed_time_comes_once_on_the_days_when_clocks_are_set() {
    let nightly = times("30 2 * * *", "Europe/Berlin");
    let spring = between(&nightly, "2030-03-30T00:00:00Z", "2030-04-01T12:00:00Z");
    assert_eq!(
        spring,
        ["2030-03-30T01:30:00Z", "2030-03-31T01:00:00Z", "2030-04-01T00:30:00Z"],
        "there is no 2:30 on the 31st: it comes when the clocks show 3:00"
    );
    let autumn = between(&nightly, "2030-10-26T00:00:00Z", "2030-10-28T12:00:00Z");
    assert_eq!(
        autumn,
        ["2030-10-26T00:30:00Z", "2030-10-27T00:30:00Z", "2030-10-28T01:30:00Z"],
        "there are two 2:30 on the 27th: it comes at the first"
    );
}

/// FAULTS 30.
#[test]
fn a_pace_is_kept_on_the_days_when_clocks_are_set() {
    let hourly = times("0 * * * *", "Europe/Berlin");
    for (from, to) in [
        ("2030-03-30T22:00:00Z", "2030-03-31T04:00:00Z"),
        ("2030-10-26T22:00:00Z", "2030-10-27T04:00:00Z"),
    ] {
        let slots = between(&hourly, from, to);
        assert_eq!(slots.len(), 6, "every hour of the world has one: {slots:?}");
    }
}

#[test]
fn what_never_comes_is_refused() {
    for (pattern, zone, code) in [
        ("0 0 30 2 *", "UTC", "ES0121"),
        ("0 0 0 1 1 * 1960", "UTC", "ES0121"),
        ("61 * * * *", "UTC", "ES0121"),
        ("", "UTC", "ES0121"),
        ("every day", "UTC", "ES0121"),
        ("0 3 * * *", "Europe/Atlantis", "ES0122"),
        ("0 3 * * *", "", "ES0122"),
    ] {
        let timing = Timing::from(Cron::new(pattern).zone(zone));
        assert_eq!(timing.check().unwrap_err().code(), code, "{pattern:?} in {zone:?}");
    }
}

#[test]
fn intervals_are_counted_from_the_epoch() {
    let every = Times::Every {
        interval_ms: 600_000,
        offset_ms: 180_000,
    };
    assert_eq!(every.after(0), Some(180_000));
    assert_eq!(every.after(180_000), Some(780_000));
    assert_eq!(every.after(779_999), Some(780_000));
    assert_eq!(every.after(Millis::MAX - 5), None);
}

#[test]
fn the_newest_are_found_however_long_it_was() {
    let year = 366 * 24 * 60 * 60 * 1000;
    let first = at("2030-01-01T00:00:00Z");
    let now = first + year;
    for times in [
        times("* * * * * *", "UTC"),
        times("0 3 * * *", "Europe/Berlin"),
        times("0 0 1 1 *", "Asia/Tokyo"),
        Times::Every {
            interval_ms: 1000,
            offset_ms: 0,
        },
    ] {
        let begin = times.after(first).unwrap();
        let (due, next) = times.due(begin, 3, |slot| slot <= now, now);
        assert!((1..=3).contains(&due.len()) && next.unwrap() > now, "{due:?} {next:?}");
        let mut expected = due[0];
        for slot in &due {
            assert_eq!(*slot, expected, "none is left out");
            expected = times.after(*slot).unwrap();
        }
        assert_eq!(Some(expected), next);
    }
}

#[test]
fn rules_are_told_in_few_words() {
    let rule = |interval_ms, offset_ms| Rule::Every { interval_ms, offset_ms }.to_string();
    assert_eq!(rule(86_400_000, 0), "every 1d");
    assert_eq!(rule(90_000, 1500), "every 90s at 1500ms");
    assert_eq!(Rule::Once { at_ms: 1500 }.to_string(), "once at 1970-01-01T00:00:01.5Z");
}
