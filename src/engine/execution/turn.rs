//! What one turn came to, and what may follow from it at once.

use std::collections::BTreeSet;

use crate::clock::Millis;
use crate::engine::bounds::Warning;
use crate::engine::execution::{Begin, Execution, completed};
use crate::engine::incident::Incident;
use crate::limits::GATHERED_BYTES_MAX;
use crate::location::Location;
use crate::storage::Commit;
use crate::storage::payload::Payload;
use crate::storage::record::EntryKind;

/// What one turn came to.
#[derive(Default)]
pub(crate) struct Turn {
    /// What has to be durable before anything of this turn is delivered to the code.
    pub(crate) commit: Option<Commit>,
    /// Attempts to begin now: all that the code has seen is durable.
    pub(crate) begin: Vec<Begin>,
    /// Attempts to cancel: nobody waits for them any more.
    pub(crate) cancel: Vec<Location>,
    /// The earliest time at which there is something to do.
    pub(crate) alarm_at_ms: Option<Millis>,
    /// What the code says to whoever happens to listen, once the commit is durable.
    pub(crate) broadcasts: Vec<Payload>,
    /// Whether the instance has ended, once the commit is durable.
    pub(crate) ended: bool,
    /// Whether the commit holds something for other instances.
    pub(crate) posted: bool,
    /// What the function panicked with, if nobody said what follows. The commit puts the instance aside: it is not to be
    /// done if the function is called again instead.
    pub(crate) panicked: Option<String>,
    /// What observers hear of, once the commit is durable.
    pub(crate) incidents: Vec<Incident>,
    /// What the log hears of.
    pub(crate) warnings: Vec<Warning>,
    /// Steps that the function made and never polled, if it has returned.
    pub(crate) unawaited: BTreeSet<String>,
}

impl Execution {
    /// Lets attempts begin, unless the code is about to hear that it ends. What depends on something that is not durable
    /// waits for the commit; so does a second attempt, whose beginning is in the commit: if the process dies of it, that
    /// has to be known. An ephemeral step depends on all but the results of others of its kind.
    pub(super) fn release(&mut self, turn: &mut Turn, ends: bool) {
        let committing = turn.commit.is_some();
        let mut journal = self.journal.lock();
        let seen = (journal.observed_undurable, journal.observed_ephemeral);
        if committing {
            journal.stores_what_was_seen();
        }
        drop(journal);
        let held = std::mem::take(&mut self.held);
        for begin in held {
            let waits = match seen {
                _ if ends => true,
                (undurable, _) if begin.ephemeral => undurable,
                (undurable, ephemeral) => undurable || ephemeral || (committing && begin.number > 1),
            };
            if waits {
                self.held.push(begin);
            } else {
                turn.begin.push(begin);
            }
        }
    }

    /// Gives to the code at once what it may see before the commit that records it: the results of ephemeral steps,
    /// unless there is a commit to come anyway, and a message, which is durable in the inbox and goes from there in the
    /// commit of what follows from it. Tells whether there was anything.
    ///
    /// That the code has seen it is something that a crash takes back. Nothing may follow from it before it is durable:
    /// steps that are not ephemeral are held until the commit that has it.
    pub(super) fn deliver_early(&mut self, now: Millis) -> bool {
        if self.finished.is_empty() && (self.ephemeral.is_empty() || self.journal.lock().has_enough()) {
            return false;
        }
        let (early, told) = if self.finished.is_empty() {
            (take_what_fits(&mut self.ephemeral), false)
        } else if self.ephemeral.is_empty() && self.took_one_message() {
            (std::mem::take(&mut self.finished), true)
        } else {
            self.finished.append(&mut self.ephemeral);
            return false;
        };
        if early.is_empty() {
            return false;
        }
        let mut journal = self.journal.lock();
        let mut delivered = Vec::with_capacity(early.len());
        for (location, kind) in early {
            let at_ms = now.max(journal.now_ms);
            journal.note_completed(&location, kind, completed(self.state.completions, at_ms));
            self.state.completions += 1;
            delivered.push(location);
        }
        journal.committed(delivered);
        journal.observed_undurable |= told;
        journal.observed_ephemeral |= !told;
        true
    }

    /// Whether a wait for messages is all that has come to its end, and all that was taken was taken by it. A second
    /// one goes with the commit, so that a commit does not grow with what lies in the inbox.
    fn took_one_message(&self) -> bool {
        match &self.finished[..] {
            [(_, EntryKind::Receive { taken, .. })] => !taken.is_empty() && taken.len() == self.taken.len(),
            _ => false,
        }
    }

    /// Whether the next commit has it that the code is to end.
    pub(super) fn ends_soon(&self) -> bool {
        let ends = |kind: &EntryKind| matches!(kind, EntryKind::Cancel { .. } | EntryKind::Deadline);
        self.finished.iter().any(|(_, kind)| ends(kind))
    }

    /// Hands out what others hear of: of failures, once they are in a commit.
    pub(super) fn tell(&mut self, turn: &mut Turn) {
        if turn.commit.is_some() {
            turn.incidents = std::mem::take(&mut self.incidents);
        }
        turn.warnings = std::mem::take(&mut self.warnings);
        turn.posted = std::mem::take(&mut self.posted);
    }
}

/// Takes results out that may be seen together before they are stored: the next commit has all of them.
fn take_what_fits(results: &mut Vec<(Location, EntryKind)>) -> Vec<(Location, EntryKind)> {
    let mut bytes = 0;
    let fits = results.iter().take_while(|(_, kind)| {
        let before = bytes;
        bytes += kind.bytes();
        before < GATHERED_BYTES_MAX
    });
    let rest = results.split_off(fits.count());
    std::mem::replace(results, rest)
}
