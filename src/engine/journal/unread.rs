//! What was taken for the code and never looked at.
//!
//! A wait that was polled once takes its message when that comes, also while the code is busy with something else. If
//! it is dropped then, nobody has seen the message: it goes back to the inbox, for whoever waits next, in this run or in
//! another one. The wait is recorded as one that took nothing, which is all that replay needs.

use crate::engine::journal::{Journal, Outcome};
use crate::location::Location;
use crate::storage::record::{EntryKind, Message};

impl Journal {
    /// An outcome was delivered to a future that was dropped without looking at it.
    pub(super) fn leave_unread(&mut self, location: &Location, outcome: Outcome) {
        match outcome {
            Outcome::Entry(EntryKind::Receive { taken, .. }) if !taken.is_empty() => {
                self.unread.push((location.clone(), taken));
            }
            outcome => self.look(location, &outcome, false),
        }
    }

    /// Messages that nobody has looked at, no longer recorded as taken.
    pub(crate) fn take_unread(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        for (location, taken) in std::mem::take(&mut self.unread) {
            messages.extend(taken);
            self.urgent = true;
            let entry = match self.entries.get_mut(&location) {
                Some(entry) => Some(entry),
                None => self.settled.get_mut(&location),
            };
            // An iteration whose history goes in the same commit has none.
            let Some(entry) = entry else { continue };
            self.bytes = self.bytes.saturating_sub(entry.kind.bytes() as u64);
            entry.kind = gave_back();
            self.bytes += entry.kind.bytes() as u64;
            self.dirty.push(location);
        }
        messages
    }

    /// Forgets what was not looked at: it stays taken.
    pub(crate) fn keep_unread(&mut self) {
        self.unread.clear();
        self.keep_unseen();
    }
}

/// A wait for messages that gave back what it had taken: one that gave up has a time at which it did.
fn gave_back() -> EntryKind {
    EntryKind::Receive {
        until_ms: None,
        taken: Vec::new(),
    }
}

/// Whether a wait that is complete gave back what it had taken. A wait for an event that gave up has a time as well.
pub(crate) fn has_given_back(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::Event {
            until_ms: None,
            decided: None,
            ..
        } => true,
        kind => *kind == gave_back(),
    }
}
