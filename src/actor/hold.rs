//! Putting an instance aside, with the reason: stuck, parked, quarantined. Its history is not touched.

use crate::actor::shared::Shared;
use crate::engine::Moment;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Hold, Origin, Runnable, State, Status};
use crate::storage::{Activation, Commit, Condition, Error};

/// Why an instance is put aside.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) status: Status,
    pub(crate) reason: String,
    pub(crate) report: Option<Payload>,
}

/// Writes that an instance is put aside, unless that is what is written already. What can be read of it is kept up to
/// date; if nothing can, only the reason is written.
pub(crate) async fn put_aside(shared: &Shared, activation: &Activation, held: &Held) -> Result<(), Error> {
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
