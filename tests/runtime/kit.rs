//! A runtime in virtual time, and the workflows that most tests start.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep::chance::Chance;
use everstep::clock::Clock;
use everstep::storage::Pace;
use everstep::storage::engines::Memory;
use everstep::{Builder, Ctx, Message, Result, Runtime, Simulated, ok, workflow};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The beginning of 2030.
const BEGINNING_MS: u64 = 1_893_456_000_000;

/// The paused time of tokio, as a wall clock.
#[derive(Debug)]
struct Virtual(Instant);

impl Clock for Virtual {
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the simulation")]
    fn now_ms(&self) -> u64 {
        BEGINNING_MS + u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn wait_until(&self, at_ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pass(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))))
    }
}

/// Numbers that look random and are the same every time.
#[derive(Debug)]
struct Seeded(AtomicU64);

impl Chance for Seeded {
    fn draw(&self) -> u64 {
        let step = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }
}

/// A machine whose store lives as long as it is held: open it twice for a restart.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the simulation")]
pub(crate) fn machine() -> Simulated {
    Simulated {
        engine: Arc::new(Memory::new()),
        clock: Arc::new(Virtual(Instant::now())),
        chance: Arc::new(Seeded(AtomicU64::new(7))),
        pace: Pace::new(|| Box::pin(tokio::task::yield_now())),
    }
}

/// Opens a runtime in virtual time with all the workflows of this file.
pub(crate) async fn open() -> Runtime {
    everyone().open_simulated(machine()).await.unwrap()
}

/// A builder with all the workflows of this file.
pub(crate) fn everyone() -> Builder {
    Runtime::builder()
        .workflow(echo)
        .workflow(waits)
        .workflow(naps)
        .workflow(fails)
}

/// Lets virtual time pass. It moves on when nobody has anything to do, so this takes no time at all.
pub(crate) async fn pass(duration: Duration) {
    let over = tokio::time::timeout(duration, std::future::pending::<()>()).await;
    assert!(over.is_err(), "nothing ends what never ends");
}

/// A point in virtual time.
pub(crate) fn after(duration: Duration) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(BEGINNING_MS) + duration
}

#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct Word(pub(crate) u64);

/// Returns what it was given.
#[workflow]
pub(crate) async fn echo(ctx: Ctx<Echo>, number: u64) -> Result<u64> {
    ok(ctx.step("echo", move || async move { ok(number) }).await?)
}

/// Returns the words that it was sent, as many as it was told to wait for.
#[workflow(accepts(Word))]
pub(crate) async fn waits(ctx: Ctx<Waits>, count: usize) -> Result<Vec<u64>> {
    let mut words = Vec::new();
    while words.len() < count {
        words.push(ctx.receive::<Word>().await?.0);
    }
    ok(words)
}

/// Sleeps for so many seconds. The code is at its third version.
#[workflow(version = 3)]
pub(crate) async fn naps(ctx: Ctx<Naps>, seconds: u64) -> Result<u64> {
    ctx.sleep("nap", Duration::from_secs(seconds)).await?;
    ok(seconds)
}

/// Fails in a step, at the second attempt for good.
#[workflow]
pub(crate) async fn fails(ctx: Ctx<Fails>) -> Result<u64> {
    let work = || async { Err::<u64, _>(std::io::Error::other("no money")) };
    ok(ctx.step("charge", work).retries(1).delay("1s").await?)
}
