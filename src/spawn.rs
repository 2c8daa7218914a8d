//! The seam for threads and tasks. Nothing else in the crate starts one.

#[cfg(feature = "testing")]
mod turns;

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::thread::JoinHandle;

use futures_util::FutureExt;

use crate::limits::{SERVICE_BACKOFF, WORKER_STACK_BYTES};

#[cfg(feature = "testing")]
pub use turns::Turns;
#[cfg(feature = "testing")]
use turns::in_turn;

/// The same: tasks take their turns as the executor has it.
#[cfg(not(feature = "testing"))]
fn in_turn<F: Future<Output = ()>>(body: F) -> F {
    body
}

/// Starts a named thread.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Starts a task on the runtime that this is called from.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn task(body: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::spawn(in_turn(body))
}

/// Starts a task on this runtime. One that has ended drops it.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn task_on(runtime: &tokio::runtime::Handle, body: impl Future<Output = ()> + Send + 'static) {
    drop(runtime.spawn(in_turn(body)));
}

/// Starts something that runs for as long as a runtime does. If it panics it begins again after a while: the others rely
/// on it.
pub(crate) fn service<F>(name: &'static str, body: impl Fn() -> F + Send + 'static) -> tokio::task::JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    task(async move {
        while AssertUnwindSafe(body()).catch_unwind().await.is_err() {
            tracing::error!(service = name, "a service of the runtime panicked; it begins again");
            tokio::time::sleep(SERVICE_BACKOFF).await;
        }
    })
}

/// A thread for what keeps a runtime going: it needs neither the threads of user code, which may block, nor those of
/// whoever opened the runtime, which may end.
pub(crate) fn system() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("everstep-system")
        .enable_all()
        .build()
}

/// So many threads for user code, with a name that tells what they are, and at most so many more for what blocks.
pub(crate) fn workers(count: usize, blocking: usize) -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(count)
        .max_blocking_threads(blocking)
        .thread_stack_size(WORKER_STACK_BYTES)
        .thread_name("everstep-worker")
        .enable_all()
        .build()
}

/// How many threads this machine runs at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs something that blocks where it may.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(body)
}

/// Something that blocks and that this thread waits for. With one thread for everything else, as in a test, there is
/// more to come as long as there is one.
#[cfg(feature = "testing")]
pub(crate) struct Blocking(std::sync::Arc<Blockings>);

/// Those of one thread. Where there are several, one may end in another than it began in.
#[cfg(feature = "testing")]
#[derive(Default)]
struct Blockings {
    count: std::sync::atomic::AtomicUsize,
    ended: tokio::sync::Notify,
}

#[cfg(feature = "testing")]
thread_local! {
    static BLOCKING: std::sync::Arc<Blockings> = std::sync::Arc::default();
}

#[cfg(feature = "testing")]
impl Blocking {
    pub(crate) fn begin() -> Self {
        let blockings = BLOCKING.with(std::sync::Arc::clone);
        blockings.count.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        Self(blockings)
    }

    /// Waits for the end of one of them. Gives nothing to wait for if there is none.
    pub(crate) fn ended() -> Option<impl Future<Output = ()>> {
        let blockings = BLOCKING.with(std::sync::Arc::clone);
        let any = blockings.count.load(std::sync::atomic::Ordering::Acquire) > 0;
        any.then_some(async move { blockings.ended.notified().await })
    }
}

#[cfg(feature = "testing")]
impl Drop for Blocking {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, std::sync::atomic::Ordering::AcqRel);
        self.0.ended.notify_one();
    }
}
