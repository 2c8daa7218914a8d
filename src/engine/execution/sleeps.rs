//! Sleeps: the time at which each is over is fixed when it begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::request::Until;
use crate::location::Location;
use crate::storage::record::EntryKind;

/// The sleeps that the code is in. Those that are due are found without looking at the others.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    all: BTreeMap<Location, Millis>,
    due: BTreeSet<(Millis, Location)>,
}

impl Sleeps {
    fn insert(&mut self, location: Location, wake_at_ms: Millis) {
        self.remove(&location);
        self.due.insert((wake_at_ms, location.clone()));
        self.all.insert(location, wake_at_ms);
    }

    /// Forgets a sleep.
    pub(super) fn remove(&mut self, location: &Location) {
        if let Some(wake_at_ms) = self.all.remove(location) {
            self.due.remove(&(wake_at_ms, location.clone()));
        }
    }

    /// Takes the next one out that is over by now, the earliest first.
    fn take_due(&mut self, now: Millis) -> Option<(Location, Millis)> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (wake_at_ms, location) = self.due.pop_first()?;
        self.all.remove(&location);
        Some((location, wake_at_ms))
    }

    /// When the next one is over.
    pub(super) fn next_due_ms(&self) -> Option<Millis> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Execution {
    /// A sleep that was recorded goes on to the time that it had. One that is over at once is not recorded as begun.
    pub(super) fn begin_sleep(&mut self, location: Location, until: Until, now: Millis) {
        let mut journal = self.journal.lock();
        let recorded = journal.entries.get(&location).map(|entry| &entry.kind);
        let wake_at_ms = match recorded {
            Some(EntryKind::Sleep { wake_at_ms }) => *wake_at_ms,
            _ => until.at_ms(now),
        };
        if wake_at_ms > now && recorded.is_none() {
            journal.record(&location, EntryKind::Sleep { wake_at_ms }, None);
        }
        drop(journal);
        self.sleeps.insert(location, wake_at_ms);
    }

    /// Ends the sleeps whose time has come, the earliest first.
    pub(super) fn end_sleeps(&mut self, now: Millis) {
        while let Some((location, wake_at_ms)) = self.sleeps.take_due(now) {
            self.finished.push((location, EntryKind::Sleep { wake_at_ms }));
        }
    }
}
