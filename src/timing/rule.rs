//! The rule that times follow, as it is stored, and the times themselves.

use std::collections::VecDeque;
use std::fmt;

use croner::parser::CronParser;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::timing::InvalidTiming;

/// What times follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rule {
    /// A cron pattern, in a zone.
    Cron { text: String, zone: String },
    /// An interval from the beginning of 1970 on.
    Every { interval_ms: Millis, offset_ms: Millis },
    /// One time.
    Once { at_ms: Millis },
}

/// A rule that was read: it can be asked for its times.
#[derive(Debug, Clone)]
pub(crate) enum Times {
    Cron(Box<(croner::Cron, TimeZone)>),
    Every { interval_ms: Millis, offset_ms: Millis },
    Once { at_ms: Millis },
}

impl Rule {
    /// Reads the rule.
    pub(crate) fn times(&self) -> Result<Times, InvalidTiming> {
        Ok(match self {
            Self::Cron { text, zone } => Times::Cron(Box::new(cron(text, zone)?)),
            Self::Every { interval_ms, offset_ms } => Times::Every {
                interval_ms: (*interval_ms).max(1),
                offset_ms: *offset_ms,
            },
            Self::Once { at_ms } => Times::Once { at_ms: *at_ms },
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron { text, zone } => write!(f, "{text} {zone}"),
            Self::Every { interval_ms, offset_ms } => {
                write!(f, "every {}", Span(*interval_ms))?;
                if *offset_ms > 0 {
                    write!(f, " at {}", Span(*offset_ms))?;
                }
                Ok(())
            }
            Self::Once { at_ms } => write!(f, "once at {}", in_utc(*at_ms)),
        }
    }
}

fn cron(text: &str, zone: &str) -> Result<(croner::Cron, TimeZone), InvalidTiming> {
    let shown = |text: &str| text.chars().take(80).collect::<String>();
    let invalid = |reason: String| InvalidTiming::Cron {
        text: shown(text),
        reason,
    };
    // Those that are built in, whatever the machine has: the same pattern means the same times everywhere.
    let zones = TimeZoneDatabase::bundled();
    let zone = zones.get(zone).map_err(|_| InvalidTiming::Zone(shown(zone)))?;
    let pattern = CronParser::new().parse(text);
    let pattern = pattern.map_err(|error| invalid(error.to_string()))?;
    // Some pattern match no day: the thirtieth of February, or years that are over.
    let times = Times::Cron(Box::new((pattern, zone)));
    if times.after(0).is_none() {
        return Err(invalid("it never comes".to_owned()));
    }
    let Times::Cron(read) = times else {
        unreachable!("it was made a line above");
    };
    Ok(*read)
}

/// Slots of a pattern that are looked at for the shortest time between two of them: more than a week of hours.
const GAP_SLOTS: usize = 200;

impl Times {
    /// The first time after this one.
    pub(crate) fn after(&self, after_ms: Millis) -> Option<Millis> {
        match self {
            Self::Cron(cron) => {
                let (pattern, zone) = &**cron;
                // Patterns know whole seconds.
                let after = Timestamp::from_second(i64::try_from(after_ms / 1000).ok()?).ok()?;
                let next = pattern.find_next_occurrence(&after.to_zoned(zone.clone()), false);
                Millis::try_from(next.ok()?.timestamp().as_millisecond()).ok()
            }
            Self::Every { interval_ms, offset_ms } => {
                let Some(since) = after_ms.checked_sub(*offset_ms) else {
                    return Some(*offset_ms);
                };
                let slot = (since / interval_ms).checked_add(1)?.checked_mul(*interval_ms)?;
                slot.checked_add(*offset_ms)
            }
            Self::Once { at_ms } => (*at_ms > after_ms).then_some(*at_ms),
        }
    }

    /// The shortest time between two of the next ones, if there are two.
    pub(crate) fn shortest_gap_ms(&self, now: Millis) -> Option<Millis> {
        if let Self::Every { interval_ms, .. } = self {
            return Some(*interval_ms);
        }
        let next = std::iter::successors(self.after(now), |slot| self.after(*slot));
        let next: Vec<_> = next.take(GAP_SLOTS).collect();
        next.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min()
    }

    /// The first time for somebody who says so now. One time that is over counts all the same.
    pub(crate) fn first(&self, now: Millis) -> Option<Millis> {
        match self {
            Self::Once { at_ms } => Some(*at_ms),
            _ => self.after(now),
        }
    }

    /// The newest times from `first` on that are due now, at most so many, and the first that is not due.
    ///
    /// However long ago `first` is, this looks at little more than it gives: it begins close to now and goes back only
    /// as far as it has to.
    pub(crate) fn due(
        &self,
        first: Millis,
        most: usize,
        is_due: impl Fn(Millis) -> bool,
        now: Millis,
    ) -> (VecDeque<Millis>, Option<Millis>) {
        const HOUR_MS: Millis = 60 * 60 * 1000;
        let mut window = HOUR_MS;
        loop {
            let from = now.saturating_sub(window);
            let all = from <= first;
            let mut next = if all { Some(first) } else { self.after(from) };
            let mut due = VecDeque::new();
            while let Some(slot) = next.filter(|slot| is_due(*slot)) {
                due.push_back(slot);
                if due.len() > most {
                    due.pop_front();
                }
                next = self.after(slot);
            }
            if all || (due.len() >= most && most > 0) {
                return (due, next);
            }
            window = window.saturating_mul(4);
        }
    }
}

/// A time as text: the same for the same time, with as many digits as it needs.
pub(crate) fn in_utc(at_ms: Millis) -> String {
    let at = i64::try_from(at_ms).ok().map(Timestamp::from_millisecond);
    at.and_then(Result::ok)
        .map_or_else(|| at_ms.to_string(), |at| at.to_string())
}

/// A number of milliseconds, in the largest unit that it is whole in.
struct Span(Millis);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        let whole = units.iter().find(|(unit, _)| self.0.is_multiple_of(*unit));
        match whole {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests;
