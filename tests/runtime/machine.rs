//! A simulated machine: a disk in memory, a clock that can be set.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep::clock::{Clock, Millis};
use everstep::storage::Pace;
use everstep::storage::engine::Engine;
use everstep::storage::engines::Memory;
use everstep::{Builder, Config, Ctx, Result, Runtime, Simulated, ok, workflow};
use tokio::time::Instant;

/// The beginning of 2030.
const BEGINNING_MS: i64 = 1_893_456_000_000;

/// A machine whose disk outlives the runtimes on it.
pub(crate) struct Machine {
    pub(crate) disk: Memory,
    pub(crate) clock: Arc<Wall>,
    /// How long the disk takes to begin a group.
    pub(crate) yields: u32,
}

/// The time of the executor, and how far somebody has set it off.
#[derive(Debug)]
pub(crate) struct Wall {
    begun: Instant,
    set_ms: AtomicI64,
    /// How long one waits before one looks again whether somebody has set it.
    looks: Duration,
}

impl Wall {
    /// Somebody sets the clock.
    pub(crate) fn jump(&self, by: Duration, back: bool) {
        let by = by.as_millis() as i64;
        self.set_ms.fetch_add(if back { -by } else { by }, Ordering::Relaxed);
    }
}

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn now_ms(&self) -> Millis {
        let gone = Instant::now().duration_since(self.begun).as_millis() as i64;
        (self.set_ms.load(Ordering::Relaxed) + gone) as u64
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Duration::from_millis(at_ms.saturating_sub(self.now_ms())).min(self.looks);
        Box::pin(async move {
            // An elapsed timeout is a wait.
            let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        })
    }
}

#[derive(Debug)]
struct Counter(Mutex<u64>);

impl everstep::chance::Chance for Counter {
    fn draw(&self) -> u64 {
        let mut last = self.0.lock().unwrap();
        *last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *last
    }
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::looking(Duration::from_secs(10))
    }

    /// One whose clock nobody sets: then a year takes no more looks at it than things happen in it.
    pub(crate) fn steady() -> Self {
        Self::looking(Duration::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn looking(looks: Duration) -> Self {
        let clock = Wall {
            begun: Instant::now(),
            set_ms: AtomicI64::new(BEGINNING_MS),
            looks,
        };
        Self {
            disk: Memory::new(),
            clock: Arc::new(clock),
            yields: 0,
        }
    }

    /// Opens a runtime on this machine.
    pub(crate) async fn open(&self, builder: Builder, config: Config) -> Runtime {
        let simulated = self.simulated(self.disk.clone());
        builder.config(config).open_simulated(simulated).await.unwrap()
    }

    /// This machine, with another disk.
    pub(crate) fn simulated(&self, disk: impl Engine + 'static) -> Simulated {
        let times = self.yields;
        Simulated {
            engine: Arc::new(disk),
            clock: Arc::<Wall>::clone(&self.clock),
            chance: Arc::new(Counter(Mutex::new(7))),
            pace: Pace::new(move || Box::pin(yields(times))),
        }
    }

    /// Opens a runtime that lets nobody in any more: what is started waits in the store. The instance that takes the only
    /// place goes on for ever, also in later runtimes, which have to know `crowds`.
    pub(crate) async fn open_crowded(&self, builder: Builder) -> Runtime {
        let runtime = self
            .open(builder.workflow(crowds), Config::default().residents_max(1))
            .await;
        runtime.start(crowds, ()).id("crowds").await.unwrap();
        settle().await;
        runtime
    }
}

/// Takes a place in memory and keeps it.
#[workflow]
pub(crate) async fn crowds(ctx: Ctx<Crowds>) -> Result<()> {
    let work = || async {
        std::future::pending::<()>().await;
        ok(())
    };
    ok(ctx.step("for ever", work).await?)
}

/// Runs a test in one thread and virtual time. What does not end within a year of it never does.
pub(crate) fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let year = Duration::from_secs(366 * 24 * 60 * 60);
    executor
        .block_on(async { tokio::time::timeout(year, test).await })
        .expect("the test ends within a year of virtual time")
}

/// Lets everything happen that can happen now.
pub(crate) async fn settle() {
    yields(500).await;
}

/// Lets others go first, so often.
pub(crate) async fn yields(times: u32) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}
