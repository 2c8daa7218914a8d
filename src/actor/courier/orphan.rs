//! Children that ended while nobody was there to hear of it.
//!
//! A child that was abandoned goes on when its parent ends, and what it has to say when it ends itself finds nobody. If
//! the parent is given another chance, it waits for that child again: it is told what it has missed.

use crate::engine::Farewell;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{
    ChildState, Decided, Entry, EntryKind, Failure, FailureKind, Origin, Outgoing, Output, Reach, State,
};
use crate::storage::{Result, Store};

/// How those of these children ended that have, for their parent.
pub(crate) fn ends_of_children(store: &Store, open: &[(Location, Entry)]) -> Result<Vec<Outgoing>> {
    let mut told = Vec::new();
    for (_, entry) in open {
        if let EntryKind::Child(child) = &entry.kind
            && child.awaited
            && !child.closed
            && !child.is_open()
        {
            told.extend(end_of(store, child)?);
        }
    }
    Ok(told)
}

/// What the parent of a child is told about its end, once more.
fn end_of(store: &Store, child: &ChildState) -> Result<Option<Outgoing>> {
    let Ok(instance) = InstanceId::internal(child.instance.as_str()) else {
        return Ok(None);
    };
    let namespace = store.namespace(&instance);
    let snapshot = store.snapshot(namespace.shard())?;
    let (state, origin): (Option<State>, Option<Origin>) = (
        namespace.get(&*snapshot, &Local::Meta(Meta::State))?,
        namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?,
    );
    let (Some(state), Some(origin)) = (state, origin) else {
        return Ok(None);
    };
    if !state.status.is_terminal() {
        return Ok(None);
    }
    let output: Option<Output> = namespace.get(&*snapshot, &Local::Meta(Meta::Output))?;
    let decided = match output {
        Some(Output(payload)) => Decided::Completed(payload),
        None => {
            let failure: Option<Failure> = namespace.get(&*snapshot, &Local::Meta(Meta::Failure))?;
            let unknown = || Failure::new(FailureKind::Error, "how it ended is not known");
            Decided::Failed(failure.unwrap_or_else(unknown))
        }
    };
    let farewell = Farewell {
        instance: &instance,
        origin: &origin,
        run: state.run,
        now: state.updated_at_ms,
    };
    Ok(farewell.to_parent(&decided, Reach::Waiting))
}
