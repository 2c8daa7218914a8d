//! When a failed step is tried again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::storage::record::Failure;

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

/// How often, and how long apart, a failing step is tried.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub(crate) attempts: u32,
    pub(crate) delay: Duration,
    pub(crate) delay_max: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) jitter: bool,
}

impl Default for Retry {
    /// Three attempts, one second apart at first, doubling up to a minute, with jitter.
    fn default() -> Self {
        Self {
            attempts: 3,
            delay: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
            backoff: Backoff::Exponential,
            jitter: true,
        }
    }
}

impl Retry {
    /// The wait before the next attempt, or none if there is not going to be one. `seed` decides the jitter, so that
    /// the same failure waits equally long wherever it is asked.
    pub(crate) fn next(&self, attempts: u32, failure: &Failure, seed: u64) -> Option<Duration> {
        if attempts >= self.attempts || !failure.is_retryable() {
            return None;
        }
        let steps = attempts.saturating_sub(1);
        let wait = match &self.backoff {
            Backoff::Fixed => self.delay,
            Backoff::Linear => self.delay.saturating_mul(attempts.max(1)),
            Backoff::Exponential => self.delay.saturating_mul(2_u32.saturating_pow(steps.min(31))),
            Backoff::Function(wait) => wait(attempts),
        };
        let wait = wait.min(self.delay_max);
        Some(if self.jitter {
            jittered(wait, attempts, seed)
        } else {
            wait
        })
    }
}

/// Between half of a wait and all of it.
fn jittered(wait: Duration, attempts: u32, seed: u64) -> Duration {
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let part = xxh3_64_with_seed(&attempts.to_le_bytes(), seed) % (millis / 2 + 1);
    Duration::from_millis(millis - part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::record::FailureKind;

    fn waits(retry: &Retry, failure: &Failure) -> Vec<u64> {
        (1..)
            .map_while(|attempts| retry.next(attempts, failure, 7))
            .map(|wait| wait.as_millis() as u64)
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

    #[test]
    fn three_attempts_by_default_and_one_when_it_is_not_worth_it() {
        let kinds = |kind| waits(&Retry::default(), &Failure::new(kind, "no")).len();
        assert_eq!(kinds(FailureKind::Error), 2);
        assert_eq!(kinds(FailureKind::Panicked), 2);
        assert_eq!(kinds(FailureKind::Critical), 0);
        assert_eq!(kinds(FailureKind::Rollback), 0);
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
