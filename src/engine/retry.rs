//! When a failed step is tried again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::whole_ms;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::limits::DURATION_MAX;
use crate::storage::record::{Failure, FailureKind};

/// How far waits grow that nobody set a bound for.
const GROWN_MAX: Duration = Duration::from_secs(60);

/// How long to wait before the next attempt.
#[derive(Clone)]
#[non_exhaustive]
pub enum Backoff {
    /// Twice as long each time.
    Exponential,
    /// Longer by the same amount each time.
    Linear,
    /// Always the same.
    Fixed,
    /// As this function says, given the number of attempts so far.
    Function(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exponential => "Exponential",
            Self::Linear => "Linear",
            Self::Fixed => "Fixed",
            Self::Function(_) => "Function",
        })
    }
}

/// Says whether a failure is worth another attempt.
pub(crate) type Worth = Arc<dyn Fn(&Failure) -> bool + Send + Sync>;

/// What follows from a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, after this long.
    After(Duration),
    /// There were as many as there may be.
    Exhausted,
    /// Another one would not help.
    NotWorthIt,
}

/// How often, and how long apart, a failing step is tried.
///
/// ```
/// use everstep::{Backoff, Retry};
///
/// let retry = Retry::default()
///     .attempts(10)
///     .delay("200ms")
///     .delay_max("5s")
///     .backoff(Backoff::Linear)
///     .only_if(|failure| !failure.message.contains("no such user"));
/// # let _ = retry;
/// ```
#[derive(Clone)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub(crate) attempts: u32,
    pub(crate) delay: Duration,
    /// The longest wait, if somebody said so.
    pub(crate) delay_max: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) jitter: bool,
    pub(crate) worth: Option<Worth>,
    /// What was said and is no time: whoever is given this is told.
    pub(crate) invalid: Option<Box<InvalidDuration>>,
}

impl Default for Retry {
    /// Three attempts, one second apart at first, doubling up to a minute, with jitter.
    fn default() -> Self {
        Self {
            attempts: 3,
            delay: Duration::from_secs(1),
            delay_max: None,
            backoff: Backoff::Exponential,
            jitter: true,
            worth: None,
            invalid: None,
        }
    }
}

impl Retry {
    /// Attempts in all, the first included; it is made in any case, so none is taken for one.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        let attempts = attempts.max(1);
        Self { attempts, ..self }
    }

    /// The wait before the second attempt. Those after it grow up to a minute or to this, whichever is longer.
    #[must_use]
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        self.time(delay, |retry, delay| retry.delay = delay)
    }

    /// The longest wait, also where a [function](Backoff::Function) says how long it is.
    #[must_use]
    pub fn delay_max(self, delay_max: impl IntoDuration) -> Self {
        self.time(delay_max, |retry, delay_max| retry.delay_max = Some(delay_max))
    }

    fn time(mut self, time: impl IntoDuration, set: impl FnOnce(&mut Self, Duration)) -> Self {
        match time.into_duration() {
            Ok(time) => set(&mut self, time),
            Err(error) => self.invalid = Some(Box::new(error)),
        }
        self
    }

    /// How waits grow.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Waits exactly as long as it says, instead of between half of it and all.
    #[must_use]
    pub fn without_jitter(self) -> Self {
        let jitter = false;
        Self { jitter, ..self }
    }

    /// Only failures of which `worth` says so are tried again. It is asked about what the step's own code came to: an
    /// attempt that ended with its process, or that fell silent, says nothing about the work, and is tried again.
    #[must_use]
    pub fn only_if(self, worth: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        let worth: Option<Worth> = Some(Arc::new(worth));
        Self { worth, ..self }
    }

    /// What follows from a failure that could be tried again. `seed` decides the jitter, so that the same failure waits
    /// equally long wherever it is asked.
    pub(crate) fn next(&self, attempts: u32, failure: &Failure, seed: u64) -> Next {
        // Both functions are the user's: one that panics ends the step, not the process.
        let says_something = !matches!(failure.kind, FailureKind::Crashed | FailureKind::Silent);
        let worth = self.worth.as_ref().filter(|_| says_something);
        let worth = || worth.is_none_or(|worth| worth(failure));
        if !catch_unwind(AssertUnwindSafe(worth)).unwrap_or(false) {
            return Next::NotWorthIt;
        }
        if attempts >= self.attempts {
            return Next::Exhausted;
        }
        let Ok(wait) = catch_unwind(AssertUnwindSafe(|| self.wait(attempts))) else {
            return Next::NotWorthIt;
        };
        let wait = wait.min(self.longest());
        Next::After(if self.jitter {
            jittered(wait, attempts, seed)
        } else {
            wait
        })
    }

    /// The longest wait: what grows by itself is held in check, what somebody asked for is not.
    fn longest(&self) -> Duration {
        let longest = match (self.delay_max, &self.backoff) {
            (Some(longest), _) => longest,
            (None, Backoff::Function(_)) => DURATION_MAX,
            (None, _) => GROWN_MAX.max(self.delay),
        };
        longest.min(DURATION_MAX)
    }

    fn wait(&self, attempts: u32) -> Duration {
        let steps = attempts.saturating_sub(1);
        match &self.backoff {
            Backoff::Fixed => self.delay,
            Backoff::Linear => self.delay.saturating_mul(attempts.max(1)),
            Backoff::Exponential => self.delay.saturating_mul(2_u32.saturating_pow(steps.min(31))),
            Backoff::Function(wait) => wait(attempts),
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("delay", &self.delay)
            .field("delay_max", &self.delay_max)
            .field("backoff", &self.backoff)
            .field("jitter", &self.jitter)
            .field("only_if", &self.worth.is_some())
            .finish()
    }
}

