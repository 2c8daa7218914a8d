//! How much has gathered for the next commit, of what the code comes to by itself: what it says, loops, joins,
//! compensations, the results that it saw early.
//!
//! All that the code does between two rests goes into one commit, and after one commit any number of its parts may go
//! on. So when enough has gathered nothing more is delivered until it is stored.

use std::collections::BTreeMap;

use crate::engine::journal::Journal;
use crate::limits::GATHERED_BYTES_MAX;
use crate::location::Location;

/// What has gathered since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Bytes of what was noted, by its place: what is noted twice is stored once.
    noted: BTreeMap<Location, usize>,
    noted_bytes: usize,
    /// Bytes of everything else.
    other_bytes: usize,
    /// Entries up to this number were stored, if they are not gone.
    stored: u64,
}

impl Gathered {
    /// Nothing has gathered, and entries up to this number are stored.
    pub(super) fn after(stored: u64) -> Self {
        Self {
            stored,
            ..Self::default()
        }
    }

    /// Bytes of what was noted.
    pub(super) fn noted_bytes(&self) -> usize {
        self.noted_bytes
    }

    /// Something that was noted is not going to be stored.
    pub(super) fn forget(&mut self, location: &Location) {
        if let Some(bytes) = self.noted.remove(location) {
            self.noted_bytes -= bytes;
        }
    }

    /// Entries up to this number may be in the store.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// Whether an entry with this number may be in the store.
    pub(super) fn is_stored(&self, entry: u64) -> bool {
        entry <= self.stored
    }
}

impl Journal {
    /// What replay comes to up to where the last commit was made is in the store already.
    pub(super) fn is_new(&self) -> bool {
        self.seen >= self.said_before && !self.rehearses()
    }

    /// An entry was noted.
    pub(super) fn gather_note(&mut self, location: &Location, bytes: usize) {
        if self.is_new() {
            self.gathered.forget(location);
            self.gathered.noted.insert(location.clone(), bytes);
            self.gathered.noted_bytes += bytes;
        }
    }

    /// Something else is to be stored.
    pub(super) fn gather(&mut self, bytes: usize) {
        if self.is_new() {
            self.gathered.other_bytes += bytes;
        }
    }

    /// All of it is in a commit.
    pub(super) fn gather_anew(&mut self) {
        self.gathered = Gathered::after(self.last_id);
    }

    /// Whether enough has gathered for one commit.
    pub(crate) fn has_enough(&self) -> bool {
        self.gathered.noted_bytes + self.gathered.other_bytes > GATHERED_BYTES_MAX
    }

    /// Whether the rest of what there is to deliver waits for a commit.
    pub(crate) fn is_full(&self) -> bool {
        self.has_enough() && self.has_undelivered()
    }

    /// Whether there is something to deliver.
    pub(crate) fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty()
    }
}
