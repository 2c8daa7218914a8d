//! How much waits for the committer, in bytes.
//!
//! The queue bounds how many commits wait, and a commit may be megabytes. So whoever wants to hand one over waits while
//! too much is on its way. The bound is passed by what was handed over at the same moment and no further: between
//! looking and handing over nobody waits for anything.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::limits::COMMIT_QUEUE_BYTES_MAX;

/// The bytes of all commits that were handed over and not answered.
#[derive(Debug, Default)]
pub(super) struct Load {
    bytes: AtomicUsize,
    lighter: Notify,
}

impl Load {
    pub(super) fn is_heavy(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= COMMIT_QUEUE_BYTES_MAX
    }

    /// Waits until it is not heavy.
    pub(super) async fn lightens(&self) {
        while self.is_heavy() {
            let mut lighter = std::pin::pin!(self.lighter.notified());
            // Looked at once more when it can't be missed any longer.
            lighter.as_mut().enable();
            if self.is_heavy() {
                lighter.await;
            }
        }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before >= COMMIT_QUEUE_BYTES_MAX {
            self.lighter.notify_waiters();
        }
    }
}
