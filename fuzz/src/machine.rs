//! A machine without a disk and without time, for targets that need more than a function.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep::Simulated;
use everstep::chance::Chance;
use everstep::clock::Clock;
use everstep::storage::Pace;
use everstep::storage::engines::Memory;
use tokio::time::Instant;

/// The beginning of 2030.
const BEGINNING_MS: u64 = 1_893_456_000_000;

/// The paused time of tokio, as a wall clock.
#[derive(Debug)]
struct Virtual(Instant);

impl Clock for Virtual {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn now_ms(&self) -> u64 {
        BEGINNING_MS + self.0.elapsed().as_millis() as u64
    }

    fn wait_until(&self, at_ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(
            at_ms.saturating_sub(self.now_ms()),
        )))
    }
}

/// Numbers that look random and are the same every time.
#[derive(Debug)]
struct Counted(AtomicU64);

impl Chance for Counted {
    fn draw(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

/// A machine with this disk.
#[expect(clippy::disallowed_methods, reason = "this is a clock")]
pub(crate) fn machine(disk: &Memory) -> Simulated {
    Simulated {
        engine: Arc::new(disk.clone()),
        clock: Arc::new(Virtual(Instant::now())),
        chance: Arc::new(Counted(AtomicU64::new(7))),
        pace: Pace::default(),
    }
}

/// Runs something in one thread, where waiting takes no time.
pub(crate) fn in_virtual_time<T>(what: impl Future<Output = T>) -> T {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    executor.expect("a runtime of one thread needs nothing").block_on(what)
}
