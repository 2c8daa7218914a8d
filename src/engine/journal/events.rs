//! The waits for events that are recorded, and which of them the topic still has to hear of.

use crate::clock::Millis;
use crate::engine::journal::Journal;
use crate::location::Location;
use crate::storage::record::{Entry, EntryKind};

/// The time at which a wait gave up that the code has dropped.
const GAVE_UP: Option<Millis> = Some(0);

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
