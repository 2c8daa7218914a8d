//! Which workflow function is being polled by this thread, if any.
//!
//! A context belongs to the function that was called with it. A step or another task that got hold of one runs
//! outside of that function's polls, perhaps at the same moment on another thread: so it is the thread that is asked,
//! not the journal.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Names one live function within the process. It is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Token {
    /// A token that no other live function has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether this thread is polling the function right now.
    pub(crate) fn is_polled_here(self) -> bool {
        CURRENT.get() == self.0
    }

    /// From now until the guard is dropped, this thread polls the function.
    pub(crate) fn poll_here(self) -> Polling {
        Polling {
            before: CURRENT.replace(self.0),
        }
    }
}

/// From now until the guard is dropped, this thread polls no function, although it may have been called by one.
pub(crate) fn poll_nothing() -> Polling {
    Polling {
        before: CURRENT.replace(0),
    }
}

/// While it lives, its thread polls a function, or none.
#[derive(Debug)]
pub(crate) struct Polling {
    before: u64,
}

impl Drop for Polling {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
