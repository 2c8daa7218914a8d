//! What follows when the function has come to its end: a result, another run, or a failure with all that it entails.

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::{Millis, whole_ms};
use crate::engine::divergence::Divergence;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::execution::outside::Undecided;
use crate::engine::execution::sleeps::Sleeps;
use crate::engine::execution::undo::Undone;
use crate::engine::execution::{Execution, Loaded, Turn};
use crate::engine::incident::Consequence;
use crate::engine::strategy::Strategy;
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Content, Decided, EntryKind, Failure, FailureKind, Hold, Input, Output, Reach, Status};
use crate::storage::{Commit, InFlight};

impl Execution {
    /// Whether there is nothing to do for now although the function has not ended: the next run is not due, or the
    /// instance is in quarantine.
    pub(super) fn is_held(&self, now: Millis) -> bool {
        self.state.status == Status::Quarantined || self.is_between_runs(now)
    }

    /// Whether the next run after a failure has not begun, and is not due. Not told by the status: an instance that was
    /// paused meanwhile had another one.
    fn is_between_runs(&self, now: Millis) -> bool {
        let begun = self.state.said > 0 || self.state.retries == 0 || self.journal.lock().was_polled;
        !begun && self.state.began_at_ms > now
    }

    /// A turn of an instance that is held. One that is asked to end between two runs has nothing to clean up.
    pub(super) fn rest(&mut self, turn: &mut Turn, now: Millis) {
        if self.state.status == Status::Quarantined {
            turn.alarm_at_ms = self.state.alarm_at_ms;
            return;
        }
        if let Some(failure) = self.was_asked_to_end() {
            self.take_cancels();
            return self.finish(Status::Cancelled, Decided::Failed(failure), turn, now);
        }
        let at = Some(self.state.began_at_ms);
        turn.alarm_at_ms = at;
        // It was paused, and goes on waiting.
        if self.state.status != Status::BackingOff || self.state.alarm_at_ms != at || !self.taken.is_empty() {
            turn.commit = Some(self.commit(Status::BackingOff, at, now));
        }
    }

    /// The function has ended.
    pub(super) fn ended(
        &mut self,
        result: Result<Payload>,
        turn: &mut Turn,
        now: Millis,
    ) -> std::result::Result<(), Divergence> {
        turn.unawaited = std::mem::take(&mut self.journal.lock().unawaited);
        let result = self.as_told(result);
        if let Some(failure) = self.compensating() {
            if result.is_ok() {
                let at = self.reserved("compensating");
                return Err(Divergence::at(&self.journal.lock(), &at, Some("end".to_owned()), None));
            }
            self.put_down(turn, now);
            self.begin_undoing(failure, turn, now);
            return Ok(());
        }
        match result.map_err(WorkflowError::into_next_run) {
            Ok(payload) => {
                self.put_down(turn, now);
                self.finish(Status::Completed, Decided::Completed(payload), turn, now);
            }
            Err(Ok(input)) => {
                self.put_down(turn, now);
                self.continue_as_new(input, turn, now);
            }
            Err(Err(failure)) => self.fail(failure, turn, now),
        }
        Ok(())
    }

    /// What the code came to, given what it was told to end with: that is what it ends with, whatever it made of it. A
    /// child takes its parent along whether the code has heard of it or not; what else has come too late to be heard of
    /// changes nothing.
    fn as_told(&self, result: Result<Payload>) -> Result<Payload> {
        let journal = self.journal.lock();
        let Some(ended) = &journal.ended else { return result };
        match result {
            _ if ended.kind == FailureKind::Child => Err(ended.clone().into()),
            Ok(_) if journal.told_of_end => Err(ended.clone().into()),
            Err(error) if ended.kind == FailureKind::DeadlineExceeded && journal.told_of_end => {
                Err(error.of_deadline(&ended.message))
            }
            result => result,
        }
    }

    /// Lets go of the function and all that it was waiting for.
    fn put_down(&mut self, turn: &mut Turn, now: Millis) {
        // First: each future of the function would look for its own.
        self.journal.lock().bury_fresh(|_| true);
        self.function = Box::pin(std::future::pending());
        self.journal.lock().leave_unseen();
        self.lay_down(turn, now);
    }

    fn lay_down(&mut self, turn: &mut Turn, now: Millis) {
        self.let_go(turn, now);
        self.sleeps = Sleeps::default();
        self.waiting.clear();
        self.undecided = Undecided::default();
        self.held.clear();
        self.journal.lock().bury_fresh(|_| true);
        self.ephemeral.clear();
        for (location, step) in self.steps.drain() {
            step.cancel();
            turn.cancel.push(location);
        }
    }

