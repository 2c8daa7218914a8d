//! What is waiting for a resident: news, or the wish that it leaves.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;

/// Raised by whoever has news for an instance, awaited by its pump. It outlives the pump for as long as somebody
/// waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    leave: AtomicU8,
    notify: Notify,
    gone: AtomicBool,
    farewell: Notify,
}

/// Whether a resident is asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leave {
    /// Nobody asks.
    Stay,
    /// If it has nothing to do: its place is wanted.
    IfIdle,
    /// As soon as no attempt of it is running: the runtime stops.
    Settled,
    /// Whatever it does. Its attempts are cancelled, and made again when it is next activated.
    Now,
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

    /// Asks the pump to leave. A stronger wish is not taken back by a weaker one.
    pub(crate) fn ask_to_leave(&self, leave: Leave) {
        self.leave.fetch_max(leave as u8, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// What the pump is asked.
    pub(crate) fn leave(&self) -> Leave {
        match self.leave.load(Ordering::Acquire) {
            0 => Leave::Stay,
            1 => Leave::IfIdle,
            2 => Leave::Settled,
            _ => Leave::Now,
        }
    }

    /// A wish that the pump could not follow is over.
    pub(crate) fn stay(&self) {
        let _ = self.leave.compare_exchange(
            Leave::IfIdle as u8,
            Leave::Stay as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// The pump is gone, and its place in the directory is free.
    pub(crate) fn say_farewell(&self) {
        self.gone.store(true, Ordering::Release);
        self.farewell.notify_waiters();
    }

    /// Waits until the pump is gone.
    pub(crate) async fn gone(&self) {
        let farewell = self.farewell.notified();
        tokio::pin!(farewell);
        farewell.as_mut().enable();
        if !self.gone.load(Ordering::Acquire) {
            farewell.await;
        }
    }
}
