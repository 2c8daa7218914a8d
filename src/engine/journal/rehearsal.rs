//! Going through the past before anything of it is stored.
//!
//! After a crash the code comes by completions that nobody had seen, and what it does there is new: it is to be stored.
//! If that is more than one commit should hold, a part of it has to be stored before replay has caught up. But nothing may
//! be written before it is known that the code gets that far. So the code first goes through all of its past, and what it
//! does is forgotten; then it begins again, and this time it stops whenever enough has gathered.

use crate::engine::journal::Journal;
use crate::engine::journal::gathered::Gathered;

impl Journal {
    /// Whether the code has not come to the end of what was recorded when the instance was loaded.
    pub(crate) fn is_replaying(&self) -> bool {
        self.seen < self.loaded
    }

    /// Whether what the code does is forgotten: it has to begin again.
    pub(crate) fn rehearses(&self) -> bool {
        self.rehearses
    }

    /// Enough has gathered for a commit. Tells whether there has to be one before anything more is delivered; if nobody
    /// knows yet whether the code comes to the end of its past, that is found out first.
    pub(super) fn stops(&mut self) -> bool {
        if !self.is_full() {
            return false;
        }
        if self.was_rehearsed || !self.is_replaying() {
            return true;
        }
        self.rehearses = true;
        self.said.clear();
        self.gathered = Gathered::after(self.gathered.stored());
        false
    }
}
