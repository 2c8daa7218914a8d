//! `handle.status`: all that is known of where an instance stands.

use std::collections::BTreeMap;

use crate::actor::{self, Shared};
use crate::clock::Millis;
use crate::handle::Result;
use crate::handle::history::{self, HistoryEntry};
use crate::handle::look::{self, Seen};
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{BranchStatus, EntryKind, Failure, Hold, Status};

/// Where an instance stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// Its id.
    pub id: InstanceId,
    /// The type name of its workflow.
    pub workflow: String,
    /// The version of the code that this run began with.
    pub version: u32,
    /// Which run this is, from one.
    pub run: u32,
    /// Where it is in its life. One that this process has begun with is running from the first moment, for everyone who
    /// looks through the runtime that runs it. Another process that reads the store, and a backup of it, have it pending
    /// until it has recorded something.
    pub status: Status,
    /// Whether an operator holds it.
    pub paused: bool,
    /// When it was started.
    pub created_at_ms: Millis,
    /// When something of it last changed.
    pub updated_at_ms: Millis,
    /// When it runs out of time.
    pub deadline_at_ms: Option<Millis>,
    /// When it goes on by itself.
    pub wakes_at_ms: Option<Millis>,
    /// Failed attempts at steps that are under way.
    pub attempts: u32,
    /// Operations that are under way. Of an instance that is in the memory of this process that is what its code waits for;
    /// of any other what is recorded. An attempt that has not failed yet, and a wait for messages without a time at which
    /// it gives up, are not recorded: where such an instance is, the last completed operation says. What the code has
    /// dropped stays here until it ends by itself, unless a race says that it lost.
    pub current: Vec<Current>,
    /// The path of the operation that was completed last.
    pub last: Option<String>,
    /// Who started it, if another instance did.
    pub parent: Option<String>,
    /// The instances that this run has started.
    pub children: Vec<StartedChild>,
    /// What people call it.
    pub tags: BTreeMap<String, String>,
    /// The key with which it waits for its turn, if it does.
    pub waits_for_turn: Option<String>,
    /// Why it does not go on, if it is stuck, parked or quarantined.
    pub hold: Option<Held>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// An operation that is under way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Current {
    /// Its path.
    pub path: String,
    /// What kind of operation it is: `step`, `sleep`, `receive`, ...
    pub kind: &'static str,
    /// When it goes on, gives up, or is tried again.
    pub until_ms: Option<Millis>,
    /// Failed attempts at it.
    pub attempts: u32,
}

/// An instance that was started by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedChild {
    /// Its id.
    pub id: String,
    /// The type name of its workflow.
    pub workflow: String,
    /// Where the parent started it.
    pub path: String,
    /// Whether its end was told to the parent.
    pub ended: bool,
    /// Whether the parent waits for it and it is not in this store: it was deleted, or the parent is a copy that was imported
    /// without it. Nobody tells the parent of its end then. Import it too, cancel the parent, or take it back to before it
    /// started the child (`reset`).
    pub missing: bool,
}

/// Why an instance does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Why, for people.
    pub reason: String,
    /// Since when.
    pub since_ms: Millis,
}

