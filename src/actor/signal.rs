//! A nudge that is waiting: raised any number of times, noticed once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Raised by whoever has news for an instance, awaited by its pump.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    notify: Notify,
}

impl Signal {
    /// Raises the signal. Tells whether it was down: only then does anybody have to be told.
    pub(crate) fn raise(&self) -> bool {
        !self.raised.swap(true, Ordering::AcqRel)
    }

    /// Tells the pump to look.
    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }

    /// Takes the signal down. Tells whether it was up.
    pub(crate) fn lower(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    /// Whether the signal is up.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits to be told to look.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }
}
