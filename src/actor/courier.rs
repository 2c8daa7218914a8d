//! The courier: carries what instances have for each other, from their outboxes to where it goes.
//!
//! An outbox row is written in the commit that decides it, so it is there after any crash; the courier looks through
//! all of them when it starts, and whenever it is nudged. It delivers a row and then removes it, in one commit if both
//! ends lie in the same shard. Where they don't, a crash in between delivers it twice, and the second time is
//! recognised: at least once sent, once taken. What comes from one sender arrives in its order.
//!
//! **Architecture invariant:** the courier keeps nothing in memory that it could not do without. Whatever it was doing
//! when the process died, it does again.

mod blocked;
mod child;
mod closing;
mod delivery;
mod ending;
mod gate;
mod held;
mod orphan;
mod round;
mod terminate;
mod topic;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::spawn;

use ending::Endings;
use round::Round;

#[cfg(feature = "testing")]
pub(crate) use blocked::Blocked;
#[cfg(feature = "testing")]
pub(crate) use delivery::{Build, Delivery, Hand};
pub(crate) use orphan::{ends_of_children, ends_that_were_missed, missing_children};
#[cfg(feature = "testing")]
pub(crate) use round::outboxes;
pub(crate) use terminate::{cancel_commit, end_commit, terminate_commit};

/// The callers' side of the courier.
#[derive(Debug)]
pub(crate) struct Courier {
    signal: Arc<Signal>,
    task: JoinHandle<()>,
    endings: Arc<Endings>,
}

impl Courier {
    /// Starts the courier; it begins with what is in the outboxes.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let signal = Arc::new(Signal::default());
        let endings = Endings::new(&signal);
        // Not the whole runtime: it owns the courier.
        let round = Round::new(Arc::downgrade(shared), Arc::clone(&endings));
        let task = spawn::task(round.run(Arc::clone(&signal)));
        Self { signal, task, endings }
    }

    /// Says that something was put into an outbox.
    pub(crate) fn nudge(&self) {
        if self.signal.raise() {
            self.signal.notify();
        }
    }

    /// Stops carrying. What is in the outboxes stays there.
    pub(crate) fn stop(&self) {
        self.task.abort();
        self.endings.stop();
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.stop();
    }
}
