//! Gathering what changed into one commit.

use std::borrow::Cow;

use crate::clock::Millis;
use crate::engine::bounds::Warning;
use crate::engine::execution::{Begin, Execution, completed};
use crate::engine::token::PromiseToken;
use crate::ids::MessageId;
use crate::limits::{CLOSED_AT_ONCE_MAX, COMPLETION_BYTES_MAX};
use crate::storage::Commit;
use crate::storage::key::{Arrival, Local};
use crate::storage::record::{EntryKind, Name, Runnable, State, Status};

impl Execution {
    /// Gathers everything that changed since the last commit into one; nothing changed, nothing is written.
    pub(crate) fn stage(&mut self, now: Millis) -> Option<Commit> {
        self.complete_finished(now);
        let (status, alarm) = (self.status(), self.alarm());
        let changed = self.has_to_be_stored();
        // That a pending instance runs now is nothing that a commit of its own would be worth.
        let moved = status != self.state.status && !(runs(status) && runs(self.state.status));
        let takes_or_sends = !self.taken.is_empty() || !self.outbox.is_empty();
        if changed || moved || takes_or_sends || !self.dirty_attempts.is_empty() || alarm != self.state.alarm_at_ms {
            return Some(self.commit(status, alarm, now));
        }
        None
    }

    /// Gives what has come to its end its place in the order.
    pub(super) fn complete_finished(&mut self, now: Millis) {
        self.take_undone();
        // What was taken from the inbox goes with this commit; of the steps that ended, as many as fit.
        self.finished
            .sort_by_key(|(_, kind)| matches!(kind, EntryKind::Step(_)));
        let mut bytes = 0;
        let fits = self.finished.iter().take_while(|(_, kind)| {
            let before = bytes;
            bytes += kind.bytes();
            before < COMPLETION_BYTES_MAX || !matches!(kind, EntryKind::Step(_))
        });
        let fits = fits.count();
        // What is too much for one commit goes into the next ones, in the same order.
        let rest = self.finished.split_off(fits);
        for (location, kind) in std::mem::replace(&mut self.finished, rest) {
            let order = self.state.completions;
            self.state.completions += 1;
            let given_up = is_given_up(&kind);
            let mut journal = self.journal.lock();
            // Time goes on with the order, also when the clock was set back.
            let at_ms = now.max(journal.now_ms);
            journal.record(&location, kind, Some(completed(order, at_ms)));
            if given_up {
                self.given_up.push(journal.entries[&location].id);
            }
            drop(journal);
            self.committing.push(location);
        }
    }

    /// The attempts that go into this commit. Many may have failed together: what is too much waits for the next one, and
    /// so do the attempts that follow them.
    fn next_attempts(&mut self) -> Vec<u64> {
        let mut bytes = 0;
        let fits = self.dirty_attempts.iter().take_while(|id| {
            let before = bytes;
            bytes += self.attempts[id].bytes();
            before < COMPLETION_BYTES_MAX
        });
        let fits = fits.count();
        let rest = self.dirty_attempts.split_off(fits);
        std::mem::replace(&mut self.dirty_attempts, rest)
    }

    /// Whether something changed that can't wait for the next commit.
    ///
    /// What the code would come to again by itself (a join, a race, the state of a loop) is stored along with
    /// something else. What it has seen and would not see again (a version, an ephemeral result) is stored before
    /// anything can follow from it, and when the instance rests.
    fn has_to_be_stored(&self) -> bool {
        let journal = self.journal.lock();
        let (binds, seen) = (journal.observed_undurable, journal.observed_ephemeral);
        let waits = |begin: &Begin| binds || !begin.ephemeral;
        let follows = || self.steps.is_empty() || self.held.iter().any(waits);
        let speaks = !journal.said.is_empty() || !journal.closing.is_empty();
        let waits_for_room = journal.is_full() || (journal.has_enough() && !self.ephemeral.is_empty());
        journal.urgent || waits_for_room || speaks || ((binds || seen) && follows())
    }

    /// The id of the message that would decide a promise.
    fn decision_of(&self, entry: u64) -> MessageId {
        let instance = self.namespace.instance().clone();
        PromiseToken::new(instance, self.origin.secret, self.state.drawn_in, entry).decision()
    }

    fn weigh_history(&mut self, entries: u64, bytes: u64) {
        let bounds = &self.facts.bounds;
        let (many, large) = (entries > bounds.history_entries_warn, bytes > bounds.history_bytes_warn);
        if self.warned || !(many || large) {
            return;
        }
        self.warned = true;
        let (entries_max, bytes_max) = (bounds.history_entries_max, bounds.history_bytes_max);
        self.warnings.push(if many {
            let max = entries_max;
            Warning::HistoryEntries { entries, max }
        } else {
            let max = bytes_max;
            Warning::HistoryBytes { bytes, max }
        });
    }

