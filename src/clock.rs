//! The seam for time. Nothing else in the crate asks the machine what time it is.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::{CLOCK_WAIT_MAX, TIMER_MAX};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// A time as people have it. What lies before the epoch is the epoch.
pub(crate) fn wall_ms(time: SystemTime) -> Millis {
    time.duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

/// So many whole milliseconds; for ever, if there are too many to count.
pub(crate) fn whole_ms(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// Where the wall-clock time comes from.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall-clock time now. It may jump in both directions.
    fn now_ms(&self) -> Millis;

    /// Waits until the wall clock shows `at_ms`, or a while less: whoever waits looks at the clock again.
    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Measures how long something takes, by a clock that does not jump.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    /// Begins to measure.
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    /// How long it has been.
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Lets so much time pass, by a clock that does not jump: whoever waits for a while waits for as long, whatever somebody
/// does to the wall clock meanwhile.
pub(crate) async fn pass(duration: Duration) {
    let watch = Stopwatch::start();
    loop {
        let rest = duration.saturating_sub(watch.elapsed());
        if rest.is_zero() {
            return;
        }
        tokio::time::sleep(rest.min(TIMER_MAX)).await;
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    fn now_ms(&self) -> Millis {
        wall_ms(SystemTime::now())
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Duration::from_millis(at_ms.saturating_sub(self.now_ms())).min(CLOCK_WAIT_MAX);
        Box::pin(tokio::time::sleep(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 24: a clock that is set forward is noticed. Nothing tells that it was, so whoever waits looks again.
    #[tokio::test(start_paused = true)]
    async fn no_wait_for_a_time_is_long() {
        for far in [Duration::from_secs(3_600), Duration::from_secs(100 * 365 * 24 * 3_600)] {
            let watch = Stopwatch::start();
            let far = Millis::try_from(far.as_millis()).unwrap();
            SystemClock.wait_until(SystemClock.now_ms() + far).await;
            assert_eq!(watch.elapsed(), CLOCK_WAIT_MAX);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_while_is_as_long_as_it_is() {
        for while_ in [
            Duration::ZERO,
            Duration::from_millis(7),
            3 * TIMER_MAX + Duration::from_millis(1),
        ] {
            let watch = Stopwatch::start();
            pass(while_).await;
            assert_eq!(watch.elapsed(), while_);
        }
    }
}