    fn fail(&mut self, failure: Failure, turn: &mut Turn, now: Millis) {
        let failure = failure.bounded();
        if !self.is_cancelled() && failure.kind != FailureKind::Cancelled {
            self.report(failure.clone(), Consequence::WorkflowFailed);
        }
        let panicked = self.definition.policy.is_left_alone(&failure);
        if panicked && let Some(mut cancelled) = self.was_asked_to_end() {
            // The function did not live to see it.
            self.take_cancels();
            cancelled.causes.push(failure.to_string());
            self.put_down(turn, now);
            return self.begin_undoing(cancelled.bounded(), turn, now);
        }
        turn.panicked = panicked.then(|| failure.to_string());
        let kept = self.definition.policy.after(&failure) == Strategy::Quarantine
            && !self.is_cancelled()
            && !failure.asks_for_rollback();
        if kept && self.next_run_at_ms(&failure, now).is_none() {
            self.keep_as_it_is(turn, now);
            self.quarantine(&failure, turn, now);
        } else {
            self.put_down(turn, now);
            self.begin_undoing(failure, turn, now);
        }
    }

    /// Lets go of the function, but of nothing that it was waiting for: children go on, topics keep its place.
    fn keep_as_it_is(&mut self, turn: &mut Turn, now: Millis) {
        let closing = self.journal.lock().closing.len();
        self.function = Box::pin(std::future::pending());
        let mut journal = self.journal.lock();
        journal.closing.truncate(closing);
        journal.dropped.clear();
        journal.keep_unread();
        drop(journal);
        self.lay_down(turn, now);
    }

    /// How far the failure of this instance reaches. That it was asked to end is no failure of its own.
    fn reach(&self, status: Status) -> Reach {
        self.definition.policy.reach(status)
    }

    /// What was done is undone as far as it goes: the instance begins again, or it has failed.
    pub(super) fn conclude(&mut self, undone: Undone, turn: &mut Turn, now: Millis) {
        let Undone { failure, any, failures } = undone;
        let status = match () {
            () if self.is_cancelled() || failure.kind == FailureKind::Cancelled => Status::Cancelled,
            () if any && failures.is_empty() => Status::Compensated,
            () => Status::Failed,
        };
        // What could not be undone is for people to look at: another run would only add to it.
        let next = self.next_run_at_ms(&failure, now).filter(|_| failures.is_empty());
        if let Some(at) = next {
            if let Some(mut cancelled) = self.was_asked_to_end() {
                // The function did not live to see it, and the next one does not begin to.
                self.take_cancels();
                cancelled.causes.push(failure.to_string());
                return self.finish(Status::Cancelled, Decided::Failed(cancelled.bounded()), turn, now);
            }
            self.state.retries += 1;
            let input = self.input.clone().expect("a workflow with retries keeps its input");
            let commit = self.next_run(Status::BackingOff, Some(at), now);
            self.begins_with = Some(input);
            turn.alarm_at_ms = Some(at);
            turn.commit = Some(commit);
            return;
        }
        let mut failure = failure;
        failure.branches.extend(failures);
        self.finish(status, Decided::Failed(failure.bounded()), turn, now);
    }

    /// When the next run begins after this failure, if there is going to be one: not past the deadline.
    fn next_run_at_ms(&self, failure: &Failure, now: Millis) -> Option<Millis> {
        if self.is_cancelled() {
            return None;
        }
        let seed = xxh3_64(self.namespace.instance().as_str().as_bytes());
        let wait = self.definition.policy.next_run(self.state.retries + 1, failure, seed)?;
        let at = now.saturating_add(whole_ms(wait));
        let in_time = self.origin.deadline_at_ms.is_none_or(|deadline| at < deadline);
        in_time.then_some(at)
    }

    /// The run is over and the next one begins at once. What was asked to end does not go on under another number.
    fn continue_as_new(&mut self, input: Payload, turn: &mut Turn, now: Millis) {
        let ended = self.journal.lock().ended.clone();
        if let Some(failure) = ended.or_else(|| self.was_asked_to_end()) {
            self.take_cancels();
            return self.fail(failure, turn, now);
        }
        self.state.retries = 0;
        let mut commit = self.next_run(Status::Running, None, now);
        commit.set(&self.namespace, &Local::Meta(Meta::Input), &Input(input.clone()));
        self.begins_with = Some(input);
        turn.commit = Some(commit);
    }