pub(super) fn describe(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Description> {
    let (origin, state) = (&seen.origin, &seen.state);
    let entries = history::entries(shared, instance, seen)?;
    let ended = state.status.is_terminal();
    let over: Vec<_> = entries.iter().filter(|entry| is_over(entry)).collect();
    let mut current: Vec<_> = entries
        .iter()
        .filter(|entry| !ended && entry.completed.is_none())
        .filter(|entry| !over.iter().any(|over| entry.is_at_or_below(over)))
        .filter_map(current)
        .collect();
    for (path, kind) in asked(shared, instance, seen)? {
        if !current.iter().any(|current| current.path == path) {
            current.push(Current {
                path,
                kind,
                until_ms: None,
                attempts: 0,
            });
        }
    }
    let last = entries
        .iter()
        .filter_map(|entry| Some((entry.completed?.order, &entry.path)));
    let hold: Option<Hold> = shared
        .store
        .namespace(instance)
        .get(&*seen.snapshot, &Local::Meta(Meta::Hold))?;
    Ok(Description {
        id: instance.clone(),
        workflow: origin.workflow.clone(),
        version: origin.version,
        run: state.run,
        status: look::status(shared, instance, state, &*seen.snapshot)?,
        paused: state.paused,
        created_at_ms: origin.created_at_ms,
        updated_at_ms: state.updated_at_ms,
        deadline_at_ms: origin.deadline_at_ms,
        wakes_at_ms: state.alarm_at_ms,
        attempts: current.iter().map(|current| current.attempts).sum(),
        last: last.max().map(|(_, path)| path.clone()),
        children: children(shared, instance, &entries, ended)?,
        current,
        parent: origin.parent.as_ref().map(|parent| parent.instance.clone()),
        tags: origin.tags.iter().cloned().collect(),
        hold: hold.map(|Hold { reason, since_ms, .. }| Held { reason, since_ms }),
        waits_for_turn: history::waits_for_turn(shared, instance, seen)?,
        failure: history::failure(shared, instance, seen)?,
    })
}

/// What the code of an instance that is in memory waits for, recorded or not.
fn asked(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Vec<(String, &'static str)>> {
    if seen.state.status.is_terminal() {
        return Ok(Vec::new());
    }
    let asked = shared.directory.awaited(instance);
    // What was read is a moment old. What the code waits for now belongs to it if nothing was committed since.
    let now = look::existing_state(shared, instance)?.0;
    let still = (now.run, now.revision) == (seen.state.run, seen.state.revision);
    Ok(if still { asked } else { Vec::new() })
}

/// Whether the code has come to the end of something that is made of others. What is left below it was given up.
fn is_over(entry: &HistoryEntry) -> bool {
    match &entry.kind {
        EntryKind::Race { winner } => winner.is_some(),
        EntryKind::Loop(state) => state.output.is_some(),
        EntryKind::Join { branches } => branches
            .iter()
            .all(|(_, status)| matches!(status, BranchStatus::Completed | BranchStatus::Failed)),
        _ => false,
    }
}

/// What is under way, if the entry is something that can be: some are complete from the beginning.
fn current(entry: &HistoryEntry) -> Option<Current> {
    let attempts = entry.attempts.as_ref();
    let until_ms = match entry.kind {
        EntryKind::Sleep { wake_at_ms } => Some(wake_at_ms),
        EntryKind::Receive { until_ms, .. }
        | EntryKind::Event { until_ms, .. }
        | EntryKind::Promise { until_ms, .. } => until_ms,
        EntryKind::Step(_) | EntryKind::Rollback(_) | EntryKind::Compensation { .. } => {
            attempts.and_then(|attempts| attempts.next_at_ms)
        }
        EntryKind::Loop(_) | EntryKind::Join { .. } | EntryKind::Race { .. } | EntryKind::Map { .. } => None,
        EntryKind::Child(ref child) if child.awaited => None,
        _ => return None,
    };
    Some(Current {
        path: entry.path.clone(),
        kind: entry.kind.name(),
        until_ms,
        attempts: attempts.map_or(0, |attempts| attempts.count),
    })
}

fn children(
    shared: &Shared,
    instance: &InstanceId,
    entries: &[HistoryEntry],
    ended: bool,
) -> Result<Vec<StartedChild>> {
    let waited_for = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Child(child) if !ended && child.awaited && child.decided.is_none() && !child.closed => {
            Some(child.instance.as_str())
        }
        _ => None,
    });
    let missing = actor::missing_children(&shared.store, instance, waited_for)?;
    let children = entries.iter().filter_map(child).map(|child| StartedChild {
        missing: missing.contains(child.id.as_str()),
        ..child
    });
    Ok(children.collect())
}

fn child(entry: &HistoryEntry) -> Option<StartedChild> {
    let EntryKind::Child(child) = &entry.kind else {
        return None;
    };
    Some(StartedChild {
        id: child.instance.clone(),
        workflow: child.workflow.clone(),
        path: entry.path.clone(),
        ended: child.decided.is_some(),
        missing: false,
    })
}
