//! The seam for threads and tasks. Nothing else in the crate starts one.

use std::io;
use std::thread::JoinHandle;

/// Starts a named thread.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
pub(crate) fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}
