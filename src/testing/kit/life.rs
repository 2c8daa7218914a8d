//! The life of one process: a runtime on an executor of its own, in virtual time.
//!
//! The time of the executor is paused and moves on by itself when nobody has anything to do, from one timer to the
//! next. So nothing is waited for, and what happens follows from the seed alone.
//!
//! Whether anybody still has something to do at this moment is asked of the executor itself: before its only thread
//! goes to sleep it says so.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::disk::Disk;
use super::seeded::Seeded;
use crate::clock::{Clock, Millis};
use crate::limits::TIMER_MAX;
use crate::runtime::{Builder, Runtime, Simulated};
use crate::spawn::Blocking;
use crate::storage::Pace;

/// The time of the executor, as a wall clock.
#[derive(Debug)]
pub(super) struct Virtual {
    begun: Instant,
    begun_ms: Millis,
}

impl Virtual {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn new(begun_ms: Millis) -> Self {
        let begun = Instant::now();
        Self { begun, begun_ms }
    }

    /// Waits until it is this late, however long that is.
    pub(super) async fn pass_until(&self, at_ms: Millis) {
        while self.now_ms() < at_ms {
            self.wait_until(at_ms).await;
        }
    }
}

impl Clock for Virtual {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn now_ms(&self) -> Millis {
        let gone = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(Millis::MAX);
        self.begun_ms.saturating_add(gone)
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Duration::from_millis(at_ms.saturating_sub(self.now_ms())).min(TIMER_MAX);
        Box::pin(tokio::time::sleep(wait))
    }
}

/// Tells when the executor has nothing more to do at this moment.
#[derive(Debug, Default)]
struct Quiet(Mutex<(bool, Option<Waker>)>);

impl Quiet {
    /// The thread is about to sleep.
    fn sleeps(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = state.1.take() {
            state.0 = true;
            waker.wake();
        }
    }

    /// Waits until nobody has anything to do at this moment.
    async fn quiet(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = false;
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A process.
pub(super) struct Life {
    /// Taken when it ends.
    runtime: Option<Runtime>,
    executor: Option<tokio::runtime::Runtime>,
    quiet: Arc<Quiet>,
    clock: Arc<Virtual>,
    disk: Disk,
}

impl Life {
    /// Begins a process at this time; none if it died of it.
    pub(super) fn begin(builder: Builder, disk: Disk, chance: Arc<Seeded>, now_ms: Millis) -> Option<Self> {
        let quiet = Arc::new(Quiet::default());
        let parking = Arc::clone(&quiet);
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .on_thread_park(move || parking.sleeps())
            .build()
            .expect("an executor of one thread can be made");
        let opening = async {
            let clock = Arc::new(Virtual::new(now_ms));
            let machine = Simulated {
                engine: Arc::new(disk.clone()),
                clock: Arc::<Virtual>::clone(&clock),
                chance,
                pace: Pace::default(),
            };
            let opened = disk.alive(builder.open_simulated(machine)).await?;
            Some((clock, opened.expect("a runtime in memory opens")))
        };
        let (clock, runtime) = executor.block_on(opening)?;
        Some(Self {
            runtime: Some(runtime),
            executor: Some(executor),
            quiet,
            clock,
            disk,
        })
    }

    pub(super) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a life has a runtime until it ends")
    }

    pub(super) fn clock(&self) -> &Virtual {
        &self.clock
    }

    fn executor(&self) -> &tokio::runtime::Runtime {
        self.executor.as_ref().expect("a life has an executor until it ends")
    }

    /// The virtual time.
    pub(super) fn now_ms(&self) -> Millis {
        let _inside = self.executor().enter();
        self.clock.now_ms()
    }

    /// Runs something inside the process; none if the process died meanwhile.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.executor().block_on(self.disk.alive(work))
    }

    /// Waits until everything has happened that can happen at this moment.
    pub(super) async fn settle(&self) {
        loop {
            self.quiet.quiet().await;
            match Blocking::ended() {
                Some(ended) => ended.await,
                None => return,
            }
        }
    }
}

impl Drop for Life {
    /// The process dies: what is not on disk is gone.
    fn drop(&mut self) {
        if let Some(executor) = self.executor.take() {
            {
                let _inside = executor.enter();
                self.runtime = None;
            }
            // A step that blocks its thread is not waited for.
            executor.shutdown_background();
        }
    }
}
