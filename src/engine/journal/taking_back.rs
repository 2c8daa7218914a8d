//! Taking back what was begun and dropped before the code rested.
//!
//! Which parts of a function are polled before one of them is ready at once is up to `select!`, which draws lots. So
//! what began and was dropped between two rests may not leave anything in the history: replay may never come to it.

use crate::engine::journal::{Journal, Progress, SharedJournal};
use crate::location::Location;

/// How things stood when the code rested.
#[derive(Debug, Default)]
pub(super) struct Rested {
    last_id: u64,
    dirty: usize,
    urgent: bool,
    observed_undurable: bool,
}

impl Journal {
    /// The code is about to be polled.
    pub(crate) fn begin_poll(&mut self) {
        self.was_polled = true;
        self.outlive_rest();
    }

    /// What is recorded by now has outlived a rest.
    pub(crate) fn outlive_rest(&mut self) {
        self.gates.rest();
        self.rested = Rested {
            last_id: self.last_id,
            dirty: self.dirty.len(),
            urgent: self.urgent,
            observed_undurable: self.observed_undurable,
        };
    }

    /// Forgets what was recorded at and below a location since the code rested last, if it began there since.
    pub(super) fn take_back(&mut self, location: &Location) {
        let rested = self.rested.last_id;
        if self.entries.get(location).is_none_or(|entry| entry.id <= rested) {
            return;
        }
        for recorded in [&mut self.entries, &mut self.settled] {
            let below = recorded.range(location.clone()..);
            let below = below.take_while(|(at, _)| at.is_at_or_below(location));
            let new = below.filter(|(_, entry)| entry.id > rested);
            let new: Vec<_> = new.map(|(at, _)| at.clone()).collect();
            for at in new {
                if let Some(entry) = recorded.remove(&at) {
                    self.bytes = self.bytes.saturating_sub(entry.kind.bytes() as u64);
                    self.dropped.retain(|dropped| *dropped != at);
                    self.gathered.forget(&at);
                    if let Some(op) = self.ops.get_mut(&at) {
                        op.recorded = false;
                        self.unrecorded += usize::from(matches!(op.progress, Progress::Waiting(_)));
                    }
                }
            }
        }
        let (entries, settled) = (&self.entries, &self.settled);
        let exists = |at: &Location| entries.contains_key(at) || settled.contains_key(at);
        self.dirty.retain(exists);
        // If that was all, there is nothing to be stored because of it.
        if self.dirty.len() <= self.rested.dirty {
            self.urgent = self.rested.urgent;
            self.observed_undurable = self.rested.observed_undurable;
        }
    }
}

/// A verb that is made of others, on its way: a loop, a join, a race, a map.
#[derive(Debug)]
pub(crate) struct Whole {
    journal: SharedJournal,
    location: Location,
    ended: bool,
}

impl Whole {
    /// Has to outlive what it is made of.
    pub(crate) fn begin(journal: &SharedJournal, location: &Location) -> Self {
        Self {
            journal: journal.clone(),
            location: location.clone(),
            ended: false,
        }
    }

    /// It has come to its end.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if !self.ended {
            self.journal.lock().take_back(&self.location);
        }
    }
}
