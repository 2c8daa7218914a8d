//! The seam for time. Nothing else in the crate asks the machine what time it is.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// Where the wall-clock time comes from.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall-clock time now. It may jump in both directions.
    fn now_ms(&self) -> Millis;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    fn now_ms(&self) -> Millis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since_epoch.as_millis()).unwrap_or(Millis::MAX)
    }
}
