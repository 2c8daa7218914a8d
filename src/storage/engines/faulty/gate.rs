//! Where a test stops a call and lets it go on.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Holds up calls until the test opens it, or drops it: a test that fails does not leave a thread behind for ever.
#[derive(Debug, Default)]
pub struct Gate {
    latch: Latch,
}

/// The side of a [`Gate`] that a plan gets: what passes here waits until the gate is open.
#[derive(Debug, Clone, Default)]
pub struct Latch {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    arrived: u64,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// What goes into the plan.
    pub fn latch(&self) -> Latch {
        self.latch.clone()
    }

    /// Waits until that many calls have arrived in all.
    pub fn wait(&self, calls: u64) {
        let (state, changed) = &*self.latch.shared;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(state, |state| state.arrived < calls));
    }

    /// Lets through what waits and whatever comes.
    pub fn open(&self) {
        let (state, changed) = &*self.latch.shared;
        state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Latch {
    /// Arrives, and waits until the gate is open.
    pub(super) fn pass(&self) {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |state| !state.open));
    }
}
