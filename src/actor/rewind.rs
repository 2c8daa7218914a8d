//! Taking an instance back: another run that keeps the history up to a place.

use std::borrow::Cow;

use crate::engine::{is_unseen, waits_for};
use crate::location::{Location, Segment};
use crate::storage::engine::Snapshot;
use crate::storage::key::{Key, Local};
use crate::storage::record::{BranchStatus, Entry, EntryKind, Message, Seen};
use crate::storage::{Commit, Error, Namespace, Result, value};

/// Where the history is cut: what completed at this place of the order or later goes, and so does what is under way at
/// or below `at`.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) order: u64,
    pub(crate) at: Option<Location>,
}

/// What a cut leaves, and what it takes away that others have to hear of.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Entries that are left.
    pub(crate) entries: u64,
    /// Those of them that are under way: what comes for them is still wanted.
    pub(crate) open: Vec<(Location, Entry)>,
    /// Entries that were under way and go.
    pub(crate) given_up: Vec<(Location, Entry)>,
    /// Promises whose decisions go, and whether they stay themselves.
    pub(crate) promises: Vec<(u64, bool)>,
}

/// The history can't be cut there: a loop has gone on from it, and what it began with is no longer known.
#[derive(Debug)]
pub(crate) struct GoneOn;

impl Cut {
    /// Where to cut so that the operation at a location is done again. Inside a loop that is its whole iteration.
    pub(crate) fn before(entries: &[(Location, Entry)], target: &Location, completions: u64) -> Result<Self, GoneOn> {
        let at = enclosing_iteration(entries, target)?.unwrap_or_else(|| target.clone());
        let below = || entries.iter().filter(|(location, _)| location.is_at_or_below(&at));
        let orders = below().filter_map(|(_, entry)| Some(entry.completed?.order));
        // A cancellation that came while the operation was under way is what ended it.
        let began = below().map(|(_, entry)| entry.id).min().unwrap_or(u64::MAX);
        let cancelled = entries
            .iter()
            .filter(|(_, entry)| matches!(entry.kind, EntryKind::Cancel { .. }) && entry.id > began);
        let cancelled = cancelled.filter_map(|(_, entry)| Some(entry.completed?.order));
        let order = orders.chain(cancelled).min().unwrap_or(completions);
        Ok(Self { order, at: Some(at) })
    }

    /// Whether something completed before the cut.
    fn keeps(&self, entry: &Entry) -> bool {
        entry.completed.is_some_and(|completed| completed.order < self.order)
    }

    /// What is left of an entry.
    fn leaves(&self, location: &Location, entry: &Entry, (first_gone, last_kept): (u64, u64)) -> Option<Entry> {
        if self.keeps(entry) {
            return Some(entry.clone());
        }
        // What was recorded before something that stays was not asked for because of anything that goes.
        let asked_before = entry.id < last_kept;
        match entry.kind {
            // Its token may have been given away, in a step that is not done again or by words that are not said again: it
            // has to decide it still. The code comes to it again also if it was made before the first thing that goes.
            EntryKind::Promise { .. } if asked_before || entry.id <= first_gone => return Some(undecided(entry)),
            // What stays was done because of it.
            EntryKind::Version { .. } | EntryKind::Passed { .. } | EntryKind::Compensation { .. } if asked_before => {
                return Some(entry.clone());
            }
            _ => {}
        }
        let below = self.at.as_ref().is_some_and(|at| location.is_at_or_below(at));
        // Whatever was recorded after the first thing that goes may have been asked for because of it.
        if entry.completed.is_some() || below || (entry.id >= first_gone && !asked_before) {
            return None;
        }
        let kind = match &entry.kind {
            EntryKind::Loop(state) if state.seen > self.order => return None,
            EntryKind::Join { branches } => EntryKind::Join {
                branches: branches
                    .iter()
                    .map(|(name, _)| (name.clone(), BranchStatus::Running))
                    .collect(),
            },
            // Who wins is seen again.
            EntryKind::Race { .. } => EntryKind::Race { winner: None },
            kind => kind.clone(),
        };
        Some(Entry { kind, ..entry.clone() })
    }
}

/// The same promise before anybody decided it.
fn undecided(entry: &Entry) -> Entry {
    Entry {
        kind: EntryKind::Promise {
            until_ms: None,
            decided: None,
        },
        completed: None,
        ..entry.clone()
    }
}

