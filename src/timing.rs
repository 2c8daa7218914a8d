//! When something is to happen again: by the calendar, at intervals, or once.

mod rule;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::whole_ms;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::limits::SCHEDULE_INTERVAL_MIN;

pub(crate) use rule::{Rule, Times, in_utc};

/// What can't be made times of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTiming {
    /// The text is not a cron pattern, or one that no day ever matches.
    #[error("`{text}` is not a cron pattern: {reason}")]
    Cron {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such time zone.
    #[error("there is no time zone `{0}`; write it as `Europe/Berlin` or `UTC`")]
    Zone(String),
    /// The interval is too short.
    #[error("an interval of {0:?} is too short: the shortest is {SCHEDULE_INTERVAL_MIN:?}")]
    Interval(Duration),
    /// The jitter is so long that slots would run into each other.
    #[error("a jitter of {jitter:?} is too long: it has to be shorter than the {gap:?} between two slots")]
    Jitter {
        /// What was given.
        jitter: Duration,
        /// The shortest time between two slots.
        gap: Duration,
    },
    /// The text is not a duration.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
}

impl InvalidTiming {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cron { .. } | Self::Interval(_) => "ES0121",
            Self::Zone(_) => "ES0122",
            Self::Jitter { .. } => "ES0123",
            Self::Duration(error) => error.code(),
        }
    }
}

/// Times by the calendar, as cron writes them: minute, hour, day of the month, month, day of the week. A sixth field
/// in front counts seconds, a seventh behind names years; `@daily` and its kin work as well.
///
/// ```
/// use everstep::Cron;
/// # use everstep::Timing;
///
/// let nightly = Cron::new("0 3 * * *").zone("Europe/Berlin");
/// # assert!(Timing::from(nightly).check().is_ok());
/// # assert_eq!(Timing::from(Cron::new("0 3 * *")).check().unwrap_err().code(), "ES0121");
/// ```
///
/// When clocks are set forward, what was to happen in the hour that is left out happens right after it; when they are
/// set back, what was to happen in the hour that comes twice happens once, the first time. A pattern with `*` or a step
/// in its minutes or hours goes on at its pace through both.
///
/// The zones are part of the program, so what a zone means does not depend on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    zone: String,
}

impl Cron {
    /// A pattern, in UTC. It is checked where it is used.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            text: pattern.into(),
            zone: "UTC".to_owned(),
        }
    }

    /// In this time zone, by its name in the IANA database.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }
}

/// Times at intervals. They are counted from the beginning of 1970, UTC, and not from when somebody said so: `10m` is
/// at ten past, twenty past and so on, whoever says it and how often.
///
/// ```
/// use everstep::Every;
/// # use everstep::Timing;
///
/// let at_three_past_and_so_on = Every::new("10m").offset("3m");
/// # assert!(Timing::from(at_three_past_and_so_on).check().is_ok());
/// # assert_eq!(Timing::from(Every::new("10ms")).check().unwrap_err().code(), "ES0121");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Every {
    interval: Result<Duration, InvalidDuration>,
    offset: Result<Duration, InvalidDuration>,
}

impl Every {
    /// Every so long, a second at least.
    pub fn new(interval: impl IntoDuration) -> Self {
        Self {
            interval: interval.into_duration(),
            offset: Ok(Duration::ZERO),
        }
    }

    /// So much later each time.
    #[must_use]
    pub fn offset(mut self, offset: impl IntoDuration) -> Self {
        self.offset = offset.into_duration();
        self
    }
}

/// One time.
///
/// ```
/// use everstep::Once;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let at_the_beginning_of_2030 = Once::at(UNIX_EPOCH + Duration::from_secs(1_893_456_000));
/// # assert!(everstep::Timing::from(at_the_beginning_of_2030).check().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Once(SystemTime);

impl Once {
    /// At this time.
    pub fn at(time: SystemTime) -> Self {
        Self(time)
    }
}

/// When something is to happen: a [`Cron`], an [`Every`] or a [`Once`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing(Result<Rule, InvalidTiming>);

impl Timing {
    /// Whether there is such a time. What takes a timing checks it too, before it does anything else.
    pub fn check(&self) -> Result<(), InvalidTiming> {
        self.times().map(|_| ())
    }

    /// The rule as it is stored.
    pub(crate) fn into_rule(self) -> Result<Rule, InvalidTiming> {
        self.check()?;
        self.0
    }

    fn times(&self) -> Result<Times, InvalidTiming> {
        self.0.as_ref().map_err(Clone::clone)?.times()
    }
}

impl From<Cron> for Timing {
    fn from(Cron { text, zone }: Cron) -> Self {
        Self(Ok(Rule::Cron { text, zone }))
    }
}

impl From<Every> for Timing {
    fn from(every: Every) -> Self {
        let rule = || {
            let interval = every.interval?;
            if interval < SCHEDULE_INTERVAL_MIN {
                return Err(InvalidTiming::Interval(interval));
            }
            let interval_ms = whole_ms(interval);
            let offset_ms = whole_ms(every.offset?) % interval_ms;
            Ok(Rule::Every { interval_ms, offset_ms })
        };
        Self(rule())
    }
}

impl From<Once> for Timing {
    fn from(Once(time): Once) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().into_duration();
        let rule = since.map(|since| Rule::Once { at_ms: whole_ms(since) });
        Self(rule.map_err(InvalidTiming::from))
    }
}
