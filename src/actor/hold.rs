//! Putting an instance aside, with the reason: stuck, parked, quarantined. Its history is not touched.

use crate::actor::gate;
use crate::actor::shared::Shared;
use crate::clock::Millis;
use crate::engine::Moment;
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Failure, Hold, Origin, Runnable, State, Status};
use crate::storage::{Activation, Commit, Condition, Error, Result, Store};

/// Why an instance is put aside.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) status: Status,
    pub(crate) reason: String,
    pub(crate) report: Option<Payload>,
}

/// Writes that an instance is put aside, unless that is what is written already. What can be read of it is kept up to
/// date; if nothing can, only the reason is written.
pub(crate) async fn put_aside(shared: &Shared, activation: &Activation, held: &Held) -> Result<()> {
    let namespace = shared.store.namespace(activation.instance());
    let now = shared.clock.now_ms();
    let (commit, workflow) = {
        let snapshot = shared.store.snapshot(namespace.shard())?;
        let written: Option<Hold> = namespace.get(&*snapshot, &Local::Meta(Meta::Hold)).ok().flatten();
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State)).ok().flatten();
        let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin)).ok().flatten();
        let same = written.is_some_and(|written| written.reason == held.reason);
        if same && state.as_ref().is_none_or(|state| state.status == held.status) {
            return Ok(());
        }
        if state.as_ref().is_some_and(|state| state.status.is_terminal()) {
            return Ok(());
        }
        let mut commit = Commit::new(namespace.shard());
        commit.require(Condition::Current(activation.clone()));
        let row = Hold {
            reason: held.reason.clone(),
            since_ms: now,
            report: held.report.clone(),
        };
        commit.set(&namespace, &Local::Meta(Meta::Hold), &row);
        if let Some(before) = state {
            commit.require(Condition::Revision(namespace.instance().clone(), before.revision));
            let state = State {
                status: held.status,
                revision: before.revision + 1,
                updated_at_ms: now,
                ..before.clone()
            };
            commit.set_state(&namespace, before.alarm_at_ms, &state);
            if let Some(origin) = &origin {
                commit.set_index(&namespace, origin, &state);
            }
        }
        // The next start tries again, except what is in quarantine.
        let workflow = origin.map(|origin| origin.workflow).unwrap_or_default();
        let runnable = (held.status != Status::Quarantined).then(|| Runnable::new(workflow.as_str(), 0));
        commit.set_runnable(&namespace, runnable.as_ref());
        (commit, workflow)
    };
    shared.store.commit(commit).await?;
    tracing::warn!(instance = %activation.instance(), status = %held.status, reason = held.reason, "put aside");
    shared.changes.tell(activation.instance());
    let moment = Moment::PutAside(held.status);
    shared.happened(activation.instance(), &workflow, moment);
    Ok(())
}

/// Everything that has to be written for an instance to be kept for an operator that failed before it was its turn. It
/// leaves its gate: it would keep others waiting with a place that it does not need, and comes again when it is let out.
/// None if it has ended, or if there is no such instance.
///
/// Whoever commits it must have the instance alone.
pub(crate) fn keep_commit(
    store: &Store,
    instance: &InstanceId,
    failure: &Failure,
    now: Millis,
) -> Result<Option<Commit>> {
    let namespace = store.namespace(instance);
    let snapshot = store.snapshot(namespace.shard())?;
    let before: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
    let Some(before) = before.filter(|before| !before.status.is_terminal()) else {
        return Ok(None);
    };
    let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
    let origin = origin.ok_or_else(|| Error::Corrupt(format!("instance {instance} has no origin")))?;
    let state = State {
        status: Status::Quarantined,
        revision: before.revision + 1,
        alarm_at_ms: None,
        updated_at_ms: now,
        ..before.clone()
    };
    let hold = Hold {
        reason: failure.to_string(),
        since_ms: now,
        report: store.codecs().pack(failure).ok(),
    };
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(instance.clone(), before.revision))
        .set(&namespace, &Local::Meta(Meta::Hold), &hold)
        .set_state(&namespace, before.alarm_at_ms, &state)
        .set_index(&namespace, &origin, &state)
        .set_runnable(&namespace, None);
    let flow = gate::flow(&namespace, &*snapshot)?;
    gate::leave(&mut commit, &namespace, &flow, state.revision);
    Ok(Some(commit))
}
