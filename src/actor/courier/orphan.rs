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
use crate::storage::{Result, Store, is_on_its_way};

/// How those of these children ended that have, for their parent.
pub(crate) fn ends_of_children(
    store: &Store,
    parent: Farewell<'_>,
    open: &[(Location, Entry)],
) -> Result<Vec<Outgoing>> {
    let mut told = Vec::new();
    for (location, entry) in open {
        if let EntryKind::Child(child) = &entry.kind
            && child.awaited
            && !child.closed
            && !child.is_open()
        {
            told.extend(match look_for(store, parent, entry.id, child)? {
                Found::Ended(end) => end.map(|end| *end),
                Found::Lives => None,
                Found::Gone => {
                    let reason = format!("the child `{}` was deleted: how it ended is not known", child.instance);
                    let decided = Decided::Failed(Failure::new(FailureKind::Error, reason));
                    Some(parent.to_itself(location, entry.id, decided))
                }
            });
        }
    }
    Ok(told)
}

/// How those children of an imported copy ended that were imported as well: they told the original. `heard` says what the
/// copy knows already. One that is not here may still be imported: the copy waits for it, and its description says so.
pub(crate) fn ends_that_were_missed<'e>(
    store: &Store,
    parent: Farewell<'_>,
    open: impl Iterator<Item = (&'e Location, &'e Entry)>,
    heard: impl Fn(u64) -> bool,
) -> Result<Vec<Outgoing>> {
    let mut told = Vec::new();
    for (location, entry) in open {
        let EntryKind::Child(child) = &entry.kind else { continue };
        if !child.awaited || child.closed || child.decided.is_some() || heard(entry.id) {
            continue;
        }
        match look_for(store, parent, entry.id, child)? {
            Found::Ended(end) => told.extend(end.map(|end| *end)),
            Found::Lives => {}
            Found::Gone => {
                let (instance, at, child) = (parent.instance, location, &child.instance);
                tracing::warn!(%instance, ?at, child, "a copy waits for a child that was not imported");
            }
        }
    }
    Ok(told)
}

/// Whether a child that is waited for is not in this store: it was deleted, or its parent was imported without it.
pub(crate) fn is_missing(store: &Store, parent: &InstanceId, child: &str) -> Result<bool> {
    let Ok(instance) = InstanceId::internal(child) else {
        return Ok(true);
    };
    let sender = store.namespace(parent);
    let starts = |outgoing: &Outgoing| outgoing.to == child && outgoing.parcel.starts().is_some();
    if is_on_its_way(&sender, &*store.snapshot(sender.shard())?, starts)? {
        return Ok(false);
    }
    let namespace = store.namespace(&instance);
    let snapshot = store.snapshot(namespace.shard())?;
    Ok(namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))?.is_none())
}

/// What has become of a child.
enum Found {
    /// What its parent is told about its end, once more.
    Ended(Option<Box<Outgoing>>),
    /// It has not ended, or was not even started yet.
    Lives,
    /// There is no such child any more.
    Gone,
}

fn look_for(store: &Store, parent: Farewell<'_>, entry: u64, child: &ChildState) -> Result<Found> {
    let Ok(instance) = InstanceId::internal(child.instance.as_str()) else {
        return Ok(Found::Gone);
    };
    // In this order: what is not on its way any more has got there by now.
    let sender = store.namespace(parent.instance);
    let starts = |outgoing: &Outgoing| outgoing.to == child.instance && outgoing.parcel.starts().is_some();
    if is_on_its_way(&sender, &*store.snapshot(sender.shard())?, starts)? {
        return Ok(Found::Lives);
    }
    let namespace = store.namespace(&instance);
    let snapshot = store.snapshot(namespace.shard())?;
    let (state, origin): (Option<State>, Option<Origin>) = (
        namespace.get(&*snapshot, &Local::Meta(Meta::State))?,
        namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?,
    );
    // Somebody else may have its id by now.
    let is_child = |origin: &Origin| {
        let found = origin.parent.as_ref();
        found.is_some_and(|found| found.instance == parent.instance.as_str() && found.entry == entry)
    };
    let (Some(state), Some(origin)) = (state, origin.filter(is_child)) else {
        return Ok(Found::Gone);
    };
    if !state.status.is_terminal() {
        return Ok(Found::Lives);
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
    Ok(Found::Ended(farewell.to_parent(&decided, Reach::Waiting).map(Box::new)))
}
