//! Gates in passing.
//!
//! A gate is recorded when the code passes it, and no future stands for it. Which parts of a function are polled beside one
//! that is ready at once is up to `select!`, which draws lots. So a gate may lie in a part that was polled and dropped
//! before the code rested, and replay may never come to it. Nobody can see what a gate lies in. What can be seen is that
//! something which the code waited for was dropped after it and before the code rested: then it is recorded as one in
//! passing. When that was asked for makes no difference: what is awaited behind a gate may be older than the gate. When
//! replay comes to such a gate, it is the gate that it was; when replay does not, it is passed over. Every other gate has
//! to be come to, like whatever else is recorded: code that has lost it is found before it has any effect.

use std::collections::BTreeMap;

use crate::engine::journal::Journal;
use crate::location::Location;
use crate::storage::record::{Entry, EntryKind};

/// Gates that replay may not come to.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Gates that the code has passed since it rested, or since it dropped something.
    fresh: Vec<Location>,
    /// Those that were recorded as gates in passing and that it has not come to, with the place where it passed them.
    in_doubt: BTreeMap<Location, u64>,
}

impl Gates {
    /// The gates in passing of what is recorded.
    pub(super) fn load(entries: &BTreeMap<Location, Entry>) -> Self {
        let in_doubt = entries.iter().filter_map(|(at, entry)| match entry.kind {
            EntryKind::Passed { seen, .. } => Some((at.clone(), seen)),
            _ => None,
        });
        Self {
            in_doubt: in_doubt.collect(),
            ..Self::default()
        }
    }

    /// The code asks for something.
    pub(super) fn asked(&mut self, location: &Location) {
        self.in_doubt.remove(location);
    }

    /// The code has rested: whatever it has passed so far has outlived that.
    pub(super) fn rest(&mut self) {
        self.fresh.clear();
    }

    /// Whether replay may not come to this.
    pub(super) fn is_in_doubt(&self, location: &Location) -> bool {
        self.in_doubt.contains_key(location)
    }
}

impl Journal {
    /// The code passes a gate for the first time.
    pub(crate) fn pass_gate(&mut self, location: &Location, version: u32) {
        self.note(location, EntryKind::Version { version });
        self.observed_undurable = true;
        self.gates.fresh.push(location.clone());
    }

    /// Something is dropped that the code waited for: the gates that it has passed may be in what is dropped with it, those
    /// in turns of a loop that are over as well.
    pub(super) fn doubt_gates(&mut self) {
        let seen = self.seen;
        for location in std::mem::take(&mut self.gates.fresh) {
            let entry = match self.entries.get_mut(&location) {
                Some(entry) => Some(entry),
                None => self.settled.get_mut(&location),
            };
            if let Some(entry) = entry
                && let EntryKind::Version { version } = entry.kind
            {
                entry.kind = EntryKind::Passed { version, seen };
            }
        }
    }

    /// The code has come to this place and rests: the gates in passing that lie before it are none that it comes to.
    pub(super) fn pass_over_gates(&mut self, place: u64) {
        if self.gates.in_doubt.is_empty() {
            return;
        }
        let over = self.gates.in_doubt.iter().filter(|(_, seen)| **seen <= place);
        let there = over.filter(|(at, _)| self.entries.contains_key(*at) && !self.is_known(at));
        let gone = there.map(|(at, _)| at.clone()).collect();
        self.gates.in_doubt.retain(|_, seen| *seen > place);
        self.put_away(gone);
    }
}
