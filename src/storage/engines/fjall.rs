//! The engine behind a plain path: fjall, a log-structured merge tree.
//!
//! One database, one keyspace. A group becomes one fjall batch, which fjall writes to its journal, syncs, and only
//! then shows to readers; a snapshot is fjall's own.
//!
//! A group is given to it in the order of its keys (`net`). Most of what a commit costs is finding the places of its
//! rows in fjall's table in memory, a skip list: rows that are searched for one after the other have most of the way in
//! common if they are neighbours, and find it in the processor's caches.

mod journal;
mod manifest;
mod room;
mod shared;

use std::fmt::Display;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fjall::config::CompressionPolicy;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable};

use super::net::{LIMITS, Net};
use crate::ids::Shard;
use crate::storage::damage::Refused;
use crate::storage::engine::{
    CommitError, Direction, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use crate::storage::fence::Fence;
use room::Room;
use shared::Shared;

/// Bytes of blocks kept in memory for reads.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Threads that write and merge tables. With more than one, fjall keeps the first of them free for writing: while
/// another one merges, it takes waiting merges out of the queue and puts them back, and burns a core doing so.
const WORKERS: usize = 1;

/// Bytes that a disk has to take to count as not full. Where a whole table did not fit, this may still do.
const ROOM_BYTES: usize = 16 * 1024 * 1024;

/// The file that fjall knows a database by.
const MARKER: &str = "version";

/// A fjall database in a directory of its own.
pub struct Fjall {
    directory: PathBuf,
    database: Database,
    rows: Keyspace,
    room: Room,
    fence: Mutex<Fence>,
}

impl Fjall {
    /// Opens the database in `directory`, or makes a new one.
    pub fn open(directory: &Path) -> Result<Self, ReadError> {
        Ok(Self::open_knowing(directory, &[])?)
    }

    /// The same where it is known of each shard how many commits were durable. Damage to the journals is told from
    /// everything else that stands in the way, because there is something left that can be opened.
    pub(crate) fn open_knowing(directory: &Path, durable: &[u64]) -> Result<Self, Refused> {
        // First, because nothing that is done about the journals helps a store whose tables can't be found.
        manifest::check(directory)?;
        if let Some(torn) = journal::check(directory)? {
            if let Some(damage) = torn.is_loss(directory, durable)? {
                return Err(Refused::Damaged(damage));
            }
            // Only now, when nothing was found that someone has to look at first.
            torn.cut(directory)?;
        }
        // fjall asserts what it expects of its files; damaged ones must not take the process down.
        let opened = catch_unwind(AssertUnwindSafe(|| open(directory)));
        let (database, rows) = match opened {
            Ok(Err(ReadError::Corrupt(what))) => {
                let what = format!("{what}; restore it from a backup");
                return Err(ReadError::Corrupt(what).into());
            }
            Ok(opened) => opened?,
            Err(panic) => {
                let panic = panic_text(&*panic);
                let what = format!("opening it panicked: {panic}; restore it from a backup");
                return Err(ReadError::Corrupt(what).into());
            }
        };
        Ok(Self {
            directory: directory.to_owned(),
            database,
            rows,
            room: Room::new(room::TABLE_BYTES),
            fence: Mutex::default(),
        })
    }

    /// Whether there is a database in `directory`, so that [`Fjall::open`] does not make one. Without the file that fjall
    /// knows one by, it would make a new one over what is left.
    pub(crate) fn is_there(directory: &Path) -> Result<bool, ReadError> {
        let is_there = |name: &str| directory.join(name).try_exists().map_err(ReadError::Unavailable);
        if is_there(MARKER)? {
            return Ok(true);
        }
        if is_there("keyspaces")? || journal::is_any(directory).map_err(ReadError::Unavailable)? {
            let what = directory.join(MARKER);
            return Err(ReadError::Corrupt(format!(
                "{} is missing: restore it from a backup",
                what.display()
            )));
        }
        Ok(false)
    }

    fn fence(&self) -> MutexGuard<'_, Fence> {
        // The fence changes only after a durable write, in one assignment: a panic elsewhere leaves it whole.
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, net: &Net<'_>) -> Result<(), CommitError> {
        let room = self.room.make(&self.database, &self.rows);
        room.map_err(|error| self.commit_error(error))?;
        let count = net.changes().len();
        let mut batch =
            OwnedWriteBatch::with_capacity(self.database.clone(), count).durability(Some(PersistMode::SyncData));
        let mut keys = Shared::of(net.changes().map(|(key, _)| key));
        let mut values = Shared::of(net.changes().filter_map(|(_, value)| value));
        for (key, value) in net.changes() {
            match value {
                Some(value) => batch.insert(&self.rows, keys.take(key), values.take(value)),
                None => batch.remove(&self.rows, keys.take(key)),
            }
        }
        batch.commit().map_err(|error| self.commit_error(error))
    }

    /// When a thread of fjall's own fails, every commit after it learns only that something did. Most often it is the
    /// disk that was full when a table was to be written, and that can be seen.
    fn commit_error(&self, error: fjall::Error) -> CommitError {
        match error {
            fjall::Error::Poisoned => match try_for_room(&self.directory) {
                Err(full) if full.kind() == io::ErrorKind::StorageFull => CommitError::Unknown(full),
                _ => commit_error(error),
            },
            error => commit_error(error),
        }
    }

    /// The keys that the store holds in a range.
    fn keys(&self, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
        let rows = self.rows.range(start..end);
        rows.map(|row| Ok(row.key().map_err(read_error)?.to_vec())).collect()
    }
}

