//! Nudges that a simulation loses (feature `testing`).

use std::sync::OnceLock;

/// Says which nudges are lost; none, unless it is set.
#[derive(Default)]
pub(super) struct Lost(OnceLock<Box<dyn Fn() -> bool + Send + Sync>>);

impl Lost {
    /// Sets it, once.
    pub(super) fn set(&self, lost: Box<dyn Fn() -> bool + Send + Sync>) {
        // A second one would make what is lost depend on who came first.
        assert!(self.0.set(lost).is_ok(), "what is lost is said once");
    }

    /// Whether this nudge is lost.
    pub(super) fn loses(&self) -> bool {
        self.0.get().is_some_and(|lost| lost())
    }
}

impl std::fmt::Debug for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lost").field(&self.0.get().is_some()).finish()
    }
}
