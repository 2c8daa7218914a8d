//! `runtime.debounce`: of several starts with one key, only the last becomes an instance.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::{self, Shared};
use crate::clock::{Millis, whole_ms};
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::debounce::{Debounce as Behind, Wanted, waiter_of};
use crate::engine::target::Target;
use crate::engine::{IntoWorkflow, Workflow};
use crate::handle::exclusive::Decision;
use crate::handle::later::Later;
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Error, Handle, Operated, Result, Waiting, history, wait};
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Failure, FailureKind, Input, Origin, Priority, Secret, Status};
use crate::storage::{self, Commit, Refusal};
use crate::ulid;

/// A key and a time to wait, without anything to start: say what with [`Debounce::starts`].
#[must_use = "nothing is started until it is known what"]
pub struct Debounce {
    shared: Arc<Shared>,
    key: String,
    wait: std::result::Result<Duration, InvalidDuration>,
}

impl Debounce {
    pub(crate) fn new(shared: Arc<Shared>, key: String, wait: impl IntoDuration) -> Self {
        let wait = wait.into_duration();
        Self { shared, key, wait }
    }

    /// Starts an instance of this workflow with this input, if no other start with the key comes before. Keys of
    /// different workflows have nothing to do with each other.
    #[expect(clippy::needless_pass_by_value, reason = "what an instance is started with is gone")]
    pub fn starts<As, W: IntoWorkflow<As>>(
        self,
        _workflow: W,
        input: <W::Workflow as Workflow>::Input,
    ) -> Debouncing<W::Workflow> {
        let Self { shared, key, wait } = self;
        Debouncing {
            later: Later::new::<W::Workflow>(&shared, &input),
            shared,
            key,
            wait,
            within: Ok(None),
            workflow: PhantomData,
        }
    }
}

/// A start that waits for the last of several; await it. It is durable when that returns.
#[must_use = "nothing is started until it is awaited"]
pub struct Debouncing<W> {
    shared: Arc<Shared>,
    key: String,
    wait: std::result::Result<Duration, InvalidDuration>,
    within: std::result::Result<Option<Duration>, InvalidDuration>,
    later: Later,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Debouncing<W> {
    /// However often it is replaced, it begins within this time of the first.
    pub fn within(mut self, within: impl IntoDuration) -> Self {
        self.within = within.into_duration().map(Some);
        self
    }

    /// With a tag that listings can filter by.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.later.tag(key, value);
        self
    }

    /// With this version of the code instead of the newest. One that this process does not have is refused.
    pub fn version(mut self, version: u32) -> Self {
        self.later.version(version);
        self
    }

    /// To be done within this time, from when it begins; after that it fails.
    pub fn deadline(mut self, deadline: impl IntoDuration) -> Self {
        self.later.deadline(deadline);
        self
    }

    /// With at most so many instances of this key running at once, whoever starts them: it comes to the end of the line when it
    /// begins, and not while it may still be replaced. See
    /// [`Start::at_most`](crate::Start::at_most).
    pub fn at_most(mut self, limit: u32, key: impl Into<String>) -> Self {
        self.later.at_most(limit, key);
        self
    }

    /// It goes before or after others that wait for the same place, for all that it does.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.later.priority(priority);
        self
    }

    /// Checks everything that can be wrong.
    fn check(self) -> Result<Waiter> {
        let target = self.later.check(&self.shared)?;
        let (wait_ms, within_ms) = (whole_ms(self.wait?), self.within?.map(whole_ms));
        let waiter = waiter_of(W::NAME, &self.key);
        Ok(Waiter {
            any: AnyHandle::new(self.shared, waiter),
            target,
            wait_ms,
            within_ms,
        })
    }
}

impl<W: Workflow> IntoFuture for Debouncing<W> {
    type Output = Result<Debounced<W>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let waiter = self.check()?;
            let (instance, replaced) = waiter.put().await?;
            let shared = Arc::clone(&waiter.any.shared);
            Ok(Debounced {
                handle: Handle::new(shared, InstanceId::new(instance)?),
                waiter: waiter.any,
                replaced,
            })
        })
    }
}

