//! The seam for threads and tasks. Nothing else in the crate starts one.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

/// Starts a named thread.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Starts a task on the runtime that this is called from.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn task(body: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::spawn(body)
}

/// So many threads for user code, with a name that tells what they are.
pub(crate) fn workers(count: usize) -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(count)
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
pub(crate) struct Blocking(());

#[cfg(feature = "testing")]
thread_local! {
    static BLOCKING: (std::cell::Cell<usize>, std::sync::Arc<tokio::sync::Notify>) = Default::default();
}

#[cfg(feature = "testing")]
impl Blocking {
    pub(crate) fn begin() -> Self {
        BLOCKING.with(|(count, _)| count.set(count.get() + 1));
        Self(())
    }

    /// Waits for the end of one of them. Gives nothing to wait for if there is none.
    pub(crate) fn ended() -> Option<impl Future<Output = ()>> {
        let ended = BLOCKING.with(|(count, ended)| (count.get() > 0).then(|| std::sync::Arc::clone(ended)));
        ended.map(|ended| async move { ended.notified().await })
    }
}

#[cfg(feature = "testing")]
impl Drop for Blocking {
    fn drop(&mut self) {
        BLOCKING.with(|(count, ended)| {
            count.set(count.get() - 1);
            ended.notify_one();
        });
    }
}