/// Writes what a cut comes to. Of an instance that has `ended`, what was under way is over: its children were closed, and
/// no topic knows of it any more. The code asks for it anew.
pub(crate) fn cut(
    commit: &mut Commit,
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    entries: &[(Location, Entry)],
    (cut, ended): (&Cut, bool),
) -> Result<std::result::Result<Left, GoneOn>> {
    let goes = |entry: &Entry| entry.completed.is_some_and(|done| done.order == cut.order);
    let first = entries.iter().find(|(_, entry)| goes(entry));
    let first_gone = first.map_or(u64::MAX, |(_, entry)| entry.id);
    let stays = entries.iter().filter(|(_, entry)| cut.keeps(entry));
    let last_kept = stays.map(|(_, entry)| entry.id).max().unwrap_or(0);
    let leaves = |location: &Location, entry: &Entry| cut.leaves(location, entry, (first_gone, last_kept));
    // A loop that goes begins with its first iteration. If that is no longer there, nobody comes to what lies in the later
    // ones as it was.
    let begins_anew = |(location, entry): &&(Location, Entry)| {
        matches!(&entry.kind, EntryKind::Loop(state) if state.kept_from > 0) && leaves(location, entry).is_none()
    };
    let anew: Vec<_> = entries.iter().filter(begins_anew).map(|(at, _)| at).collect();
    let mut left = Left::default();
    for (location, entry) in entries {
        let history = Local::History(Cow::Borrowed(location));
        let in_reach = !anew.iter().any(|at| location.is_at_or_below(at)) || cut.keeps(entry);
        let kept = leaves(location, entry).filter(|_| in_reach);
        if matches!(entry.kind, EntryKind::Promise { .. }) && !cut.keeps(entry) {
            left.promises.push((entry.id, kept.is_some()));
        }
        let goes_unseen = is_unseen(&entry.kind) && kept.is_none();
        if entry.completed.is_none() || goes_unseen {
            let list = if kept.is_some() {
                &mut left.open
            } else {
                &mut left.given_up
            };
            list.push((location.clone(), entry.clone()));
        }
        match kept.filter(|_| !is_over(entry, ended)) {
            Some(kept) => {
                left.entries += 1;
                if kept != *entry {
                    commit.set(namespace, &history, &kept);
                }
            }
            None if starts_over_trimmed(entries, location, entry, cut) => return Ok(Err(GoneOn)),
            None => {
                commit.delete(namespace, &history);
                commit.delete(namespace, &Local::Attempts(entry.id));
                if let EntryKind::Receive { taken, .. } = &entry.kind {
                    give_back(commit, namespace, snapshot, taken)?;
                }
            }
        }
    }
    Ok(Ok(left))
}

/// Whether an entry has nothing more to come for it: a child that was closed, a wait of which the topic was told that it
/// is over, an event for one that went back because the instance was ended before it looked.
fn is_over(entry: &Entry, ended: bool) -> bool {
    match &entry.kind {
        kind if is_unseen(kind) => ended,
        _ if entry.completed.is_some() => false,
        EntryKind::Child(child) => child.closed || (ended && child.is_open()),
        EntryKind::Event { .. } => ended || waits_for(entry).is_none(),
        _ => false,
    }
}

/// Puts messages back where they were: whoever waits for them is asked again.
fn give_back(commit: &mut Commit, namespace: &Namespace, snapshot: &dyn Snapshot, taken: &[Message]) -> Result<()> {
    for message in taken {
        let (instance, id) = (namespace.instance().as_str(), message.id.as_str());
        let key = Key::Dedup(namespace.shard(), instance.into(), id.into()).pack();
        let lost = || Error::Corrupt(format!("message {id} of {instance} was taken and never seen"));
        let row = snapshot.get(&key)?.ok_or_else(lost)?;
        let seen: Seen = value::decode(&key, &row).map_err(|source| Error::Decode {
            key: format!("{:?}", Key::Dedup(namespace.shard(), instance.into(), id.into())),
            source,
        })?;
        commit.set(namespace, &Local::Inbox(seen.arrival()), message);
    }
    Ok(())
}

/// Whether a loop would begin again whose first iterations are no longer there, though something of it stays.
fn starts_over_trimmed(entries: &[(Location, Entry)], location: &Location, entry: &Entry, cut: &Cut) -> bool {
    let EntryKind::Loop(state) = &entry.kind else {
        return false;
    };
    let stays = |entry: &Entry| entry.completed.is_some_and(|done| done.order < cut.order);
    state.kept_from > 0
        && entries
            .iter()
            .any(|(at, entry)| at.is_at_or_below(location) && stays(entry))
}

/// The innermost iteration of a loop that a location lies in.
fn enclosing_iteration(entries: &[(Location, Entry)], target: &Location) -> Result<Option<Location>, GoneOn> {
    let segments = target.segments();
    for depth in (0..segments.len()).rev() {
        let Segment::Iteration { number, .. } = segments[depth] else {
            continue;
        };
        let part = |depth: usize| Location::try_from(segments[..depth].to_vec()).expect("a part is not deeper");
        let around = part(depth);
        let entry = entries.iter().find(|(location, _)| *location == around);
        if let Some((
            _,
            Entry {
                kind: EntryKind::Loop(state),
                ..
            },
        )) = entry
        {
            return if state.iteration > number {
                Err(GoneOn)
            } else {
                Ok(Some(part(depth + 1)))
            };
        }
    }
    Ok(None)
}
