//! What the completed syncs cover, and which records that makes superfluous.

use std::collections::{HashMap, HashSet};

use crate::record::{Change, Event, FileId, Record};

/// How durable a directory entry is without a sync of its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dirs {
    /// As a journaling file system does it: entry changes reach the disk in
    /// their order, and any completed sync takes all earlier ones along. Of
    /// the later ones a random number, in order, survives.
    #[default]
    Lenient,
    /// As POSIX words it: a change is lost unless every directory that it
    /// touches was synced afterwards.
    Strict,
}

/// The newest completed sync of every file.
pub(crate) struct Syncs {
    per_file: HashMap<FileId, u64>,
    newest: u64,
}

impl Syncs {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut syncs = Self {
            per_file: HashMap::new(),
            newest: 0,
        };
        for record in records {
            if let Event::Synced { file, upto } = record.event {
                let known = syncs.per_file.entry(file).or_insert(0);
                *known = upto.max(*known);
                syncs.newest = upto.max(syncs.newest);
            }
        }
        syncs
    }

    pub(crate) fn cover_data(&self, file: FileId, seq: u64) -> bool {
        self.per_file.get(&file).is_some_and(|&upto| seq <= upto)
    }

    pub(crate) fn cover_entries(&self, changes: &[Change], seq: u64, dirs: Dirs) -> bool {
        match dirs {
            Dirs::Lenient => seq <= self.newest,
            Dirs::Strict => changes.iter().all(|change| self.cover_data(change.dir, seq)),
        }
    }
}

/// Leaves out what no cut can need any more, whichever [`Dirs`] it uses.
///
/// A durable entry change stays while an earlier change of the same name is
/// not durable: undoing that one alone would overwrite what came after it.
#[must_use]
pub fn compact(records: Vec<Record>) -> Vec<Record> {
    let syncs = Syncs::of(&records);
    let mut open_names = HashSet::new();
    let mut open_effects = HashSet::new();
    let mut kept = records;
    kept.retain(|record| {
        let keep = match &record.event {
            Event::Write { file, .. } | Event::Resize { file, .. } => !syncs.cover_data(*file, record.seq),
            Event::Entries(changes) => {
                let name = |change: &Change| (change.dir, change.name.clone());
                let keep = !syncs.cover_entries(changes, record.seq, Dirs::Strict)
                    || changes.iter().any(|change| open_names.contains(&name(change)));
                if keep {
                    open_names.extend(changes.iter().map(name));
                }
                keep
            }
            Event::Outcome { of, .. } => open_effects.contains(of),
            Event::Synced { file, upto } => syncs.per_file.get(file) == Some(upto),
        };
        if keep {
            open_effects.insert(record.seq);
        }
        keep
    });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(seq: u64, file: FileId) -> Record {
        let event = Event::Write {
            file,
            offset: 0,
            old_len: 0,
            old: vec![],
            new: vec![1],
        };
        Record { seq, event }
    }

    fn synced(seq: u64, file: FileId, upto: u64) -> Record {
        Record {
            seq,
            event: Event::Synced { file, upto },
        }
    }

    fn seqs(records: &[Record]) -> Vec<u64> {
        records.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn only_writes_issued_before_the_sync_began_are_dropped() {
        let outcome = Record {
            seq: 3,
            event: Event::Outcome { of: 2, done: 0 },
        };
        let records = vec![write(1, 7), write(2, 7), outcome, write(4, 8), synced(5, 7, 1)];
        assert_eq!(seqs(&compact(records)), [2, 3, 4, 5]);
    }

    #[test]
    fn a_durable_creation_behind_a_lost_rename_of_the_same_name_stays() {
        let change = |dir, before, after| Change {
            dir,
            name: b"x".to_vec(),
            before,
            after,
        };
        let rename = Event::Entries(vec![change(1, Some(9), None), change(2, None, Some(9))]);
        let create = Event::Entries(vec![change(1, None, Some(10))]);
        let records = vec![
            Record { seq: 1, event: rename },
            Record { seq: 2, event: create },
            synced(3, 1, 2),
        ];
        assert_eq!(seqs(&compact(records)), [1, 2, 3]);
    }
}
