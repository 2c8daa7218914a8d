//! What an instance has done, as people read it.

use std::collections::BTreeMap;

use crate::actor::{self, Shared};
use crate::clock::Millis;
use crate::handle::Result;
use crate::handle::look::Seen;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::Rows;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Attempts, Completed, Decided, Entry, EntryKind, Failure, Hold, Name, Ran, Stand, Status};

/// What an instance has done in its current run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// Which run, from one.
    pub run: u32,
    /// What is recorded: first what is complete, in the order in which that was committed, then what is not.
    pub entries: Vec<HistoryEntry>,
    started_at_ms: Millis,
    ended: Option<(Millis, Status)>,
    /// Why it does not go on, and since when.
    aside: Option<(Millis, Status, String)>,
    /// The key with which it waits for its turn.
    turn: Option<String>,
}

/// One recorded operation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its path, as people read it: `orders/orders~3/charge`. A `/`, `~` or `\` inside of a name has a `\` before it: a step
    /// `a/b` is `a\/b`. What the runtime itself has recorded begins with a `~`: `~cancel`, `~deadline`.
    pub path: String,
    /// Its number among the entries.
    pub id: u64,
    /// Its place in the order of completions, and when that was; none while it is under way.
    pub completed: Option<Completed>,
    /// What it is.
    pub kind: EntryKind,
    /// The attempts that failed, if any did.
    pub attempts: Option<Attempts>,
    /// The attempt that succeeded, of a step or an undoing: which one it was, when it began and how long it took.
    pub ran: Option<Ran>,
    location: Location,
}

