//! The threads of a runtime: those of user code, that of the services, and the watchdog.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use crate::actor::{self, Shared};
use crate::handle::{Error, Result};
use crate::limits::THREADS_END;
use crate::spawn;

/// Dropped, they are told to end and not waited for: some of what runs there may never end, and a runtime may be dropped
/// inside another one, where nobody may wait.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// Of user code.
    workers: Option<Runtime>,
    /// Of the services.
    system: Option<Runtime>,
    watchdog: Option<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    /// It ends when this is dropped.
    alive: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Threads {
    /// So many threads for user code, and at most so many more for what blocks in it.
    pub(super) fn start(workers: usize, blocking: usize) -> Result<Self> {
        let mut threads = Self::default();
        threads.workers = Some(spawn::workers(workers, blocking).map_err(refused)?);
        threads.system = Some(spawn::system().map_err(refused)?);
        Ok(threads)
    }

    /// Where user code runs, and where the services do.
    pub(super) fn handles(&self) -> (Handle, Handle) {
        let handle =
            |threads: &Option<Runtime>| threads.as_ref().map_or_else(Handle::current, |it| it.handle().clone());
        (handle(&self.workers), handle(&self.system))
    }

    /// Has what runs there watched.
    pub(super) fn watch(&mut self, shared: &Arc<Shared>, every: Duration) -> Result<()> {
        let shared = Arc::downgrade(shared);
        let (alive, end) = mpsc::channel();
        let thread = spawn::thread("everstep-watchdog", move || actor::watch(&shared, every, &end)).map_err(refused)?;
        self.watchdog = Some(Watchdog { alive, thread });
        Ok(())
    }

    /// Ends them, and waits until everything that ran there is gone, with all that it held; where something blocks its
    /// thread, for a while only. The wait has a thread of its own: whoever stops a runtime may be one of those who end.
    pub(super) async fn ended(self) {
        if self.workers.is_none() {
            return;
        }
        let (ending, ended) = oneshot::channel::<()>();
        let waiting = spawn::thread("everstep-end", move || {
            self.end();
            drop(ending);
        });
        match waiting {
            // Nothing is ever sent: it is dropped when they have ended.
            Ok(_) => drop(ended.await),
            Err(error) => tracing::warn!(%error, "no thread to wait for the end of the others"),
        }
    }

    fn end(mut self) {
        for threads in [self.workers.take(), self.system.take()].into_iter().flatten() {
            threads.shutdown_timeout(THREADS_END);
        }
        if let Some(Watchdog { alive, thread }) = self.watchdog.take() {
            drop(alive);
            if thread.join().is_err() {
                tracing::error!("the watchdog had panicked");
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for threads in [self.workers.take(), self.system.take()].into_iter().flatten() {
            threads.shutdown_background();
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn refused(error: std::io::Error) -> Error {
    Error::Start(error.to_string())
}
