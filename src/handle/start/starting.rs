//! A start on its way into the store: written once, or found to be there.

use std::sync::Arc;

use crate::actor::{self, Shared};
use crate::clock::{Millis, Stopwatch, wall_ms, whole_ms};
use crate::handle::exclusive::Decision;
use crate::handle::look::{self, Seen};
use crate::handle::start::begun::Begun;
use crate::handle::start::check::{check_crowd, check_flow, check_tags, check_version};
use crate::handle::start::crowd::{self, Passed};
use crate::handle::start::{Crowded, Existing, Options};
use crate::handle::{AnyHandle, Error, Result, size, wait};
use crate::ids::InstanceId;
use crate::storage::key::Key;
use crate::storage::payload::Payload;
use crate::storage::record::{Flow, Origin, Secret};
use crate::storage::{self, Refusal};
use crate::telemetry;
use crate::ulid;

/// A start with its types taken off.
pub(in crate::handle) struct Starting {
    pub(in crate::handle) shared: Arc<Shared>,
    pub(in crate::handle) instance: InstanceId,
    pub(super) origin: Origin,
    input: Payload,
    begin_at_ms: Option<Millis>,
    pub(super) existing: Existing,
    pub(super) flow: Flow,
    crowd: Option<(usize, Crowded)>,
}

impl Starting {
    pub(in crate::handle) fn new(
        shared: &Arc<Shared>,
        workflow: &str,
        options: Options,
        input: Payload,
    ) -> Result<Self> {
        if !shared.definitions.contains_key(workflow) {
            return Err(Error::Unregistered(workflow.to_owned()));
        }
        check_tags(&options.tags)?;
        check_flow(&options.flow)?;
        check_crowd(options.crowd)?;
        size::check_input(shared, workflow, &input)?;
        let instance = match &options.id {
            Some(id) => InstanceId::new(id.as_str())?,
            None => ulid::instance_id(workflow, &*shared.clock, &*shared.chance),
        };
        Self::under(shared, workflow, instance, options, input)
    }

    /// The same under an id that may be one of the runtime's own.
    pub(in crate::handle) fn under(
        shared: &Arc<Shared>,
        workflow: &str,
        instance: InstanceId,
        options: Options,
        input: Payload,
    ) -> Result<Self> {
        let Some(definition) = shared.definitions.get(workflow) else {
            return Err(Error::Unregistered(workflow.to_owned()));
        };
        check_version(definition, options.version)?;
        let now = shared.clock.now_ms();
        let after = options.after?.map(|after| now.saturating_add(whole_ms(after)));
        let begin_at_ms = options.at.map(wall_ms).or(after).filter(|at| *at > now);
        let begin = begin_at_ms.unwrap_or(now);
        let deadline = options
            .deadline?
            .map(|deadline| begin.saturating_add(whole_ms(deadline)));
        let mut origin = Origin::new(workflow, options.version, now, Secret::draw(&*shared.chance));
        origin.tags = options.tags.into_iter().collect();
        origin.deadline_at_ms = deadline.or_else(|| definition.policy.deadline_at_ms(begin));
        Ok(Self {
            shared: Arc::clone(shared),
            instance,
            origin,
            input,
            begin_at_ms,
            existing: options.existing,
            flow: options.flow,
            crowd: options.crowd,
        })
    }

    /// Starts, or finds what was started before: whether it existed, and whether with another input.
    pub(in crate::handle) async fn run(&self) -> Result<(bool, bool)> {
        loop {
            wait::goes_on(&self.shared)?;
            // Counted among those who wait until it is to be seen there.
            let coming = match self.crowd {
                Some((waiting, crowded)) => crowd::pass(self, waiting, crowded).await?,
                None => None,
            };
            match self.begin().await {
                Ok(()) => {
                    coming.into_iter().for_each(Passed::came);
                    return Ok((false, false));
                }
                Err(Error::Storage(storage::Error::Refused(Refusal::Exists))) => {}
                Err(error) => return Err(error),
            }
            // One that was deleted since is no longer in the way.
            let Some(seen) = look::instance(&self.shared, &self.instance)? else {
                continue;
            };
            seen.expect_type(&self.instance, &self.origin.workflow)?;
            match self.existing {
                Existing::Refuse => return Err(Error::Exists(self.instance.clone())),
                Existing::NewRun if seen.state.status.is_terminal() => {
                    seen.expect_whole(&self.shared, &self.instance)?;
                    drop(seen);
                    if self.renew().await? {
                        coming.into_iter().for_each(Passed::came);
                        return Ok((false, false));
                    }
                }
                Existing::NewRun | Existing::Return => {
                    self.tell_of_what_is_there(&seen)?;
                    self.begun().nudge_courier(&self.shared);
                    return Ok((true, self.differs(&seen)?));
                }
            }
        }
    }

