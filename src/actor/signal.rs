//! What is waiting for a resident: news, or the wish that it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Wake;

use tokio::sync::Notify;

use crate::engine::FromOutside;

/// Raised by whoever has news for an instance, awaited by its pump. It outlives the pump for as long as somebody
/// waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    leave: AtomicU8,
    /// How many want to have the instance alone ([`ONE`] for each), and whether it was let go of for them ([`LET_GO`]).
    wanted: AtomicU32,
    notify: Notify,
    gone: AtomicBool,
    farewell: Notify,
    /// Where the code of the instance is.
    at: Mutex<FromOutside>,
}

/// Whatever wakes the function of the instance from outside has news for it.
impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.raise() {
            self.notify();
        }
    }
}

const LET_GO: u32 = 1;
const ONE: u32 = 2;

/// Whether a resident is asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leave {
    /// Nobody asks.
    Stay,
    /// If it has nothing to do: its place is wanted.
    IfIdle,
    /// As soon as no attempt of it is running: the runtime stops.
    Settled,
    /// Whatever it does: somebody wants to have the instance alone. Its attempts are cancelled, and made again when it
    /// is next activated.
    Now,
}

impl Signal {
    /// Raises the signal. Tells whether it was down: only then does anybody have to be told.
    pub(crate) fn raise(&self) -> bool {
        !self.raised.swap(true, Ordering::AcqRel)
    }

    /// The code of the instance is there.
    pub(crate) fn is_at(&self, at: FromOutside) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Where the code of the instance is, as far as it is in memory.
    pub(crate) fn at(&self) -> FromOutside {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Somebody wants to have the instance alone.
    pub(crate) fn want(&self) {
        self.wanted.fetch_add(ONE, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Somebody no longer wants it. Tells whether that comes in time: what was let go of for them has to be taken.
    pub(crate) fn want_no_more(&self) -> bool {
        let fewer = |wanted: u32| (wanted & LET_GO == 0).then(|| wanted - ONE);
        self.wanted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
            .is_ok()
    }

    /// Whether somebody wants the instance alone. Whoever asks has to let go of it then: those who want it take it from
    /// here on, whatever becomes of them.
    pub(crate) fn lets_go(&self) -> bool {
        let let_go = |wanted: u32| (wanted > 0).then_some(wanted | LET_GO);
        self.wanted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, let_go)
            .is_ok()
    }

    /// What the pump is asked. If that is to leave now it has to: see [`Signal::lets_go`].
    pub(crate) fn leave(&self) -> Leave {
        if self.lets_go() {
            return Leave::Now;
        }
        match self.leave.load(Ordering::Acquire) {
            0 => Leave::Stay,
            1 => Leave::IfIdle,
            _ => Leave::Settled,
        }
    }

    /// Whether it was asked to leave and has not left yet.
    pub(crate) fn is_leaving(&self) -> bool {
        let asked = self.leave.load(Ordering::Acquire) > Leave::Stay as u8 || self.wanted.load(Ordering::Acquire) > 0;
        asked && !self.gone.load(Ordering::Acquire)
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
