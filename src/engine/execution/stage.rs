//! Gathering what changed into one commit.

use std::borrow::Cow;

use crate::clock::Millis;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::execution::{Execution, completed};
use crate::storage::Commit;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{FailureKind, Name, Output, Runnable, State, Status};

impl Execution {
    /// Gathers everything that changed since the last commit into one; nothing changed, nothing is written.
    pub(crate) fn stage(&mut self, now: Millis) -> Option<Commit> {
        for (location, kind) in std::mem::take(&mut self.finished) {
            let order = self.state.completions;
            self.state.completions += 1;
            let mut journal = self.journal.lock();
            // Time goes on with the order, also when the clock was set back.
            let at_ms = now.max(journal.now_ms);
            journal.record(&location, kind, Some(completed(order, at_ms)));
            drop(journal);
            self.committing.push(location);
        }
        let (status, alarm) = (self.status(), self.alarm());
        let journal = self.journal.lock();
        let changed = !journal.dirty.is_empty() || !journal.trimmed.is_empty();
        drop(journal);
        // That a pending instance runs now is nothing that a commit of its own would be worth.
        let moved = status != self.state.status && !(runs(status) && runs(self.state.status));
        if changed || moved || !self.dirty_attempts.is_empty() || alarm != self.state.alarm_at_ms {
            return Some(self.commit(status, alarm, now));
        }
        None
    }

    /// The last commit: how the function ended.
    pub(crate) fn end(&mut self, result: Result<Payload>, now: Millis) -> Commit {
        let status = match &result {
            Ok(_) => Status::Completed,
            Err(_) if self.is_cancelled() => Status::Cancelled,
            Err(_) => Status::Failed,
        };
        let mut commit = self.commit(status, None, now);
        match result {
            Ok(payload) => commit.set(&self.namespace, &Local::Meta(Meta::Output), &Output(payload)),
            Err(error) => {
                let failure = WorkflowError::into_failure(error);
                commit.set(&self.namespace, &Local::Meta(Meta::Failure), &failure)
            }
        };
        commit
    }

    /// Whether the code was told to end; what it returned then may have other words for it.
    fn is_cancelled(&self) -> bool {
        let journal = self.journal.lock();
        let ended = journal.ended.as_ref();
        ended.is_some_and(|failure| failure.kind == FailureKind::Cancelled)
    }

    fn status(&self) -> Status {
        let backing_off = !self.steps.is_empty() && self.steps.values().all(|step| step.due_at_ms().is_some());
        if !self.committing.is_empty() || (!self.steps.is_empty() && !backing_off) {
            Status::Running
        } else if backing_off {
            Status::BackingOff
        } else if !self.sleeps.is_empty() {
            Status::Sleeping
        } else {
            Status::Waiting
        }
    }

    fn commit(&mut self, status: Status, alarm_at_ms: Option<Millis>, now: Millis) -> Commit {
        let mut commit = Commit::new(self.namespace.shard());
        let mut journal = self.journal.lock();
        for (index, name) in journal.names.take_new() {
            commit.set(&self.namespace, &Local::Name(index), &Name(name));
        }
        for location in std::mem::take(&mut journal.trimmed) {
            commit.delete_below(&self.namespace, &location);
        }
        for (location, entry) in journal.take_dirty() {
            commit.set(&self.namespace, &Local::History(Cow::Borrowed(&location)), &entry);
        }
        for id in std::mem::take(&mut journal.forgotten) {
            if self.attempts.remove(&id).is_some() {
                self.dirty_attempts.retain(|dirty| *dirty != id);
                commit.delete(&self.namespace, &Local::Attempts(id));
            }
        }
        let entries = journal.entries_recorded();
        drop(journal);
        for id in std::mem::take(&mut self.dirty_attempts) {
            commit.set(&self.namespace, &Local::Attempts(id), &self.attempts[&id]);
        }
        for arrival in &self.taken {
            commit.delete(&self.namespace, &Local::Inbox(*arrival));
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
        if before.status != status {
            commit.set_index(&self.namespace, &self.origin, &self.state);
        }
        if runs(before.status) != runs(status) {
            let runnable = runs(status).then_some(Runnable { activations: 0 });
            commit.set_runnable(&self.namespace, runnable.as_ref());
        }
        commit
    }
}

/// Whether an instance with this status has to run after a restart.
fn runs(status: Status) -> bool {
    matches!(status, Status::Pending | Status::Running)
}