    /// The commit that leaves this run behind. History and attempts go; names, unread messages, answers and what was
    /// published stay. The next one begins with the code as it is now, and so with its version.
    fn next_run(&mut self, status: Status, alarm_at_ms: Option<Millis>, now: Millis) -> Commit {
        self.close_all_children(now);
        self.journal.lock().forget_history();
        self.finished.clear();
        self.dirty_attempts.clear();
        let attempts = std::mem::take(&mut self.attempts);
        let run = self.state.run + 1;
        (self.state.run, self.state.drawn_in, self.state.keyed_in) = (run, run, run);
        (self.state.completions, self.state.said) = (0, 0);
        // Time goes on from run to run, also when the clock was set back.
        self.state.began_at_ms = alarm_at_ms.unwrap_or(now).max(self.journal.lock().now_ms);
        let mut commit = self.commit(status, alarm_at_ms, now);
        self.answer_what_was_taken(&mut commit, now);
        commit.delete_below(&self.namespace, &Location::root());
        if self.origin.version != self.definition.version {
            self.origin.version = self.definition.version;
            commit.set(&self.namespace, &Local::Meta(Meta::Origin), &self.origin);
        }
        for id in attempts.into_keys() {
            commit.delete(&self.namespace, &Local::Attempts(id));
        }
        commit
    }

    /// The commit that left the last run behind is durable: begins the next one.
    pub(super) fn begin_run(&mut self, input: Payload) {
        let published = std::mem::take(&mut self.journal.lock().published);
        let loaded = Loaded {
            origin: self.origin.clone(),
            state: self.state.clone(),
            input,
            names: self.journal.lock().names.all().to_vec(),
            entries: Vec::new(),
            attempts: std::collections::BTreeMap::new(),
            inbox: std::mem::take(&mut self.inbox),
            published,
            crashed: InFlight::default(),
        };
        let (definition, codecs, bounds) = (self.definition.clone(), self.codecs.clone(), self.facts.bounds);
        let (nudge, gate) = (self.nudge.take(), self.gate.take());
        *self = Self::new(self.namespace.clone(), loaded, &definition, codecs, bounds);
        self.gate = gate;
        if let Some(nudge) = nudge {
            self.tell_of_wakes(nudge);
        }
    }

    /// Keeps the instance as it is, and says why.
    fn quarantine(&mut self, failure: &Failure, turn: &mut Turn, now: Millis) {
        self.complete_finished(now);
        let mut commit = self.commit(Status::Quarantined, None, now);
        let hold = Hold {
            reason: failure.to_string(),
            since_ms: now,
            report: self.codecs.pack(failure).ok(),
        };
        commit.set(&self.namespace, &Local::Meta(Meta::Hold), &hold);
        turn.commit = Some(commit);
        turn.ended = true;
    }

    /// The last commit: how the instance ended. Whoever has to be told of it is told here, in the same commit.
    fn finish(&mut self, status: Status, decided: Decided, turn: &mut Turn, now: Millis) {
        self.say_farewell(&decided, self.reach(status), now);
        let mut commit = self.commit(status, None, now);
        self.answer_the_rest(&mut commit, now);
        match decided {
            Decided::Completed(payload) => commit.set(&self.namespace, &Local::Meta(Meta::Output), &Output(payload)),
            Decided::Failed(failure) => commit.set(&self.namespace, &Local::Meta(Meta::Failure), &failure),
        };
        turn.commit = Some(commit);
        turn.ended = true;
    }

    /// Whether the code was told to end; what it returned then may have other words for it.
    fn is_cancelled(&self) -> bool {
        let journal = self.journal.lock();
        let ended = journal.ended.as_ref();
        ended.is_some_and(|failure| failure.kind == FailureKind::Cancelled)
    }

    /// The cancellation that has come, also if the function did not live to see it.
    fn was_asked_to_end(&self) -> Option<Failure> {
        if let Some(EntryKind::Cancel { reason }) = self.recorded_at_reserved("cancel") {
            return Some(Failure::cancelled(&reason));
        }
        let mut unread = self.inbox.iter().map(|(_, message)| &message.content);
        unread.find_map(|content| match content {
            Content::Cancel { reason } => Some(Failure::cancelled(reason)),
            _ => None,
        })
    }

    /// The instance runs out of time: this is recorded like any completion, and nothing new begins until it is.
    pub(super) fn runs_out_of_time(&mut self, now: Millis) -> bool {
        if self.deadline_ahead().is_none_or(|deadline| deadline > now) {
            return false;
        }
        let location = self.reserved("deadline");
        // It may be recorded and wait to be delivered.
        let known =
            self.finished.iter().any(|(at, _)| *at == location) || self.journal.lock().entries.contains_key(&location);
        if !known {
            self.finished.push((location, EntryKind::Deadline));
        }
        !known
    }

    /// The deadline, if it can still come.
    pub(super) fn deadline_ahead(&self) -> Option<Millis> {
        let deadline = self.origin.deadline_at_ms;
        deadline.filter(|_| self.undoing.is_none() && self.journal.lock().ended.is_none())
    }
}
