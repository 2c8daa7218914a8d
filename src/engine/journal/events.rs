//! The waits for events that are recorded, and which of them the topic still has to hear of.
//!
//! An event for one belongs to the topic until the code has looked at it. A wait that was polled takes it when it comes,
//! also while the code is busy with something else, and records it; but only when the code has it in hand the topic is
//! told so. If the wait is dropped before, or ends with its instance, the topic gives the event to the next one.

use crate::clock::Millis;
use crate::engine::journal::{Journal, Outcome};
use crate::location::Location;
use crate::storage::record::{Entry, EntryKind};

/// The time at which a wait gave up that the code has dropped.
const GAVE_UP: Option<Millis> = Some(0);

/// What an event for one has as its time until the code has looked at it.
const UNSEEN: Option<Millis> = Some(Millis::MAX);

/// An event that the code has looked at, or never will.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) location: Location,
    pub(crate) entry: u64,
    pub(crate) topic: String,
    /// Whether it has.
    pub(crate) taken: bool,
}

impl Journal {
    /// Records that a wait for an event is over without one. Gives the entry and the topic if it was not so already.
    pub(crate) fn give_up_event(&mut self, location: &Location) -> Option<(u64, String)> {
        let entry = match self.entries.get_mut(location) {
            Some(entry) => entry,
            None => self.settled.get_mut(location)?,
        };
        let topic = waits_for(entry)?.to_owned();
        if let EntryKind::Event { until_ms, .. } = &mut entry.kind {
            *until_ms = GAVE_UP;
        }
        let id = entry.id;
        self.dirty.push(location.clone());
        self.urgent = true;
        Some((id, topic))
    }

    /// The code has looked at an outcome, or has dropped it unread. If it was an event for one, its topic hears of that.
    pub(super) fn look(&mut self, location: &Location, outcome: &Outcome, taken: bool) {
        if let Outcome::Entry(kind) = outcome {
            self.look_at(location, kind, taken);
        }
    }

    fn look_at(&mut self, location: &Location, kind: &EntryKind, taken: bool) {
        if let EntryKind::Event { topic, .. } = kind
            && is_unseen(kind)
            && let Some(recorded) = self.recorded(location)
        {
            self.looked.push(Looked {
                location: location.clone(),
                entry: recorded.id,
                topic: topic.clone(),
                taken,
            });
        }
    }

    /// The function is gone: what it has not looked at by now, it never will.
    pub(crate) fn leave_unseen(&mut self) {
        let known: Vec<_> = self.looked.iter().map(|looked| looked.location.clone()).collect();
        let recorded = self.entries.iter().chain(&self.settled);
        let unseen = recorded.filter(|(at, entry)| is_unseen(&entry.kind) && !known.contains(at));
        let unseen: Vec<_> = unseen.map(|(at, entry)| (at.clone(), entry.kind.clone())).collect();
        for (at, kind) in unseen {
            self.look_at(&at, &kind, false);
        }
    }

    /// The events of which topics are to hear, recorded as what they are now: taken, or given back.
    pub(crate) fn take_looked(&mut self) -> Vec<Looked> {
        let looked = std::mem::take(&mut self.looked);
        for Looked { location, taken, .. } in &looked {
            let entry = match self.entries.get_mut(location) {
                Some(entry) => Some(entry),
                None => self.settled.get_mut(location),
            };
            // An iteration whose history goes in the same commit has none.
            let Some(entry) = entry else { continue };
            self.bytes = self.bytes.saturating_sub(entry.kind.bytes() as u64);
            if let EntryKind::Event { until_ms, decided, .. } = &mut entry.kind {
                *until_ms = None;
                if !taken {
                    *decided = None;
                }
            }
            self.bytes += entry.kind.bytes() as u64;
            self.dirty.push(location.clone());
        }
        looked
    }

    /// What was dropped unread stays as it is recorded.
    pub(super) fn keep_unseen(&mut self) {
        self.looked.retain(|looked| looked.taken);
    }
}

/// The same event, as it is recorded until the code has looked at it.
pub(crate) fn unseen(kind: EntryKind) -> EntryKind {
    match kind {
        EntryKind::Event { topic, decided, .. } => EntryKind::Event {
            topic,
            until_ms: UNSEEN,
            decided,
        },
        other => other,
    }
}

/// Whether an event came for one, and the code has not looked at it.
pub(crate) fn is_unseen(kind: &EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Event {
            until_ms: UNSEEN,
            decided: Some(_),
            ..
        }
    )
}

/// The topic that has to hear of it when an entry goes: it is waited for, or has given what was not looked at.
pub(crate) fn concerns(entry: &Entry) -> Option<&str> {
    match &entry.kind {
        EntryKind::Event { topic, .. } if is_unseen(&entry.kind) => Some(topic),
        _ => waits_for(entry),
    }
}

/// The topic that an entry waits for, if it does.
pub(crate) fn waits_for(entry: &Entry) -> Option<&str> {
    match &entry.kind {
        EntryKind::Event { topic, .. } if entry.completed.is_none() && !is_given_up(&entry.kind) => Some(topic),
        _ => None,
    }
}

/// Whether a wait for an event is over without one.
pub(crate) fn is_given_up(kind: &EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Event {
            until_ms: GAVE_UP,
            decided: None,
            ..
        }
    )
}
