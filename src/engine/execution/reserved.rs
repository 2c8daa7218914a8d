//! Entries that are no operation of the code: a cancellation, a deadline, what is kept about a failure.

use crate::engine::execution::Execution;
use crate::location::Location;
use crate::storage::record::EntryKind;

impl Execution {
    /// A place that no operation of the code can have.
    pub(super) fn reserved(&self, name: &str) -> Location {
        let name = self.journal.lock().names.index(name);
        Location::reserved(name.expect("a reserved name is a name"))
    }

    /// What is recorded at such a place.
    pub(super) fn recorded_at_reserved(&self, name: &str) -> Option<EntryKind> {
        let journal = self.journal.lock();
        let at = Location::reserved(journal.names.find(name)?);
        journal.entries.get(&at).map(|entry| entry.kind.clone())
    }
}
