//! Whether there is room for what the code asks for.

use crate::engine::bounds::Exceeded;
use crate::engine::error::Misuse;
use crate::engine::journal::Journal;
use crate::limits::ASKED_BYTES_MAX;

impl Journal {
    /// Whether what the code has asked for since the last commit, with so much more, fits into one.
    pub(crate) fn has_room_at_once(&mut self, more: usize) -> Result<(), Misuse> {
        let (names, bytes) = self.names.new_ones();
        let rows = names + self.begun + 1;
        let noted = self.gathered.noted_bytes();
        if rows * self.row_bytes + bytes + noted + more > ASKED_BYTES_MAX {
            self.refuse(Exceeded::AtOnce { max: ASKED_BYTES_MAX })?;
        }
        Ok(())
    }

    /// Refuses what would be too much, and ends the function when it rests, whatever it makes of the refusal.
    pub(crate) fn refuse(&mut self, exceeded: Exceeded) -> Result<(), Misuse> {
        self.within(Err(exceeded));
        Err(exceeded.into())
    }

    /// Whether the history may have another entry, beside those that are asked for already. A function that asks for
    /// more gets no answer and is ended: an error that code could catch would come at another place after the bounds
    /// were changed.
    pub(super) fn has_room(&mut self) -> bool {
        // On its way through its past the code has all of its history ahead, which counted for nothing then.
        if !self.caught_up() {
            return true;
        }
        let entries = self.entries_recorded() + self.unrecorded as u64;
        let checked = self.bounds.check_history(entries, self.bytes);
        self.within(checked)
    }

    /// Whether the code has asked for more than it may. Not in replay: the bounds may have been other ones then.
    pub(crate) fn is_refused(&self) -> bool {
        self.exceeded.is_some() && self.seen >= self.loaded
    }

    /// Whether there may be so many branches, or items of a map.
    pub(crate) fn check_branches(&mut self, many: u64) -> Result<(), Misuse> {
        match self.bounds.check_scope(many) {
            Ok(()) => Ok(()),
            Err(exceeded) => self.refuse(exceeded),
        }
    }

    /// Notes the first bound that the code runs into.
    pub(crate) fn within(&mut self, checked: Result<(), Exceeded>) -> bool {
        let within = checked.is_ok();
        self.exceeded = self.exceeded.or(checked.err());
        within
    }
}