/// A start that waits.
#[derive(Debug)]
pub struct Debounced<W> {
    handle: Handle<W>,
    waiter: AnyHandle,
    replaced: bool,
}

impl<W> Clone for Debounced<W> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            waiter: self.waiter.clone(),
            replaced: self.replaced,
        }
    }
}

impl<W: Workflow> Debounced<W> {
    /// The id that the instance will have: the same for all starts that replace each other.
    pub fn id(&self) -> &InstanceId {
        self.handle.id()
    }

    /// Whether another one waited already, which it has taken the place of.
    pub fn replaced(&self) -> bool {
        self.replaced
    }

    /// Waits until the instance has begun. There is none before that, and none at all if what waits under the key is taken
    /// back: then this gives [`Error::Failed`], as a cancelled instance would.
    pub fn begun(&self) -> Waiting<Handle<W>> {
        let this = self.clone();
        Waiting::new(&self.waiter, async move {
            let (target, waiter) = (this.handle.id(), this.waiter.id());
            let shared = &this.waiter.shared;
            tokio::select! {
                biased;
                begun = wait::until(shared, target, || this.has_begun()) => begun?,
                begun = wait::until(shared, waiter, || this.has_begun()) => begun?,
            }
            Ok(this.handle.clone())
        })
    }

    fn has_begun(&self) -> Result<Option<()>> {
        let AnyHandle { shared, instance } = &self.handle.any;
        // Asked first: what is still on its way now may have arrived a moment later.
        let taken_back = self.taken_back()?;
        if look::state(shared, instance)?.is_some() {
            return Ok(Some(()));
        }
        match look::absent(shared, instance) {
            Error::Unknown(_) => taken_back.map_or(Ok(None), |failure| Err(Error::Failed(failure))),
            error => Err(error),
        }
    }

    /// Why there will be no instance, if nothing waits under the key any more that could become it.
    fn taken_back(&self) -> Result<Option<Failure>> {
        let AnyHandle { shared, instance } = &self.waiter;
        if let Some(seen) = look::instance(shared, instance)? {
            let wanted: Wanted = self.waiter.unpack(&seen.input)?;
            if wanted.instance == self.id().as_str() {
                return Ok(history::failure(shared, instance, &seen)?.filter(|_| seen.state.status.is_terminal()));
            }
        }
        // Another one waits under the key by now: this one has been sent off before, or never will be.
        let posted = shared.store.outbox(shared.store.shard_of(instance), None)?;
        let on_its_way = posted.next.is_some() || posted.rows.iter().any(|posted| posted.from == *instance);
        let taken_back = || Failure::new(FailureKind::Cancelled, "the start was taken back");
        Ok((!on_its_way).then(taken_back))
    }

    /// Takes back what waits under the key, whoever wanted it. What has begun goes on.
    pub fn cancel(&self, reason: impl Into<String>) -> Waiting<Operated> {
        self.waiter.cancel(reason)
    }
}

/// What waits under a key, and what it is to become.
#[derive(Clone)]
struct Waiter {
    any: AnyHandle,
    target: Target,
    wait_ms: Millis,
    within_ms: Option<Millis>,
}

