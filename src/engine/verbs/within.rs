//! Waits that give none when the time is over.

/// A wait that gives none when the time is over, instead of an error; await it.
#[must_use = "nothing is waited for until it is awaited"]
pub struct Within<F>(pub(super) F);
