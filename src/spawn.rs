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

/// Runs something that blocks where it may.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(body)
}
