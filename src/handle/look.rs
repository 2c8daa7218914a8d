//! Reading an instance from outside, without activating it.

use crate::actor::{self, Shared};
use crate::clock::Millis;
use crate::handle::{Error, Result};
use crate::ids::InstanceId;
use crate::storage;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Input, Origin, State, Status};

/// An instance as it was at one moment.
pub(crate) struct Seen {
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) input: Payload,
    /// The moment, to read more of it.
    pub(crate) snapshot: Box<dyn Snapshot>,
}

impl Seen {
    /// Whether it was accepted for later, and later has not come; or it waits at a gate.
    pub(crate) fn has_not_begun(&self, shared: &Shared, instance: &InstanceId) -> Result<bool> {
        if actor::begins_later(&self.state, shared.clock.now_ms()) {
            return Ok(true);
        }
        let waits = actor::waits_at_gate(&shared.store.namespace(instance), &*self.snapshot)?;
        // One that is given another chance may have something behind it that has to be undone.
        Ok(waits && self.state.status == Status::Pending && self.state.entries == 0)
    }

    /// Refuses to give an instance another chance that is being deleted: it has forgotten already what it has seen.
    pub(crate) fn expect_whole(&self, shared: &Shared, instance: &InstanceId) -> Result<()> {
        let namespace = shared.store.namespace(instance);
        if storage::is_forgetting(&namespace, &self.state, &*self.snapshot)? {
            return Err(Error::Deleted(instance.clone()));
        }
        Ok(())
    }

    /// The state that comes after this one.
    pub(crate) fn next(&self, now: Millis, change: impl FnOnce(&mut State)) -> State {
        let mut state = self.state.clone();
        state.revision += 1;
        state.updated_at_ms = now;
        change(&mut state);
        state
    }

    /// Refuses an instance of another workflow.
    pub(crate) fn expect_type(&self, instance: &InstanceId, expected: &str) -> Result<()> {
        if self.origin.workflow == expected {
            return Ok(());
        }
        Err(Error::OtherWorkflow {
            instance: instance.clone(),
            expected: expected.to_owned(),
            found: self.origin.workflow.clone(),
        })
    }
}

/// An instance as it is now; none if there is no such instance.
pub(crate) fn instance(shared: &Shared, instance: &InstanceId) -> Result<Option<Seen>> {
    let namespace = shared.store.namespace(instance);
    let snapshot = shared.store.snapshot(namespace.shard())?;
    let Some(state) = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))? else {
        return Ok(None);
    };
    let missing = |what| storage::Error::Corrupt(format!("instance {instance} has no {what}"));
    let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
    let origin = origin.ok_or_else(|| missing("origin"))?;
    let input: Option<Input> = namespace.get(&*snapshot, &Local::Meta(Meta::Input))?;
    let Input(input) = input.ok_or_else(|| missing("input"))?;
    Ok(Some(Seen {
        origin,
        state,
        input,
        snapshot,
    }))
}

/// Where an instance stands, and nothing else of it: what is asked again and again does not read its input each time.
/// With the moment, to read more of it.
pub(crate) fn state(shared: &Shared, instance: &InstanceId) -> Result<Option<(State, Box<dyn Snapshot>)>> {
    let namespace = shared.store.namespace(instance);
    let snapshot = shared.store.snapshot(namespace.shard())?;
    let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
    Ok(state.map(|state| (state, snapshot)))
}

/// Where an instance is in its life. One that this process has begun with runs from that moment, although nothing of it is
/// stored before it has something to record: everybody who looks is told the same.
pub(crate) fn status(shared: &Shared, instance: &InstanceId, state: &State, snapshot: &dyn Snapshot) -> Result<Status> {
    if state.status != Status::Pending || !shared.directory.is_resident(instance) {
        return Ok(state.status);
    }
    // Whoever is loaded to be told that it is not its turn does not run.
    let waits = actor::begins_later(state, shared.clock.now_ms())
        || actor::waits_at_gate(&shared.store.namespace(instance), snapshot)?;
    Ok(if waits { Status::Pending } else { Status::Running })
}

/// The same, where its absence is an error.
pub(crate) fn existing_state(shared: &Shared, instance: &InstanceId) -> Result<(State, Box<dyn Snapshot>)> {
    state(shared, instance)?.ok_or_else(|| absent(shared, instance))
}

/// An instance as it is now, where its absence is an error: it never was, or it was deleted.
pub(crate) fn existing(shared: &Shared, id: &InstanceId) -> Result<Seen> {
    match instance(shared, id)? {
        Some(seen) => Ok(seen),
        None => Err(absent(shared, id)),
    }
}

/// Why there is no such instance.
pub(crate) fn absent(shared: &Shared, instance: &InstanceId) -> Error {
    match shared.store.tombstone(instance) {
        Ok(Some(_)) => Error::Deleted(instance.clone()),
        Ok(None) => Error::Unknown(instance.clone()),
        Err(error) => error.into(),
    }
}
