//! Operations that are decided elsewhere: a child, an event, a promise.
//!
//! Such an operation is recorded when it begins, because whoever decides it has to name its entry. How it was decided
//! comes through the inbox, and the row goes in the commit that completes the entry. What comes for an operation that
//! nobody waits for any more (another run's, a dropped one's, one that is complete) is consumed all the same: it would
//! lie there for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::execution::events::is_for_one;
use crate::engine::journal::unseen;
use crate::engine::request::{OutsideRequest, Until};
use crate::engine::topic::{is_topic, topic_of};
use crate::limits::TAKEN_BYTES_MAX;
use crate::location::Location;
use crate::storage::record::{ChildState, Content, Decided, EntryKind, Message, Reach};

/// What a decision takes in a commit beside what it says: the names in its entry, and the row that goes.
const SETTLED_BYTES: usize = 1024;

/// The operations that wait to be decided, by entry.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    waiting: BTreeMap<u64, (Location, Option<Millis>)>,
    entries: BTreeMap<Location, u64>,
    /// Those that give up, the earliest first.
    until: BTreeSet<(Millis, u64)>,
    /// Those that wait for events.
    events: BTreeSet<u64>,
}

impl Undecided {
    fn insert(&mut self, entry: u64, location: Location, until_ms: Option<Millis>) {
        let is_event = self.events.contains(&entry);
        self.take(entry);
        self.events.extend(is_event.then_some(entry));
        self.entries.insert(location.clone(), entry);
        self.until.extend(until_ms.map(|until_ms| (until_ms, entry)));
        self.waiting.insert(entry, (location, until_ms));
    }

    fn take(&mut self, entry: u64) -> Option<Location> {
        let (location, until_ms) = self.waiting.remove(&entry)?;
        self.entries.remove(&location);
        self.events.remove(&entry);
        if let Some(until_ms) = until_ms {
            self.until.remove(&(until_ms, entry));
        }
        Some(location)
    }

    /// This one waits for an event.
    pub(super) fn is_for_event(&mut self, location: &Location) {
        self.events.extend(self.entries.get(location));
    }

    /// How many wait for events.
    pub(super) fn events(&self) -> usize {
        self.events.len()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody waits for this one any more.
    pub(crate) fn let_go(&mut self, location: &Location) {
        if let Some(entry) = self.entries.get(location).copied() {
            self.take(entry);
        }
    }

    /// When the first of them gives up.
    pub(crate) fn until_ms(&self) -> Option<Millis> {
        self.until.first().map(|(until_ms, _)| *until_ms)
    }

    /// Those that give up now, the earliest first.
    fn due(&self, now: Millis) -> Vec<u64> {
        let due = self.until.iter().take_while(|(until_ms, _)| *until_ms <= now);
        due.map(|(_, entry)| *entry).collect()
    }
}

impl Execution {
    /// Begins an operation that is decided elsewhere. Gives the entry if it is a new one: what has to be sent for it
    /// goes into the commit that records it.
    pub(crate) fn begin_outside(&mut self, location: Location, request: OutsideRequest, now: Millis) -> Option<u64> {
        let OutsideRequest { kind, until } = request;
        let mut journal = self.journal.lock();
        let recorded = journal.entries.get(&location);
        let recorded = recorded.map(|entry| (entry.id, until_ms(&entry.kind)));
        let fixed = recorded.and_then(|(_, until_ms)| until_ms);
        let at_ms = until.map(|until| fixed.unwrap_or_else(|| until.at_ms(now)));
        if recorded.is_none() {
            journal.record(&location, with_until(kind, at_ms), None);
        }
        let entry = journal.entries[&location].id;
        drop(journal);
        self.undecided.insert(entry, location, at_ms);
        recorded.is_none().then_some(entry)
    }

    /// The code waits for an operation that was begun before, and not for ever.
    pub(crate) fn limit_outside(&mut self, location: &Location, until: Until, now: Millis) {
        let Some(entry) = self.undecided.entries.get(location).copied() else {
            return;
        };
        let mut journal = self.journal.lock();
        let kind = journal.entries[location].kind.clone();
        let fixed = until_ms(&kind);
        let at_ms = fixed.unwrap_or_else(|| until.at_ms(now));
        if fixed.is_none() {
            journal.record(location, with_until(kind, Some(at_ms)), None);
        }
        drop(journal);
        self.undecided.insert(entry, location.clone(), Some(at_ms));
    }