/// Writes something and takes it away again.
fn try_for_room(directory: &Path) -> io::Result<()> {
    let path = directory.join("room");
    let written = std::fs::write(&path, vec![0; ROOM_BYTES]);
    std::fs::remove_file(&path).and(written)
}

fn open(directory: &Path) -> Result<(Database, Keyspace), ReadError> {
    // What is compressed by default is decided by fjall's features, and those by every crate of the application that
    // uses fjall: a store must not depend on it.
    let database = Database::builder(directory)
        .journal_compression(CompressionType::None)
        .cache_size(CACHE_BYTES)
        .worker_threads(WORKERS)
        .open()
        .map_err(read_error)?;
    let options = || {
        KeyspaceCreateOptions::default()
            // It is sealed by us; see `room`.
            .max_memtable_size(u64::MAX)
            .compaction_strategy(room::merging())
            .data_block_compression_policy(CompressionPolicy::disabled())
    };
    let rows = database.keyspace("rows", options).map_err(read_error)?;
    Ok((database, rows))
}

impl Engine for Fjall {
    fn limits(&self) -> EngineLimits {
        LIMITS
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let mut fence = self.fence();
        let stored = self.rows.get(Fence::key(shard)).map_err(unreadable)?;
        let (lease, row) = Fence::take(shard, owner, stored.as_deref())?;
        self.write(&Net::of_row(&row))?;
        fence.taken(lease);
        Ok(lease)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        // After a failed write nothing tells what reached the disk, and fjall refuses to go on.
        self.database
            .persist(PersistMode::Buffer)
            .map_err(|error| match error {
                fjall::Error::Io(error) => CommitError::Unavailable(error),
                error => CommitError::Unavailable(io::Error::other(error.to_string())),
            })?;
        self.fence().position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        LIMITS.check(group.batches)?;
        let mut fence = self.fence();
        let row = fence.admit(group)?;
        let net = Net::of(group.batches, &row, &mut |start, end| self.keys(start, end))?;
        self.write(&net)?;
        fence.passed(group);
        Ok(())
    }

    fn get(&self, _shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let value = self.rows.get(key).map_err(read_error)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn snapshot(&self, _shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        Ok(Box::new(View {
            snapshot: self.database.snapshot(),
            rows: self.rows.clone(),
        }))
    }
}

struct View {
    snapshot: fjall::Snapshot,
    rows: Keyspace,
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let value = self.snapshot.get(&self.rows, key).map_err(read_error)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        if scan.start >= scan.end {
            return Ok(());
        }
        let range = (Bound::Included(scan.start), Bound::Excluded(scan.end));
        let rows = self.snapshot.range::<&[u8], _>(&self.rows, range);
        match scan.direction {
            Direction::Forward => show(rows.take(scan.limit), visit),
            Direction::Backward => show(rows.rev().take(scan.limit), visit),
        }
    }
}

fn show(rows: impl Iterator<Item = fjall::Guard>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
    for row in rows {
        let (key, value) = row.into_inner().map_err(read_error)?;
        if let ControlFlow::Break(()) = visit(&key, &value) {
            break;
        }
    }
    Ok(())
}

fn read_error(error: fjall::Error) -> ReadError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => ReadError::Unavailable(error),
        fjall::Error::Locked => ReadError::Unavailable(io::Error::other("another process has it open")),
        error => ReadError::Corrupt(error.to_string()),
    }
}

/// A read that failed on behalf of a commit, before anything was written.
fn unreadable(error: fjall::Error) -> CommitError {
    CommitError::Unreadable(read_error(error))
}

/// A write that failed may have reached the disk or not.
fn commit_error(error: fjall::Error) -> CommitError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => CommitError::Unknown(error),
        fjall::Error::Poisoned => CommitError::Unknown(io::Error::other("an earlier write failed")),
        error => CommitError::Corrupt(error.to_string()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &dyn Display {
    if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else if let Some(text) = panic.downcast_ref::<&'static str>() {
        text
    } else {
        &"no message"
    }
}

impl std::fmt::Debug for Fjall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fjall").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