    /// Whether there is something to do as soon as the commit is durable. If the process dies then, the next one has to
    /// find it among those that run: nothing else would wake it.
    fn goes_on(&self) -> bool {
        let ends_or_runs = !self.committing.is_empty() || !self.finished.is_empty() || self.steps.any_runs();
        if ends_or_runs || self.more_to_take || !self.ephemeral.is_empty() {
            return true;
        }
        let journal = self.journal.lock();
        journal.has_undelivered() || !journal.fresh.is_empty() || journal.closing.len() > CLOSED_AT_ONCE_MAX
    }

    fn status(&self) -> Status {
        if self.state.paused {
            Status::Paused
        } else if self.undoing.is_some() {
            Status::Compensating
        } else if self.goes_on() {
            Status::Running
        } else if !self.steps.is_empty() {
            Status::BackingOff
        } else if !self.sleeps.is_empty() {
            Status::Sleeping
        } else {
            Status::Waiting
        }
    }

    pub(super) fn commit(&mut self, status: Status, alarm_at_ms: Option<Millis>, now: Millis) -> Commit {
        let mut commit = Commit::new(self.namespace.shard());
        self.speak(&mut commit, now);
        self.close_children(now);
        let mut journal = self.journal.lock();
        for (index, name) in journal.names.take_new() {
            commit.set(&self.namespace, &Local::Name(index), &Name(name));
        }
        for location in std::mem::take(&mut journal.trimmed) {
            commit.delete_below(&self.namespace, &location);
        }
        for location in journal.take_dirty() {
            if let Some(entry) = journal.recorded(&location) {
                commit.set(&self.namespace, &Local::History(Cow::Borrowed(&location)), entry);
            }
        }
        for id in std::mem::take(&mut journal.forgotten) {
            if self.attempts.remove(&id).is_some() {
                self.dirty_attempts.retain(|dirty| *dirty != id);
                commit.delete(&self.namespace, &Local::Attempts(id));
            }
        }
        journal.urgent = false;
        journal.begun = 0;
        let (entries, bytes) = (journal.entries_recorded(), journal.bytes);
        drop(journal);
        self.weigh_history(entries, bytes);
        for id in self.next_attempts() {
            commit.set(&self.namespace, &Local::Attempts(id), &self.attempts[&id]);
        }
        for entry in std::mem::take(&mut self.given_up) {
            // A decision that was accepted comes first, although it was not there yet when the inbox was read.
            commit.close_to(&self.namespace, &self.decision_of(entry));
        }
        // What comes back and is taken again has no row at all.
        let came_back = |arrival: &Arrival| self.given_back.iter().any(|(back, _)| back == arrival);
        for arrival in self.taken.iter().filter(|arrival| !came_back(arrival)) {
            commit.delete(&self.namespace, &Local::Inbox(*arrival));
        }
        for (arrival, message) in self.given_back.iter().filter(|(back, _)| !self.taken.contains(back)) {
            commit.set(&self.namespace, &Local::Inbox(*arrival), message);
        }
        let before = self.state.clone();
        let revision = before.revision + 1;
        self.state = State {
            status,
            alarm_at_ms,
            entries,
            revision,
            updated_at_ms: now,
            ..before
        };
        commit.set_state(&self.namespace, before.alarm_at_ms, &self.state);
        self.post(&mut commit, revision);
        if before.status != status {
            commit.set_index(&self.namespace, &self.origin, &self.state);
        }
        // A message may have made it runnable while it rested, and it can take it, or end, without having run in between.
        // One that was to begin later has no row either: its alarm was what would wake it.
        let ran = runs(before.status) && !(before.status == Status::Pending && before.alarm_at_ms.is_some());
        if ran != runs(status) || status.is_terminal() || (!self.taken.is_empty() && !runs(status)) {
            let runnable = runs(status).then(|| Runnable::new(self.origin.workflow.as_str(), 0));
            commit.set_runnable(&self.namespace, runnable.as_ref());
        }
        commit
    }
}

/// Whether this is the end of a promise that nobody decided.
fn is_given_up(kind: &EntryKind) -> bool {
    matches!(kind, EntryKind::Promise { decided: None, .. })
}

/// Whether an instance with this status has to run after a restart.
pub(super) fn runs(status: Status) -> bool {
    matches!(status, Status::Pending | Status::Running | Status::Compensating)
}
