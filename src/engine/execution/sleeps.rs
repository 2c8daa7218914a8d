//! Sleeps: the time at which each is over is fixed when it begins.

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::request::Until;
use crate::location::Location;
use crate::storage::record::EntryKind;

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
        let due = self.sleeps.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due.map(|(location, at)| (*at, location.clone())).collect();
        due.sort();
        for (wake_at_ms, location) in due {
            self.sleeps.remove(&location);
            self.finished.push((location, EntryKind::Sleep { wake_at_ms }));
        }
    }
}
