//! Children that ended while nobody was there to hear of it.
//!
//! A child that was abandoned goes on when its parent ends, and what it has to say when it ends itself finds nobody. If
//! the parent is given another chance, it waits for that child again: it is told what it has missed.

use std::collections::BTreeSet;

use crate::engine::Farewell;
use crate::ids::InstanceId;
use crate::limits::{OUTGOING_BYTES_MAX, OUTGOING_MAX};
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{
    ChildState, Decided, Entry, EntryKind, Failure, FailureKind, Origin, Outgoing, Output, Parcel, Reach, State,
};
use crate::storage::{Result, Store, starts_on_their_way};

/// How those of these children ended that have, for their parent.
pub(crate) fn ends_of_children(
    store: &Store,
    parent: Farewell<'_>,
    open: &[(Location, Entry)],
) -> Result<Vec<Outgoing>> {
    let mut told = Vec::new();
    let mut starts = Starts::of(store, parent.instance);
    for (location, entry) in open {
        if let EntryKind::Child(child) = &entry.kind
            && child.awaited
            && !child.closed
            && !child.is_open()
        {
            told.extend(match look_for(&mut starts, parent, entry.id, child)? {
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
/// As much as one commit may send; there may be more.
pub(crate) fn ends_that_were_missed<'e>(
    store: &Store,
    parent: Farewell<'_>,
    open: impl Iterator<Item = (&'e Location, &'e Entry)>,
    heard: impl Fn(u64) -> bool,
) -> Result<Vec<Outgoing>> {
    let (mut told, mut bytes) = (Vec::new(), 0);
    let mut starts = Starts::of(store, parent.instance);
    for (location, entry) in open {
        let EntryKind::Child(child) = &entry.kind else { continue };
        if !child.awaited || child.closed || child.decided.is_some() || heard(entry.id) {
            continue;
        }
        let end = match look_for(&mut starts, parent, entry.id, child)? {
            Found::Ended(end) => end,
            Found::Lives => None,
            Found::Gone => {
                let (instance, at, child) = (parent.instance, location, &child.instance);
                tracing::warn!(%instance, ?at, child, "a copy waits for a child that was not imported");
                None
            }
        };
        let Some(end) = end else { continue };
        let Parcel::Message { message, .. } = &end.parcel else {
            continue;
        };
        // One that was let go is open still. The copy has heard of its end, and had no use for it.
        let namespace = store.namespace(parent.instance);
        if namespace.has_seen(&*store.snapshot(namespace.shard())?, &message.id)? {
            continue;
        }
        bytes += message.content.bytes();
        if !told.is_empty() && (told.len() == OUTGOING_MAX || bytes > OUTGOING_BYTES_MAX) {
            break;
        }
        told.push(*end);
    }
    Ok(told)
}

/// Those of the children that are waited for which are not in this store: they were deleted, or their parent was imported
/// without them.
pub(crate) fn missing_children<'c>(
    store: &Store,
    parent: &InstanceId,
    children: impl Iterator<Item = &'c str>,
) -> Result<BTreeSet<&'c str>> {
    let is_here = |child: &str| -> Result<bool> {
        let Ok(instance) = InstanceId::internal(child) else {
            return Ok(false);
        };
        let namespace = store.namespace(&instance);
        let snapshot = store.snapshot(namespace.shard())?;
        Ok(namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))?.is_some())
    };
    let mut starts = Starts::of(store, parent);
    let mut missing = BTreeSet::new();
    for child in children {
        // In this order: what is not on its way any more has got there by now.
        if !is_here(child)? && !starts.are_on_their_way(child)? && !is_here(child)? {
            missing.insert(child);
        }
    }
    Ok(missing)
}

/// Whom a parent starts, and has not got there yet. Read once, when somebody is not where it should be.
struct Starts<'s> {
    store: &'s Store,
    parent: &'s InstanceId,
    on_their_way: Option<BTreeSet<String>>,
}

impl<'s> Starts<'s> {
    fn of(store: &'s Store, parent: &'s InstanceId) -> Self {
        Self {
            store,
            parent,
            on_their_way: None,
        }
    }

    fn are_on_their_way(&mut self, child: &str) -> Result<bool> {
        if self.on_their_way.is_none() {
            let sender = self.store.namespace(self.parent);
            let snapshot = self.store.snapshot(sender.shard())?;
            self.on_their_way = Some(starts_on_their_way(&sender, &*snapshot)?);
        }
        Ok(self
            .on_their_way
            .as_ref()
            .is_some_and(|started| started.contains(child)))
    }
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

fn look_for(starts: &mut Starts<'_>, parent: Farewell<'_>, entry: u64, child: &ChildState) -> Result<Found> {
    let found = look_at(starts.store, parent, entry, child)?;
    if matches!(found, Found::Lives) || starts.are_on_their_way(&child.instance)? {
        return Ok(Found::Lives);
    }
    // What is not on its way any more has got there by now.
    match found {
        Found::Gone => look_at(starts.store, parent, entry, child),
        found => Ok(found),
    }
}

/// What has become of a child, as far as it is where it should be.
fn look_at(store: &Store, parent: Farewell<'_>, entry: u64, child: &ChildState) -> Result<Found> {
    let Ok(instance) = InstanceId::internal(child.instance.as_str()) else {
        return Ok(Found::Gone);
    };
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
