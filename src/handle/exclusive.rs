//! Operations for which nobody else may have the instance: they write its rows themselves.
//!
//! Each is decided twice: on what is stored, and if there is something to write, once more when nobody else has the
//! instance. So an operation that is refused or changes nothing does not disturb a step that runs.

use std::sync::Arc;

use crate::actor::{self, Shared};
use crate::clock::Millis;
use crate::engine::Moment;
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Effect, Error, Operated, Result, Waiting, wait};
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Runnable, State, Status, Tombstone};
use crate::storage::{self, Activation, Commit, Condition, Namespace, Refusal};

/// What is to be done with an instance that nobody else has.
pub(super) enum Decision<T> {
    /// Nothing; this is the answer.
    Leave(T),
    /// Something.
    Write(Write<T>),
}

/// Something to be written, and what follows when it is durable.
pub(super) struct Write<T> {
    commit: Commit,
    answer: T,
    tell: Option<Tell>,
}

type Tell = Box<dyn FnOnce(&Arc<Shared>) + Send>;

impl<T> Decision<T> {
    /// This is written; and the answer when it is durable.
    pub(super) fn write(commit: Commit, answer: T) -> Self {
        let tell = None;
        Self::Write(Write { commit, answer, tell })
    }

    /// The same with another answer.
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Decision<U> {
        match self {
            Self::Leave(answer) => Decision::Leave(map(answer)),
            Self::Write(Write { commit, answer, tell }) => Decision::Write(Write {
                commit,
                answer: map(answer),
                tell,
            }),
        }
    }

    /// And then somebody is told, beside those who wait for the instance.
    pub(super) fn then(self, tell: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Self {
        match self {
            Self::Write(write) => Self::Write(Write {
                tell: Some(Box::new(tell)),
                ..write
            }),
            Self::Leave(answer) => Self::Leave(answer),
        }
    }
}

impl AnyHandle {
    /// Ends the instance at once: none of its code runs any more, nothing is cleaned up. One that has ended stays as it
    /// ended, and the answer says how.
    ///
    /// Code that never awaits can't be taken off its thread: this returns when it has come to its next await.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let terminated = payment.terminate("it was a test").await?;
    /// assert_eq!(terminated.now, Status::Terminated);
    /// # Ok(()) }
    /// ```
    pub fn terminate(&self, reason: impl Into<String>) -> Waiting<Operated> {
        let (this, reason) = (self.clone(), reason.into());
        Waiting::new(self, async move {
            let terminated = this.terminate_if(reason, |_| true).await?;
            Ok(terminated.expect("whoever it is, it is meant"))
        })
    }

