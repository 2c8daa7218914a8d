//! Undoing what a function did that has failed.
//!
//! That it has failed is recorded first. Then one undoing after the other runs, as attempts like those of a step; the
//! next one begins when the end of the one before it is durable. After a crash the function is replayed to its
//! failure, which brings back what undoes what, and goes on with the first undoing whose end is not recorded.

use crate::clock::Millis;
use crate::engine::divergence::Divergence;
use crate::engine::error::WorkflowError;
use crate::engine::execution::{Execution, Turn};
use crate::engine::journal::Undoable;
use crate::engine::request::StepRequest;
use crate::location::Location;
use crate::storage::InFlight;
use crate::storage::payload::Payload;
use crate::storage::record::{Decided, EntryKind, Failure, FailureKind};

/// An undoing under way.
#[derive(Debug)]
pub(super) struct Undoing {
    /// Why.
    failure: Failure,
    /// What is left, the next last.
    rest: Vec<Undoable>,
    current: Option<Location>,
    /// Undoings that failed for good, by path.
    failures: Vec<(String, Failure)>,
    any: bool,
}

/// How all of it went.
#[derive(Debug)]
pub(super) struct Undone {
    pub(super) failure: Failure,
    /// Whether there was anything to undo.
    pub(super) any: bool,
    pub(super) failures: Vec<(String, Failure)>,
}

impl Execution {
    /// The failure that is being undone, if that has begun.
    pub(super) fn compensating(&self) -> Option<Failure> {
        match self.recorded_at_reserved("compensating")? {
            EntryKind::Compensating(failure) => Some(failure),
            _ => None,
        }
    }

    /// The function waits although history says that it has failed: it is other code. Only a wait that was a misuse, or
    /// for more than it may have, fails again, whenever that is noticed.
    pub(super) fn has_failed_before(&self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        match self.compensating() {
            None => Ok(None),
            Some(failure) if matches!(failure.kind, FailureKind::Misuse | FailureKind::Limit) => {
                Ok(Some(Err(failure.into())))
            }
            Some(_) => {
                let at = self.reserved("compensating");
                Err(Divergence::at(&self.journal.lock(), &at, None, None))
            }
        }
    }

    /// Begins to undo what was done, or goes on with it.
    pub(super) fn begin_undoing(&mut self, failure: Failure, turn: &mut Turn, now: Millis) {
        let mut journal = self.journal.lock();
        let undoables = journal.take_undoables();
        let (any, mut failures, mut rest) = (!undoables.is_empty(), Vec::new(), Vec::new());
        for undoable in undoables {
            match &undoable.decided {
                None => {
                    rest.push(undoable);
                    continue;
                }
                Some(Decided::Completed(_)) => {}
                Some(Decided::Failed(failure)) => failures.push((journal.names.path(&undoable.at), failure.clone())),
            }
            journal.bury(undoable.undo);
        }
        drop(journal);
        rest.reverse();
        if any && self.compensating().is_none() {
            let at = self.reserved("compensating");
            let compensating = EntryKind::Compensating(failure.clone());
            self.journal.lock().record(&at, compensating, None);
        }
        let current = None;
        self.undoing = Some(Undoing {
            failure,
            rest,
            current,
            failures,
            any,
        });
        self.undo(turn, now);
    }

    /// One turn of undoing.
    pub(super) fn undo(&mut self, turn: &mut Turn, now: Millis) {
        self.take_undone();
        if !self.begin_next_undoing(now)
            && let Some(undoing) = self.undoing.take()
        {
            let Undoing {
                failure, any, failures, ..
            } = undoing;
            self.conclude(Undone { failure, any, failures }, turn, now);
            return;
        }
        // Whoever asks it to end is not kept waiting for the end of it all.
        self.take_cancels();
        self.begin_due_attempts(now);
        turn.commit = self.stage(now);
        turn.alarm_at_ms = self.alarm();
        // The failure, and the end of the undoing before, are durable before the next has an effect. So is what the
        // function saw last, and that once: what is not durable is always worth a commit.
        match turn.commit {
            Some(_) => self.journal.lock().stores_what_was_seen(),
            None => turn.begin = std::mem::take(&mut self.held),
        }
    }

    /// Records the end of the undoing under way, if it has come.
    pub(super) fn take_undone(&mut self) {
        let Some(undoing) = &mut self.undoing else { return };
        let Some(current) = &undoing.current else { return };
        let Some(position) = self.finished.iter().position(|(at, _)| at == current) else {
            return;
        };
        let (at, kind) = self.finished.remove(position);
        let EntryKind::Step(Some(decided)) = kind else {
            unreachable!("an undoing is tried like a step");
        };
        let mut journal = self.journal.lock();
        if let Decided::Failed(failure) = &decided {
            undoing.failures.push((journal.names.path(&at), failure.clone()));
        }
        journal.end_undoing(&at, decided);
        undoing.current = None;
    }

    /// Begins the next undoing unless one is under way. Tells whether there is one now.
    fn begin_next_undoing(&mut self, now: Millis) -> bool {
        let Some(undoing) = &mut self.undoing else { return false };
        if undoing.current.is_some() {
            return true;
        }
        let Some(Undoable { at, input, undo, .. }) = undoing.rest.pop() else {
            return false;
        };
        undoing.current = Some(at.clone());
        self.journal.lock().begin_undoing(&at);
        let (work, options) = ((undo.begin)(input), undo.options);
        let undo = None;
        self.begin_step(&at, StepRequest { work, options, undo }, now);
        self.crashed = InFlight::default();
        true
    }
}