    /// Completes what was decided, in the order in which that was told, and consumes what is for nobody. What would
    /// make the commit too large waits for the next one.
    ///
    /// An event is like a message: it comes first in its commit, and alone, or what is delivered before it could make the
    /// code drop the wait that has taken it.
    pub(crate) fn take_settled(&mut self, mut served: bool, now: Millis) {
        let mut bytes = 0;
        let mut at = 0;
        while let Some((_, message)) = self.inbox.get(at) {
            let is_event = message.from.as_deref().is_some_and(is_topic);
            let size = match &message.content {
                Content::Settled { .. } if is_event && served => {
                    at += 1;
                    continue;
                }
                Content::Settled { decided, .. } => size(decided),
                _ => {
                    at += 1;
                    continue;
                }
            };
            if bytes > 0 && bytes + size > TAKEN_BYTES_MAX {
                // Nothing else may come of what was taken so far: it may all have been for nobody.
                self.more_to_take = true;
                break;
            }
            bytes += size;
            if let Some((arrival, message)) = self.inbox.remove(at) {
                self.taken.push(arrival);
                let settled = self.settle(message, now);
                let place = if is_event { 0 } else { self.finished.len() };
                served |= is_event && settled.is_some();
                settled
                    .into_iter()
                    .for_each(|settled| self.finished.insert(place, settled));
            }
        }
    }

    /// The operation that a decision completes, if it is one that waits.
    fn settle(&mut self, message: Message, now: Millis) -> Option<(Location, EntryKind)> {
        let Content::Settled { run, entry, .. } = message.content else {
            return None;
        };
        // An operation that was kept by a reset or a retry was begun by an earlier run of the same history.
        let of_this_history = (self.state.drawn_in..=self.state.run).contains(&run);
        let is_meant = of_this_history && self.is_for_this(entry, message.from.as_deref());
        let waiting = is_meant.then(|| self.undecided.take(entry)).flatten();
        let Some(location) = waiting else {
            self.return_event(&message, now);
            return None;
        };
        let for_one = is_for_one(&message);
        let Content::Settled { decided, reach, .. } = message.content else {
            return None;
        };
        let kind = self.journal.lock().entries[&location].kind.clone();
        let kind = settled(kind, decided, reach);
        Some((location, if for_one { unseen(kind) } else { kind }))
    }

    /// Whether who says how this operation ended is one who can. What a topic had on its way to an instance that was
    /// deleted comes to the next one of that id, where the entry with the same number may be anything.
    fn is_for_this(&self, entry: u64, from: Option<&str>) -> bool {
        let Some(topic) = from.filter(|from| is_topic(from)) else {
            return true;
        };
        let Some((location, _)) = self.undecided.waiting.get(&entry) else {
            return false;
        };
        match &self.journal.lock().entries[location].kind {
            EntryKind::Event { topic: waits_for, .. } => topic_of(waits_for).as_str() == topic,
            _ => false,
        }
    }

    /// Gives up what was not decided in time; what has been told by now came first.
    pub(crate) fn end_undecided(&mut self, now: Millis) {
        for entry in self.undecided.due(now) {
            if let Some(location) = self.undecided.take(entry) {
                self.give_up_event(&location, now);
                let kind = self.journal.lock().entries[&location].kind.clone();
                self.finished.push((location, kind));
            }
        }
    }
}

/// When an operation gives up, as it is recorded.
fn until_ms(kind: &EntryKind) -> Option<Millis> {
    match kind {
        EntryKind::Event { until_ms, .. } | EntryKind::Promise { until_ms, .. } => *until_ms,
        _ => None,
    }
}

/// The same operation, giving up then.
fn with_until(kind: EntryKind, at_ms: Option<Millis>) -> EntryKind {
    match kind {
        EntryKind::Event { topic, decided, .. } => EntryKind::Event {
            topic,
            until_ms: at_ms,
            decided,
        },
        EntryKind::Promise { decided, .. } => EntryKind::Promise {
            until_ms: at_ms,
            decided,
        },
        other => other,
    }
}

/// The same operation, decided.
fn settled(kind: EntryKind, decided: Decided, reach: Reach) -> EntryKind {
    let decided = Some(decided);
    match kind {
        EntryKind::Child(state) => EntryKind::Child(ChildState {
            decided,
            reach,
            ..state
        }),
        EntryKind::Promise { until_ms, .. } => EntryKind::Promise { until_ms, decided },
        EntryKind::Event { topic, until_ms, .. } => EntryKind::Event {
            topic,
            until_ms,
            decided,
        },
        other => other,
    }
}

/// About how much room a decision takes, with the entry that it completes.
fn size(decided: &Decided) -> usize {
    let said = match decided {
        Decided::Completed(payload) => payload.bytes.len(),
        Decided::Failed(failure) => failure.bytes(),
    };
    said + SETTLED_BYTES
}
