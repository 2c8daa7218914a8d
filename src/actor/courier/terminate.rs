//! The commits that end an instance without another line of its code.

use crate::actor::gate;
use crate::clock::Millis;
use crate::engine::{Farewell, is_unseen};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Decided, Entry, Failure, FailureKind, Origin, Reach, State, Status};
use crate::storage::{Commit, Condition, Error, Result, Rows, Store};

/// Everything that has to be written for an instance to be over, without another line of its code: its failure, what
/// its parent is told, and what becomes of its children. None if it has ended, or if there is no such instance.
///
/// Whoever commits it must have the instance alone.
pub(crate) fn terminate_commit(
    store: &Store,
    instance: &InstanceId,
    reason: &str,
    now: Millis,
) -> Result<Option<Commit>> {
    let failure = Failure::new(FailureKind::Terminated, reason);
    end_commit(store, instance, (Status::Terminated, failure, Reach::Waiting), now)
}

/// The same for one that is cancelled before it has begun: it has done nothing that it could undo.
pub(crate) fn cancel_commit(store: &Store, instance: &InstanceId, reason: &str, now: Millis) -> Result<Option<Commit>> {
    let failure = Failure::new(FailureKind::Cancelled, reason);
    end_commit(store, instance, (Status::Cancelled, failure, Reach::Waiting), now)
}

/// The same for one that ends like this, and whose failure reaches so far.
pub(crate) fn end_commit(
    store: &Store,
    instance: &InstanceId,
    (status, failure, reach): (Status, Failure, Reach),
    now: Millis,
) -> Result<Option<Commit>> {
    let namespace = store.namespace(instance);
    let snapshot = store.snapshot(namespace.shard())?;
    let Some(before) = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))? else {
        return Ok(None);
    };
    if before.status.is_terminal() {
        return Ok(None);
    }
    let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
    let origin = origin.ok_or_else(|| Error::Corrupt(format!("instance {instance} has no origin")))?;
    let mut entries = Vec::new();
    namespace.list(&*snapshot, Rows::History(&Location::root()), &mut |local, row| {
        if let (Local::History(location), entry) = (local, row.decode::<Entry>()?)
            && (entry.completed.is_none() || is_unseen(&entry.kind))
        {
            entries.push((location.into_owned(), entry));
        }
        Ok(())
    })?;
    let reason = failure.message.clone();
    let state = State {
        status,
        revision: before.revision + 1,
        alarm_at_ms: None,
        updated_at_ms: now,
        // There is nothing left to hold, and a retry means that it goes on.
        paused: false,
        ..before.clone()
    };
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(instance.clone(), before.revision))
        .set(&namespace, &Local::Meta(Meta::Failure), &failure)
        .delete(&namespace, &Local::Meta(Meta::Hold))
        .set_state(&namespace, before.alarm_at_ms, &state)
        .set_index(&namespace, &origin, &state)
        .set_runnable(&namespace, None);
    let farewell = Farewell {
        instance,
        origin: &origin,
        run: before.run,
        now,
    };
    let told = farewell.to_parent(&Decided::Failed(failure), reach);
    let others = farewell.to_others(&entries, &reason);
    for (index, outgoing) in (0..).zip(told.into_iter().chain(others)) {
        commit.post(&namespace, state.revision, index, &outgoing);
    }
    gate::leave(
        &mut commit,
        &namespace,
        &gate::flow(&namespace, &*snapshot)?,
        state.revision,
    );
    Ok(Some(commit))
}
