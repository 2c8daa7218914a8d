//! Operations for which nobody else may have the instance: they write its rows themselves.

use crate::actor;
use crate::clock::Millis;
use crate::engine::Moment;
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Effect, Error, Operated, Result};
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Failure, FailureKind, Runnable, State, Status, Tombstone};
use crate::storage::{self, Activation, Commit, Condition, Refusal};

/// What is to be done with an instance that nobody else has.
pub(super) enum Decision<T> {
    /// Nothing; this is the answer.
    Leave(T),
    /// This; and the answer when it is durable.
    Write(Commit, T),
}

impl AnyHandle {
    /// Ends the instance at once: none of its code runs any more, nothing is cleaned up. One that has ended stays as it
    /// ended, and the answer says how.
    pub async fn terminate(&self, reason: impl Into<String>) -> Result<Operated> {
        let terminated = self.terminate_if(&reason.into(), |_| true).await?;
        Ok(terminated.expect("whoever it is, it is meant"))
    }

    /// The same if it is the one that is meant; none if not.
    pub(super) async fn terminate_if(&self, reason: &str, meant: impl Fn(&Seen) -> bool) -> Result<Option<Operated>> {
        let terminated = self.alone(|seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(None));
            }
            let before = seen.state.status;
            let commit = actor::terminate_commit(&self.shared.store, &self.instance, reason, now)?;
            Ok(match commit {
                Some(commit) => Decision::Write(commit, Some(done(before, Status::Terminated))),
                None => Decision::Leave(Some(Operated::unchanged(Effect::Ended, before))),
            })
        });
        let terminated = terminated.await?;
        self.ended(terminated.as_ref());
        if let Some(courier) = self.shared.courier.get() {
            courier.nudge();
        }
        Ok(terminated)
    }

    /// Lets an instance go on that was put into quarantine, or tries one again at once that is stuck or parked.
    pub async fn release(&self) -> Result<Operated> {
        self.alone(|seen, now| {
            let before = seen.state.status;
            match before {
                Status::Quarantined | Status::Stuck | Status::Parked => {}
                before if before.is_terminal() => {
                    return Ok(Decision::Leave(Operated::unchanged(Effect::Ended, before)));
                }
                before => return Ok(Decision::Leave(Operated::unchanged(Effect::Already, before))),
            }
            let state = seen.next(now, |state| state.status = Status::Running);
            let mut commit = self.change(seen, &state);
            commit.delete(&self.shared.store.namespace(&self.instance), &Local::Meta(Meta::Hold));
            Ok(Decision::Write(commit, done(before, state.status)))
        })
        .await
    }

    /// Removes an instance that has ended, with everything that is stored of it. What is left is the fact that it was
    /// there: whoever asks for it is told that it was deleted.
    pub async fn delete(&self) -> Result<()> {
        self.delete_if(|_| true).await.map(|_| ())
    }

    /// The same if it is the one that is meant. Tells whether it was.
    pub(super) async fn delete_if(&self, meant: impl Fn(&Seen) -> bool) -> Result<bool> {
        self.alone(|seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(false));
            }
            if !seen.state.status.is_terminal() {
                return Err(Error::NotFinished {
                    instance: self.instance.clone(),
                    status: seen.state.status,
                });
            }
            let namespace = self.shared.store.namespace(&self.instance);
            let mut commit = Commit::new(namespace.shard());
            commit
                .purge(&namespace, &seen.origin, &seen.state)
                .leave_tombstone(&namespace, &Tombstone { deleted_at_ms: now });
            Ok(Decision::Write(commit, true))
        })
        .await
    }

    /// The same for one that has not ended: it is terminated first.
    pub async fn delete_anyway(&self, reason: impl Into<String>) -> Result<()> {
        self.terminate(reason).await?;
        self.delete().await
    }

    /// Ends an instance that is to begin later, or waits at a gate; nothing if it has begun after all.
    pub(super) async fn cancel_before_the_beginning(&self, reason: &str) -> Result<Option<Operated>> {
        let failure = Failure::new(FailureKind::Cancelled, reason);
        let cancelled = self.alone(|seen, now| {
            let before = seen.state.status;
            if !seen.has_not_begun(&self.shared, &self.instance)? {
                return Ok(Decision::Leave(None));
            }
            let state = seen.next(now, |state| {
                state.status = Status::Cancelled;
                state.alarm_at_ms = None;
                state.paused = false;
            });
            let mut commit = self.change(seen, &state);
            let namespace = self.shared.store.namespace(&self.instance);
            commit.set(&namespace, &Local::Meta(Meta::Failure), &failure);
            let flow = actor::flow_of(&namespace, &*seen.snapshot)?;
            actor::leave_gate(&mut commit, &namespace, &flow, state.revision);
            Ok(Decision::Write(commit, Some(done(before, state.status))))
        });
        let cancelled = cancelled.await?;
        self.ended(cancelled.as_ref());
        if let Some(courier) = self.shared.courier.get() {
            courier.nudge();
        }
        Ok(cancelled)
    }

    /// Sets whether an instance is held that does not run, and so can't do it itself.
    pub(super) async fn pause_alone(&self, paused: bool) -> Result<Operated> {
        self.alone(|seen, now| {
            let before = seen.state.status;
            if before.is_terminal() {
                return Ok(Decision::Leave(Operated::unchanged(Effect::Ended, before)));
            }
            if seen.state.paused == paused {
                return Ok(Decision::Leave(Operated::unchanged(Effect::Already, before)));
            }
            let state = seen.next(now, |state| state.paused = paused);
            let mut commit = Commit::new(self.shared.store.namespace(&self.instance).shard());
            let namespace = self.shared.store.namespace(&self.instance);
            commit.set_state(&namespace, seen.state.alarm_at_ms, &state);
            Ok(Decision::Write(commit, done(before, before)))
        })
        .await
    }

    /// Tells observers that the instance has ended, if this was what ended it.
    fn ended(&self, operated: Option<&Operated>) {
        if let Some(operated) = operated.filter(|operated| operated.effect == Effect::Done) {
            let workflow = actor::workflow_of(&self.shared.store, &self.instance);
            self.shared
                .happened(&self.instance, &workflow, Moment::Ended(operated.now));
        }
    }

    /// A commit that gives the instance this state, with what follows from it.
    pub(super) fn change(&self, seen: &Seen, state: &State) -> Commit {
        let mut commit = Commit::new(self.shared.store.namespace(&self.instance).shard());
        self.change_into(&mut commit, seen, state);
        commit
    }

    /// Adds a new state, with what follows from it, to a commit.
    pub(super) fn change_into(&self, commit: &mut Commit, seen: &Seen, state: &State) {
        let namespace = self.shared.store.namespace(&self.instance);
        let runnable = (!state.status.is_terminal()).then(|| Runnable::new(seen.origin.workflow.as_str(), 0));
        commit
            .set_state(&namespace, seen.state.alarm_at_ms, state)
            .set_index(&namespace, &seen.origin, state)
            .set_runnable(&namespace, runnable.as_ref());
    }

    /// Decides and writes while nobody else has the instance. What was decided on something that changed meanwhile is
    /// decided again.
    pub(super) async fn alone<T>(&self, decide: impl Fn(&Seen, Millis) -> Result<Decision<T>>) -> Result<T> {
        // Whoever only learns that there is nothing to do should not disturb an instance for it.
        look::existing(&self.shared, &self.instance)?;
        let decide = &decide;
        let act = |activation: Activation| async move {
            loop {
                let seen = look::existing(&self.shared, &self.instance)?;
                let (mut commit, answer) = match decide(&seen, self.shared.clock.now_ms())? {
                    Decision::Leave(answer) => return Ok(answer),
                    Decision::Write(commit, answer) => (commit, answer),
                };
                commit
                    .require(Condition::Current(activation.clone()))
                    .require(Condition::Revision(self.instance.clone(), seen.state.revision));
                match self.shared.store.commit(commit).await {
                    Ok(_) => {
                        self.shared.changes.tell(&self.instance);
                        return Ok(answer);
                    }
                    // A commit that the resident had handed over before it left came in between.
                    Err(storage::Error::Refused(Refusal::Revision { .. })) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.shared.directory.exclusively(&self.instance, act).await
    }
}

pub(super) fn done(before: Status, now: Status) -> Operated {
    let effect = Effect::Done;
    Operated { effect, before, now }
}
