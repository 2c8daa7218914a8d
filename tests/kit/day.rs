//! A clock for a process that is killed: each process lives on a day of its own, and hours pass as fast as it goes.

use std::pin::Pin;
use std::time::Duration;

use everstep::clock::{Clock, Millis};
use tokio::time::Instant;

/// The beginning of 2030.
const BEGINNING_MS: Millis = 1_893_456_000_000;
const DAY_MS: Millis = 24 * 3_600_000;

/// The paused time of tokio, for one day: it stands still before midnight, however late the kill comes. So no process
/// gets into the day of the next.
#[derive(Debug)]
pub(crate) struct Day {
    begun: Instant,
    beginning_ms: Millis,
}

impl Day {
    /// The day with this number, which begins now.
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    pub(crate) fn new(number: u64) -> Self {
        Self {
            begun: Instant::now(),
            beginning_ms: BEGINNING_MS + number * DAY_MS,
        }
    }
}

impl Clock for Day {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn now_ms(&self) -> Millis {
        let gone = Millis::try_from(self.begun.elapsed().as_millis()).unwrap();
        self.beginning_ms + gone.min(DAY_MS - 1)
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if at_ms >= self.beginning_ms + DAY_MS {
            return Box::pin(std::future::pending());
        }
        Box::pin(pass(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))))
    }
}

/// Lets virtual time pass.
pub(crate) async fn pass(duration: Duration) {
    // An elapsed timeout is a wait.
    let _ = tokio::time::timeout(duration, std::future::pending::<()>()).await;
}