impl Waiter {
    /// Makes it so. Tells the id of the instance to come, and whether it takes the place of another start.
    async fn put(&self) -> Result<(String, bool)> {
        let AnyHandle { shared, instance } = &self.any;
        loop {
            wait::goes_on(shared)?;
            let now = shared.clock.now_ms();
            let fresh = self.fresh(now);
            let begin_at_ms = self.begin_at_ms(&fresh, now);
            let origin = Origin::new(Behind::NAME, Behind::VERSION, now, Secret::draw(&*shared.chance));
            let input = shared.store.codecs().pack(&fresh).map_err(storage::Error::from)?;
            let commit = actor::start_commit(&shared.store, instance, &origin, input, Some(begin_at_ms));
            let pending = shared.store.submit(commit).await?;
            match actor::handed_over(shared, pending, armed(instance, begin_at_ms)).await {
                Ok(_) => return Ok((fresh.instance, false)),
                Err(storage::Error::Refused(Refusal::Exists)) => {}
                Err(error) => return Err(error.into()),
            }
            let waiter = self.clone();
            let decide = move |_: &AnyHandle, seen: &Seen, now| waiter.decide(seen, now, &fresh, &origin);
            match self.any.alone(decide).await {
                Ok(Some(put)) => return Ok(put),
                // It has begun: in a moment it will have ended, and there is room for the next.
                Ok(None) => match self.any.reached(Status::is_terminal).await {
                    Ok(_) | Err(Error::Unknown(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                },
                Err(Error::Unknown(_) | Error::Deleted(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What becomes of one that is there: it is replaced while it waits, and begins another run when it has ended.
    fn decide(
        &self,
        seen: &Seen,
        now: Millis,
        fresh: &Wanted,
        origin: &Origin,
    ) -> Result<Decision<Option<(String, bool)>>> {
        let AnyHandle { shared, instance } = &self.any;
        let (namespace, codecs) = (shared.store.namespace(instance), shared.store.codecs());
        if actor::begins_later(&seen.state, now) {
            let before: Wanted = self.any.unpack(&seen.input)?;
            let wanted = Wanted {
                instance: before.instance,
                since_ms: before.since_ms,
                target: self.target.clone(),
            };
            let begin_at_ms = self.begin_at_ms(&wanted, now);
            let state = seen.next(now, |state| {
                state.alarm_at_ms = Some(begin_at_ms);
                state.began_at_ms = begin_at_ms;
            });
            let input = codecs.pack(&wanted).map_err(storage::Error::from)?;
            let mut commit = Commit::new(namespace.shard());
            commit
                .set(&namespace, &Local::Meta(Meta::Input), &Input(input))
                .set_state(&namespace, seen.state.alarm_at_ms, &state)
                .set_index(&namespace, &seen.origin, &state);
            let write = Decision::write(commit, Some((wanted.instance, true)));
            return Ok(write.then(armed(instance, begin_at_ms)));
        }
        if !seen.state.status.is_terminal() {
            return Ok(Decision::Leave(None));
        }
        let wanted = Wanted {
            since_ms: now,
            ..fresh.clone()
        };
        let begin_at_ms = self.begin_at_ms(&wanted, now);
        let origin = Origin {
            created_at_ms: seen.origin.created_at_ms,
            ..origin.clone()
        };
        let input = codecs.pack(&wanted).map_err(storage::Error::from)?;
        let times = (now, Some(begin_at_ms));
        let commit = actor::new_run_commit(&namespace, &*seen.snapshot, &origin, &seen.state, input, times)?;
        let write = Decision::write(commit, Some((wanted.instance, false)));
        Ok(write.then(armed(instance, begin_at_ms)))
    }

    /// What is wanted when nobody waits.
    fn fresh(&self, now: Millis) -> Wanted {
        let shared = &self.any.shared;
        let instance = ulid::instance_id(&self.target.workflow, &*shared.clock, &*shared.chance);
        Wanted {
            instance: instance.into(),
            target: self.target.clone(),
            since_ms: now,
        }
    }

    fn begin_at_ms(&self, wanted: &Wanted, now: Millis) -> Millis {
        let last = self.within_ms.map(|most| wanted.since_ms.saturating_add(most));
        let wished = now.saturating_add(self.wait_ms);
        // One that is already past begins at once, which takes an alarm all the same.
        last.map_or(wished, |last| wished.min(last)).max(now)
    }
}

/// Tells that it waits until then.
fn armed(instance: &InstanceId, at_ms: Millis) -> impl FnOnce(&Arc<Shared>) + Send + 'static {
    let instance = instance.clone();
    move |shared| {
        if let Some(alarms) = shared.alarms.get() {
            alarms.armed(at_ms, &instance);
        }
        shared.changes.tell(&instance);
    }
}