/// Something that happened to an instance.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub at_ms: Millis,
    /// The path of the operation that it happened to; empty for the instance itself.
    pub path: String,
    /// What.
    pub what: Happened,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Happened {
    /// The instance was started.
    Started,
    /// An attempt at a step failed.
    AttemptFailed {
        /// Which one, from one.
        number: u32,
        /// How.
        failure: Failure,
    },
    /// The next attempt is due at this time.
    Retrying {
        /// When, in milliseconds since the epoch.
        at_ms: Millis,
    },
    /// A wait for a point in time began, or is under way.
    Sleeping {
        /// When it ends.
        until_ms: Millis,
    },
    /// A wait for something else (a message, an event, a promise, a child) is under way.
    Waiting {
        /// What kind of operation waits.
        kind: &'static str,
        /// When it gives up, if it does.
        until_ms: Option<Millis>,
    },
    /// The instance waits for its turn: as many with this key run as may.
    WaitsForTurn {
        /// The key.
        key: String,
    },
    /// The instance does not go on: it is stuck, parked or in quarantine.
    PutAside {
        /// Which of them.
        status: Status,
        /// Why, for people.
        reason: String,
    },
    /// An operation of this kind is complete.
    Completed(&'static str),
    /// An operation failed for good.
    Failed(Failure),
    /// The instance was asked to end, for this reason.
    CancelAsked(String),
    /// The instance began to undo what it did.
    Compensating,
    /// The instance ended.
    Ended(Status),
}

impl History {
    /// The entry at a path.
    pub fn at(&self, path: &str) -> Option<&HistoryEntry> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    /// The life of the instance, told from the entries: oldest first.
    ///
    /// It has what is recorded. When a wait began is not: it stands where the operation before it was completed, which is
    /// the moment for code that does one thing after the other, and later than that for branches beside each other. Waits
    /// for messages, events, promises and children are told while they last, and afterwards as what completed them. Of very
    /// many failed attempts the last ones are kept.
    pub fn events(&self) -> Vec<Event> {
        let mut events = vec![event(self.started_at_ms, "", Happened::Started)];
        if let Some(key) = &self.turn {
            let waits = Happened::WaitsForTurn { key: key.clone() };
            events.push(event(self.started_at_ms, "", waits));
        }
        // What is recorded of a wait is when it ends. It began when the code had come that far.
        let mut since_ms = self.started_at_ms;
        for entry in &self.entries {
            entry.tell(since_ms, &mut events);
            since_ms = entry.completed.map_or(since_ms, |completed| completed.at_ms);
        }
        // Stable: what happened at the same time stays in the order of completion.
        events.sort_by_key(|event| event.at_ms);
        if let Some((at, status, reason)) = self.aside.clone() {
            events.push(event(at, "", Happened::PutAside { status, reason }));
        }
        events.extend(self.ended.map(|(at, status)| event(at, "", Happened::Ended(status))));
        events
    }
}

impl HistoryEntry {
    /// Whether it is another one, or lies inside it.
    pub(super) fn is_at_or_below(&self, other: &Self) -> bool {
        self.location.is_at_or_below(&other.location)
    }

    /// What an operation that is not complete waits for, if it waits for anything but its own attempts.
    fn waits(&self) -> Option<Happened> {
        let kind = self.kind.name();
        match &self.kind {
            EntryKind::Sleep { wake_at_ms } => Some(Happened::Sleeping { until_ms: *wake_at_ms }),
            EntryKind::Receive { until_ms, .. }
            | EntryKind::Event { until_ms, .. }
            | EntryKind::Promise { until_ms, .. } => Some(Happened::Waiting {
                kind,
                until_ms: *until_ms,
            }),
            EntryKind::Child(child) if child.awaited => Some(Happened::Waiting { kind, until_ms: None }),
            _ => None,
        }
    }

    fn tell(&self, since_ms: Millis, events: &mut Vec<Event>) {
        if let Some(attempts) = &self.attempts {
            for (index, attempt) in attempts.failed.iter().enumerate() {
                let (number, failure) = (attempt.number, attempt.failure.clone());
                let at = attempt.started_at_ms + attempt.duration_ms;
                events.push(event(at, &self.path, Happened::AttemptFailed { number, failure }));
                // When the next one was due is kept for the last wait alone; the others ended when the next attempt began.
                // The last attempt is followed by none.
                let next = attempts.failed.get(index + 1).map(|next| next.started_at_ms);
                let last = attempts.next_at_ms.filter(|_| number == attempts.count);
                if let Some(at_ms) = next.or(last) {
                    events.push(event(at, &self.path, Happened::Retrying { at_ms }));
                }
            }
        }
        let Some(Completed { at_ms, .. }) = self.completed else {
            events.extend(self.waits().map(|what| event(since_ms, &self.path, what)));
            return;
        };
        if let EntryKind::Sleep { .. } = self.kind {
            events.extend(self.waits().map(|what| event(since_ms.min(at_ms), &self.path, what)));
        }
        let what = match &self.kind {
            EntryKind::Cancel { reason } => Happened::CancelAsked(reason.clone()),
            EntryKind::Compensating(_) => Happened::Compensating,
            EntryKind::Step(Some(Decided::Failed(failure))) => Happened::Failed(failure.clone()),
            kind => Happened::Completed(kind.name()),
        };
        events.push(event(at_ms, &self.path, what));
    }
}

fn event(at_ms: Millis, path: &str, what: Happened) -> Event {
    let path = path.to_owned();
    Event { at_ms, path, what }
}

/// Reads the history of an instance.
pub(super) fn history(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<History> {
    let mut entries = entries(shared, instance, seen)?;
    entries.sort_by_key(|entry| (entry.completed.map_or(u64::MAX, |completed| completed.order), entry.id));
    let state = &seen.state;
    let ended = state
        .status
        .is_terminal()
        .then_some((state.updated_at_ms, state.status));
    let namespace = shared.store.namespace(instance);
    let hold: Option<Hold> = namespace.get(&*seen.snapshot, &Local::Meta(Meta::Hold))?;
    Ok(History {
        aside: hold.map(|hold| (hold.since_ms, state.status, hold.reason)),
        turn: waits_for_turn(shared, instance, seen)?,
        run: state.run,
        entries,
        started_at_ms: seen.origin.created_at_ms,
        ended,
    })
}

/// The key with which an instance waits for its turn, if it does.
pub(super) fn waits_for_turn(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Option<String>> {
    let flow = actor::flow_of(&shared.store.namespace(instance), &*seen.snapshot)?;
    let waits = flow.gate.filter(|gate| matches!(gate.stand, Stand::Waits { .. }));
    Ok(waits.map(|gate| gate.key))
}

/// The entries of an instance, in the order of their paths.
pub(super) fn entries(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Vec<HistoryEntry>> {
    let namespace = shared.store.namespace(instance);
    let names = names(shared, instance, seen)?;
    let mut attempts = BTreeMap::new();
    namespace.list(&*seen.snapshot, Rows::Attempts, &mut |local, row| {
        if let Local::Attempts(entry) = local {
            attempts.insert(entry, row.decode::<Attempts>()?);
        }
        Ok(())
    })?;
    let mut entries = Vec::new();
    namespace.list(&*seen.snapshot, Rows::History(&Location::root()), &mut |local, row| {
        if let Local::History(location) = local {
            let Entry {
                id,
                completed,
                kind,
                ran,
            } = row.decode()?;
            entries.push(HistoryEntry {
                path: location.path(&names),
                id,
                completed,
                kind,
                ran,
                attempts: attempts.remove(&id),
                location: location.into_owned(),
            });
        }
        Ok(())
    })?;
    Ok(entries)
}

/// The name registry of an instance.
pub(super) fn names(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Vec<String>> {
    let namespace = shared.store.namespace(instance);
    let mut names = Vec::new();
    namespace.list(&*seen.snapshot, Rows::Names, &mut |_, row| {
        names.push(row.decode::<Name>()?.0);
        Ok(())
    })?;
    Ok(names)
}

/// Why an instance failed, if it did.
pub(super) fn failure(shared: &Shared, instance: &InstanceId, seen: &Seen) -> Result<Option<Failure>> {
    let namespace = shared.store.namespace(instance);
    Ok(namespace.get(&*seen.snapshot, &Local::Meta(Meta::Failure))?)
}
