//! The children that are recorded, and which of them are still this instance's business.

use crate::engine::journal::Journal;
use crate::location::Location;
use crate::storage::record::{ChildState, ClosePolicy, Entry, EntryKind};

impl Journal {
    /// Nobody waits for what stands here any more. If it is a child that has not ended, it is to be closed.
    pub(super) fn close_child(&mut self, location: &Location) {
        if let Some(child) = self.recorded(location).and_then(open_child).cloned() {
            self.closing.push((location.clone(), child));
        }
    }

    /// Records that a child is nobody's business any more.
    pub(crate) fn let_child_go(&mut self, location: &Location) {
        let Some(entry) = self.entries.get_mut(location) else {
            return;
        };
        if let EntryKind::Child(child) = &mut entry.kind
            && child.is_open()
        {
            child.close = ClosePolicy::Abandon;
            self.dirty.push(location.clone());
        }
    }

    /// The next children that are to be closed, recorded as such: the commit that tells them is the one that says so.
    /// What is more than one commit should hold waits for the next, and after a crash the code drops it again; but what
    /// is about to be removed from history goes now.
    pub(crate) fn close_next(&mut self, most: usize) -> Vec<(Location, ChildState)> {
        let (trimmed, mut left) = (&self.trimmed, most);
        let goes = |at: &Location| trimmed.iter().any(|gone| at.is_at_or_below(gone));
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.closing).into_iter().partition(|(at, _)| {
            let fits = left > 0;
            left = left.saturating_sub(1);
            fits || goes(at)
        });
        self.closing = later;
        for (location, _) in &now {
            let entry = match self.entries.get_mut(location) {
                Some(entry) => Some(entry),
                None => self.settled.get_mut(location),
            };
            if let Some(EntryKind::Child(child)) = entry.map(|entry| &mut entry.kind) {
                child.closed = true;
                self.dirty.push(location.clone());
            }
        }
        now
    }

    /// The run is over: all children that are to be closed, and all that are left.
    pub(crate) fn close_all(&mut self) -> Vec<(Location, ChildState)> {
        let mut closing = std::mem::take(&mut self.closing);
        let told: std::collections::BTreeSet<_> = closing.iter().map(|(at, _)| at.clone()).collect();
        let left = self.entries.iter().filter(|(at, _)| !told.contains(at));
        let left = left.filter_map(|(at, entry)| Some((at.clone(), open_child(entry)?.clone())));
        closing.extend(left);
        closing
    }

    /// The id of the child that is recorded at a place.
    pub(crate) fn child_at(&self, location: &Location) -> Option<String> {
        match &self.recorded(location)?.kind {
            EntryKind::Child(child) => Some(child.instance.clone()),
            _ => None,
        }
    }
}

/// The child that an entry is, if it is still the business of whoever started it.
pub(super) fn open_child(entry: &Entry) -> Option<&ChildState> {
    match &entry.kind {
        EntryKind::Child(child) if child.is_open() => Some(child),
        _ => None,
    }
}