    /// Whoever started the instance may not have known that it was, and told nobody. One that has nothing to do is left
    /// alone: however often it is started again, it sleeps on.
    fn tell_of_what_is_there(&self, seen: &Seen) -> Result<()> {
        let shard = self.shared.store.shard_of(&self.instance);
        let runnable = Key::Runnable(shard, self.instance.as_str().into()).pack();
        if seen.snapshot.get(&runnable).map_err(storage::Error::from)?.is_some() {
            self.shared.directory.wake(&self.instance);
        } else if let (Some(at), Some(alarms)) = (seen.state.alarm_at_ms, self.shared.alarms.get()) {
            alarms.armed(at, &self.instance);
        }
        Ok(())
    }

    /// Writes what there has to be for the instance to exist, if it does not yet, and tells whom it concerns.
    async fn begin(&self) -> Result<()> {
        let Self {
            shared,
            instance,
            origin,
            flow,
            begin_at_ms,
            ..
        } = self;
        let (store, input) = (&shared.store, self.input.clone());
        if flow.gate.is_some() && begin_at_ms.is_none() {
            let starting = store.submit_delivery(store.shard_of(instance), |arrivals| {
                actor::start_at_gate_commit(store, instance, origin, input, flow, || arrivals.next_place())
            });
            actor::handed_over(shared, starting.await?, self.begun().telling()).await?;
            return Ok(());
        }
        let watch = Stopwatch::start();
        let mut commit = actor::start_commit(store, instance, origin, input, *begin_at_ms);
        if *flow != Flow::default() {
            actor::set_flow(&mut commit, &store.namespace(instance), flow);
        }
        let begun = actor::handed_over(shared, store.submit(commit).await?, self.begun().telling()).await;
        telemetry::committed(watch.elapsed());
        begun?;
        Ok(())
    }

    /// Begins another run. Tells whether it still had ended.
    async fn renew(&self) -> Result<bool> {
        let handle = AnyHandle::new(Arc::clone(&self.shared), self.instance.clone());
        let (wanted, input, flow) = (self.origin.clone(), self.input.clone(), self.flow.clone());
        let (begun, begin_at_ms) = (self.begun(), self.begin_at_ms);
        let renewed = handle.alone(move |handle, seen, now| {
            if !seen.state.status.is_terminal() {
                return Ok(Decision::Leave(false));
            }
            // Where its listing row lies and what its ids are made of stays.
            let origin = Origin {
                created_at_ms: seen.origin.created_at_ms,
                secret: seen.origin.secret,
                ..wanted.clone()
            };
            let (input, times) = (input.clone(), (now, begin_at_ms));
            let namespace = handle.namespace();
            let mut commit = actor::new_run_commit(&namespace, &*seen.snapshot, &origin, &seen.state, input, times)?;
            actor::set_flow(&mut commit, &namespace, &flow);
            Ok(Decision::write(commit, true).then(begun.clone().telling()))
        });
        match renewed.await {
            Err(Error::Unknown(_) | Error::Deleted(_)) => Ok(false),
            renewed => renewed,
        }
    }

    fn begun(&self) -> Begun {
        Begun {
            instance: self.instance.clone(),
            workflow: self.origin.workflow.clone(),
            begin_at_ms: self.begin_at_ms,
            at_gate: self.flow.gate.is_some(),
            deadline_at_ms: self.origin.deadline_at_ms,
        }
    }

    fn differs(&self, seen: &Seen) -> Result<bool> {
        let codecs = self.shared.store.codecs();
        let (ours, theirs) = (codecs.cbor(&self.input), codecs.cbor(&seen.input));
        Ok(ours.map_err(storage::Error::from)? != theirs.map_err(storage::Error::from)?)
    }
}