    /// The same if it is the one that is meant; none if not.
    pub(super) async fn terminate_if(&self, reason: String, meant: impl Meant) -> Result<Option<Operated>> {
        self.alone(move |this, seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(None));
            }
            let before = seen.state.status;
            let commit = actor::terminate_commit(&this.shared.store, &this.instance, &reason, now)?;
            Ok(match commit {
                Some(commit) => Decision::write(commit, Some(done(before, Status::Terminated))).then(ended(
                    &this.instance,
                    seen,
                    Status::Terminated,
                )),
                None => Decision::Leave(Some(Operated::unchanged(Effect::Ended, before))),
            })
        })
        .await
    }

    /// Lets an instance go on that was put into quarantine, or tries one again at once that is stuck or parked. What is in
    /// quarantine because it failed goes on as after a [retry](AnyHandle::retry).
    pub async fn release(&self) -> Result<Operated> {
        self.alone(|this, seen, now| {
            let before = seen.state.status;
            match before {
                Status::Quarantined => return this.let_out(seen, now),
                Status::Stuck | Status::Parked => {}
                before if before.is_terminal() => {
                    return Ok(Decision::Leave(Operated::unchanged(Effect::Ended, before)));
                }
                before => return Ok(Decision::Leave(Operated::unchanged(Effect::Already, before))),
            }
            Ok(this.go_on(seen, now))
        })
        .await
    }

    /// Lets an instance go on that was put aside, from where it stands.
    pub(super) fn go_on(&self, seen: &Seen, now: Millis) -> Decision<Operated> {
        let state = seen.next(now, |state| state.status = Status::Running);
        let mut commit = self.change(seen, &state);
        commit.delete(&self.namespace(), &Local::Meta(Meta::Hold));
        Decision::write(commit, done(seen.state.status, state.status))
    }

    /// Removes an instance that has ended, with everything that is stored of it. What is left is the fact that it was
    /// there: whoever asks for it is told that it was deleted.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// payment.terminate("it was a test").await?;
    /// payment.delete().await?;
    /// assert!(payment.status().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self) -> Result<()> {
        self.delete_if(|_| true).await.map(|_| ())
    }

    /// The same if it is the one that is meant. Tells whether it was.
    pub(super) async fn delete_if(&self, meant: impl Meant) -> Result<bool> {
        let meant = Arc::new(meant);
        loop {
            let meant = Arc::clone(&meant);
            if let Some(deleted) = self.delete_or_prepare(move |seen| meant(seen)).await? {
                return Ok(deleted);
            }
        }
    }

    /// The same, unless it has so much on its way that this has to be seen to first. Then some of it was.
    async fn delete_or_prepare(&self, meant: impl Meant) -> Result<Option<bool>> {
        self.alone(move |this, seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(Some(false)));
            }
            if !seen.state.status.is_terminal() {
                return Err(Error::NotFinished {
                    instance: this.instance.clone(),
                    status: seen.state.status,
                });
            }
            let namespace = this.namespace();
            let mut commit = Commit::new(namespace.shard());
            let sent = storage::set_before_all(&mut commit, &namespace, &*seen.snapshot)?;
            let all = storage::forget_most_seen(&mut commit, &namespace, (&seen.state, now), &*seen.snapshot)? && sent;
            if all {
                commit
                    .purge(&namespace, &seen.origin, &seen.state)
                    .leave_tombstone(&namespace, &Tombstone { deleted_at_ms: now });
            }
            Ok(Decision::write(commit, all.then_some(true)))
        })
        .await
    }

    /// The same for one that has not ended: it is terminated first.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// payment.delete_anyway("it was a test").await?;
    /// assert!(payment.status().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn delete_anyway(&self, reason: impl Into<String>) -> Result<()> {
        self.terminate(reason).await?;
        self.delete().await
    }

    /// Ends an instance that is to begin later, or waits at a gate; nothing if it has begun after all.
    pub(super) async fn cancel_before_the_beginning(&self, reason: &str) -> Result<Option<Operated>> {
        let reason = reason.to_owned();
        self.alone(move |this, seen, now| {
            let before = seen.state.status;
            if !seen.has_not_begun(&this.shared, &this.instance)? {
                return Ok(Decision::Leave(None));
            }
            let Some(commit) = actor::cancel_commit(&this.shared.store, &this.instance, &reason, now)? else {
                return Ok(Decision::Leave(None));
            };
            let write = Decision::write(commit, Some(done(before, Status::Cancelled)));
            Ok(write.then(ended(&this.instance, seen, Status::Cancelled)))
        })
        .await
    }

    /// Sets whether an instance is held that does not run, and so can't do it itself.
    pub(super) async fn pause_alone(&self, paused: bool) -> Result<Operated> {
        self.alone(move |this, seen, now| {
            let before = seen.state.status;
            if before.is_terminal() {
                return Ok(Decision::Leave(Operated::unchanged(Effect::Ended, before)));
            }
            if seen.state.paused == paused {
                return Ok(Decision::Leave(Operated::unchanged(Effect::Already, before)));
            }
            let state = seen.next(now, |state| state.paused = paused);
            let namespace = this.namespace();
            let mut commit = Commit::new(namespace.shard());
            commit.set_state(&namespace, seen.state.alarm_at_ms, &state);
            Ok(Decision::write(commit, done(before, before)))
        })
        .await
    }

    /// A commit that gives the instance this state, with what follows from it.
    pub(super) fn change(&self, seen: &Seen, state: &State) -> Commit {
        let mut commit = Commit::new(self.namespace().shard());
        self.change_into(&mut commit, seen, state);
        commit
    }

    /// Adds a new state, with what follows from it, to a commit.
    pub(super) fn change_into(&self, commit: &mut Commit, seen: &Seen, state: &State) {
        let namespace = self.namespace();
        let runnable = (!state.status.is_terminal()).then(|| Runnable::new(seen.origin.workflow.as_str(), 0));
        commit
            .set_state(&namespace, seen.state.alarm_at_ms, state)
            .set_index(&namespace, &seen.origin, state)
            .set_runnable(&namespace, runnable.as_ref());
    }

    pub(super) fn namespace(&self) -> Namespace {
        self.shared.store.namespace(&self.instance)
    }

    /// Decides, and if there is something to write, decides again and writes while nobody else has the instance. What has
    /// begun by then is brought to its end also if whoever asked for it goes away.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        decide: impl Fn(&Self, &Seen, Millis) -> Result<Decision<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        if let Decision::Leave(answer) = {
            let seen = look::existing(&self.shared, &self.instance)?;
            decide(self, &seen, self.shared.clock.now_ms())?
        } {
            return Ok(answer);
        }
        wait::goes_on(&self.shared)?;
        let this = self.clone();
        let act = |activation| async move { this.decide_and_write(activation, decide).await };
        actor::exclusively(&self.shared, &self.instance, act).await
    }

    /// What was decided on something that changed meanwhile is decided again.
    async fn decide_and_write<T>(
        &self,
        activation: Activation,
        decide: impl Fn(&Self, &Seen, Millis) -> Result<Decision<T>>,
    ) -> Result<T> {
        loop {
            wait::goes_on(&self.shared)?;
            let Write {
                mut commit,
                answer,
                tell,
            } = {
                let seen = look::existing(&self.shared, &self.instance)?;
                match decide(self, &seen, self.shared.clock.now_ms())? {
                    Decision::Leave(answer) => return Ok(answer),
                    Decision::Write(mut write) => {
                        let revision = Condition::Revision(self.instance.clone(), seen.state.revision);
                        write.commit.require(revision);
                        write
                    }
                }
            };
            commit.require(Condition::Current(activation.clone()));
            let posts = commit.posts;
            match self.shared.store.commit(commit).await {
                Ok(_) => {
                    self.shared.changes.tell(&self.instance);
                    if let (true, Some(courier)) = (posts, self.shared.courier.get()) {
                        courier.nudge();
                    }
                    if let Some(tell) = tell {
                        tell(&self.shared);
                    }
                    return Ok(answer);
                }
                // A commit that the resident had handed over before it left came in between, or something that it had on
                // its way has got there.
                Err(storage::Error::Refused(Refusal::Revision { .. } | Refusal::NotPosted)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether an instance is the one that an operation is about.
pub(super) trait Meant: Fn(&Seen) -> bool + Send + Sync + 'static {}

impl<F: Fn(&Seen) -> bool + Send + Sync + 'static> Meant for F {}

/// Tells observers that an instance has ended.
fn ended(instance: &InstanceId, seen: &Seen, status: Status) -> impl FnOnce(&Arc<Shared>) + Send + 'static {
    let (instance, workflow) = (instance.clone(), seen.origin.workflow.clone());
    move |shared| shared.happened(&instance, &workflow, Moment::Ended(status))
}

pub(super) fn done(before: Status, now: Status) -> Operated {
    let effect = Effect::Done;
    Operated { effect, before, now }
}
