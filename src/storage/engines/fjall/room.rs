//! Room in memory: when what fjall holds there is handed to its thread, and when a commit has to wait for that thread.
//!
//! Left to itself fjall sends its thread a message after every commit that finds the table in memory full. While the
//! thread merges tables, a thousand commits fill its queue. The next message that it takes out has it write one of its
//! own into that queue, a commit has taken the free place by then, and the thread waits for ever for a queue that only
//! it reads. From there on memory and journal grow until there is no more. And where fjall has commits wait for its
//! thread, they wait also for one that is dead.
//!
//! So neither is left to fjall. It is told that the table in memory is never full, and the committer seals it, one
//! message for each table. A commit waits here, before anything of it is written and before it comes to where fjall
//! would have it wait, and asks all the while whether the thread lives.
//!
//! This is also what bounds the journals: one is given up for the next when a table is written and it has passed
//! 64 MB, and removed when the tables of everything in it are.

use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::{AbstractTree, Database, Keyspace, PersistMode};

/// Bytes gathered in memory before they are written as a table. What lies in memory is read back from the journal
/// after a crash, so this is also what bounds the time to open. Most of what a commit costs is finding the places of
/// its rows in memory, and the less there is, the more of it the processor's caches hold.
pub(super) const TABLE_BYTES: u64 = 16 * 1024 * 1024;

/// How much the table in memory may grow to while it can't be sealed, as a multiple of what fills it. A merge holds
/// the writing of tables up, and most merges are over before this much has come.
const STRETCH: u64 = 2;

/// Sealed tables in memory that may wait to be written. From four on fjall stops commits.
const SEALED_MAX: usize = 3;

/// Tables as they came out of memory, in memory or on disk, that may wait to be merged. From twenty on fjall slows
/// commits down, and from thirty on it stops them.
const FRESH_MAX: usize = 19;

/// Tables as they come out of memory that are merged in one go: twice fjall's default, since the tables are smaller
/// than its default, and a merge costs by the number of times that a row is moved.
const MERGED_AT_ONCE: u8 = 8;

/// How long a commit waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Which tables are merged, and when.
pub(super) fn merging() -> Arc<Leveled> {
    Arc::new(Leveled::default().with_l0_threshold(MERGED_AT_ONCE))
}

/// What fjall may hold in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    table_bytes: u64,
}

impl Room {
    pub(super) fn new(table_bytes: u64) -> Self {
        Self { table_bytes }
    }

    /// Waits until a commit may write, and seals the table in memory if it is full. Nothing of the commit is written
    /// yet.
    pub(super) fn make(self, database: &Database, rows: &Keyspace) -> fjall::Result<()> {
        loop {
            let bytes = rows.tree.active_memtable().size();
            let sealed = rows.tree.sealed_memtable_count();
            let fresh = sealed + rows.tree.l0_run_count();
            if bytes >= self.table_bytes && sealed < SEALED_MAX && fresh < FRESH_MAX {
                rows.rotate_memtable()?;
                return Ok(());
            }
            if bytes < self.table_bytes * STRETCH && sealed <= SEALED_MAX && fresh <= FRESH_MAX {
                return Ok(());
            }
            // Is refused once fjall's thread has failed.
            database.persist(PersistMode::Buffer)?;
            if sealed == 0 {
                // The thread looks for something to merge once for each table that it wrote, and may have chosen others
                // than the fresh ones: then nobody would tell it to look again.
                rows.tree.compact(merging(), 0)?;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use fjall::KeyspaceCreateOptions;

    use super::*;

    const ROOM: Room = Room { table_bytes: 10_000 };

    fn open(directory: &std::path::Path, workers: usize) -> (Database, Keyspace) {
        let database = Database::builder(directory).worker_threads_unchecked(workers).open();
        let database = database.unwrap();
        let options = || KeyspaceCreateOptions::default().max_memtable_size(u64::MAX);
        let rows = database.keyspace("rows", options).unwrap();
        (database, rows)
    }

    fn fill(rows: &Keyspace) {
        rows.insert([7], vec![7; 10_000]).unwrap();
    }

    #[test]
    fn a_full_table_is_sealed_once_and_a_part_of_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (database, rows) = open(directory.path(), 0);
        rows.insert([7], []).unwrap();
        ROOM.make(&database, &rows).unwrap();
        assert_eq!(rows.tree.sealed_memtable_count(), 0);
        for sealed in 1..=SEALED_MAX {
            fill(&rows);
            ROOM.make(&database, &rows).unwrap();
            ROOM.make(&database, &rows).unwrap();
            assert_eq!(rows.tree.sealed_memtable_count(), sealed);
        }
        fill(&rows);
        ROOM.make(&database, &rows).unwrap();
        assert_eq!(rows.tree.sealed_memtable_count(), SEALED_MAX, "no more may wait");
    }

    /// Found in review: a commit waited for ever, and closing with it, when the thread that it waited for was dead.
    #[test]
    fn nobody_waits_for_a_thread_that_is_dead() {
        let directory = tempfile::tempdir().unwrap();
        let (database, rows) = open(directory.path(), 1);
        // Where tables go there is nothing any more, so the thread fails with the first one.
        std::fs::remove_dir_all(directory.path().join("keyspaces")).unwrap();
        let failed = (0..100).find_map(|_| {
            rows.insert([7], vec![7; 10_000])
                .err()
                .or_else(|| ROOM.make(&database, &rows).err())
        });
        assert!(matches!(failed, Some(fjall::Error::Poisoned)), "{failed:?}");
    }

    /// Found in review: fjall's thread waited for itself, and memory and journal grew without end.
    #[test]
    fn tables_are_written_and_merged_as_fast_as_they_come() {
        let directory = tempfile::tempdir().unwrap();
        let (database, rows) = open(directory.path(), 1);
        for _ in 0..200 {
            fill(&rows);
            ROOM.make(&database, &rows).unwrap();
            assert!(rows.tree.active_memtable().size() < 3 * 10_000);
            assert!(rows.tree.sealed_memtable_count() <= SEALED_MAX);
            assert!(rows.tree.l0_run_count() <= FRESH_MAX + 1);
        }
    }
}
