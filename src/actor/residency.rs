//! Which residents have nothing to do, longest first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::actor::signal::{Leave, Signal};

/// Residents at rest without a running attempt. When memory is full, the one that has rested longest makes room.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    resting: Mutex<Resting>,
}

#[derive(Debug, Default)]
struct Resting {
    last: u64,
    signals: BTreeMap<u64, Arc<Signal>>,
}

impl Idle {
    /// A resident comes to rest. It is idle until what this gives is dropped.
    pub(crate) fn rest(&self, signal: &Arc<Signal>) -> Rest<'_> {
        let mut resting = self.resting();
        resting.last += 1;
        let number = resting.last;
        resting.signals.insert(number, Arc::clone(signal));
        Rest { idle: self, number }
    }

    /// Asks the one that has rested longest to leave.
    pub(crate) fn make_room(&self) {
        let longest = self.resting().signals.pop_first();
        if let Some((_, signal)) = longest {
            signal.ask_to_leave(Leave::IfIdle);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.resting().signals.len()
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rest that lasts until it is dropped.
pub(crate) struct Rest<'a> {
    idle: &'a Idle,
    number: u64,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.idle.resting().signals.remove(&self.number);
    }
}