/// Between half of a wait and all of it.
fn jittered(wait: Duration, attempts: u32, seed: u64) -> Duration {
    let millis = whole_ms(wait);
    let part = xxh3_64_with_seed(&attempts.to_le_bytes(), seed) % (millis / 2 + 1);
    Duration::from_millis(millis - part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retry: &Retry, failure: &Failure) -> Vec<u64> {
        (1..)
            .map_while(|attempts| match retry.next(attempts, failure, 7) {
                Next::After(wait) => Some(wait.as_millis() as u64),
                Next::Exhausted | Next::NotWorthIt => None,
            })
            .collect()
    }

    fn retry(backoff: Backoff) -> Retry {
        Retry {
            attempts: 9,
            backoff,
            jitter: false,
            ..Retry::default()
        }
    }

    #[test]
    fn waits_grow_as_asked_and_are_capped() {
        let error = Failure::new(FailureKind::Error, "no");
        assert_eq!(waits(&retry(Backoff::Fixed), &error), [1_000; 8]);
        assert_eq!(waits(&retry(Backoff::Linear), &error)[..3], [1_000, 2_000, 3_000]);
        assert_eq!(
            waits(&retry(Backoff::Exponential), &error)[4..],
            [16_000, 32_000, 60_000, 60_000]
        );
        let function = Backoff::Function(Arc::new(|attempts| Duration::from_millis(u64::from(attempts) * 7)));
        assert_eq!(waits(&retry(function), &error)[..2], [7, 14]);
    }

    /// Found in review: a minute was the longest wait whatever had been asked for, so ten minutes were one.
    #[test]
    fn a_wait_that_was_asked_for_is_not_capped() {
        let error = Failure::new(FailureKind::Error, "no");
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        for backoff in [Backoff::Fixed, Backoff::Linear, Backoff::Exponential] {
            let waited = waits(&retry(backoff.clone()).delay(minutes(10)), &error);
            assert_eq!(waited, [600_000; 8], "{backoff:?}");
        }
        let function = Backoff::Function(Arc::new(move |attempts| minutes(u64::from(attempts))));
        assert_eq!(waits(&retry(function.clone()), &error)[6..], [420_000, 480_000]);
        let capped = retry(function).delay_max(minutes(2));
        assert_eq!(waits(&capped, &error)[..3], [60_000, 120_000, 120_000]);
        let endless = Backoff::Function(Arc::new(|_| Duration::MAX));
        assert_eq!(retry(endless).next(1, &error, 7), Next::After(DURATION_MAX));
    }

    #[test]
    fn three_attempts_by_default_and_one_when_it_is_not_worth_it() {
        let error = Failure::new(FailureKind::Error, "no");
        assert_eq!(waits(&Retry::default(), &error).len(), 2);
        assert_eq!(Retry::default().next(3, &error, 7), Next::Exhausted);
        let never = Retry::default().only_if(|failure| failure.message != "no");
        assert_eq!(never.next(1, &error, 7), Next::NotWorthIt);
        assert_eq!(waits(&never, &Failure::new(FailureKind::Error, "yes")).len(), 2);
    }

    /// Found in review: a predicate that names the errors that pass was asked about a crash of the process, and made one
    /// the end of the step.
    #[test]
    fn a_crash_is_not_judged_by_a_predicate_for_errors() {
        let picky = Retry::default().only_if(|failure| failure.message.contains("unavailable"));
        for kind in [FailureKind::Crashed, FailureKind::Silent] {
            let crash = Failure::new(kind, "the process ended");
            assert!(matches!(picky.next(1, &crash, 7), Next::After(_)), "{kind:?}");
            assert_eq!(picky.next(3, &crash, 7), Next::Exhausted, "{kind:?}");
        }
    }

    #[test]
    fn a_function_that_panics_ends_the_step() {
        let error = Failure::new(FailureKind::Error, "no");
        let worth = Retry::default().only_if(|_| panic!("in the predicate"));
        assert_eq!(worth.next(1, &error, 7), Next::NotWorthIt);
        let wait = Retry::default().backoff(Backoff::Function(Arc::new(|_| panic!("in the function"))));
        assert_eq!(wait.next(1, &error, 7), Next::NotWorthIt);
    }

    #[test]
    fn jitter_stays_between_half_and_all_and_is_the_same_for_the_same_seed() {
        for seed in 0..100 {
            let wait = jittered(Duration::from_millis(1_000), 1, seed).as_millis();
            assert!((500..=1_000).contains(&wait), "{wait}");
            assert_eq!(wait, jittered(Duration::from_millis(1_000), 1, seed).as_millis());
        }
    }
}
