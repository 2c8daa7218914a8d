//! The engine on [sled](https://docs.rs/sled/0.34.7) 0.34.7, made to keep its promises.
//!
//! Left to itself sled 0.34 loses acknowledged data in a power cut, and does not open again after some. What is done
//! about it, each for a reason that was measured:
//!
//! - **Its `flush` is not an fsync.** The engine keeps its own handle on sled's `db` file and calls `fdatasync` after
//!   every flush, before anything is acknowledged. Everything that sled creates is synced once at every open
//!   (`home`).
//! - **Large pages go to blob files that are never synced**, and a power cut then leaves a store that does not open.
//!   Sled splits its pages by the number of rows and not by their size, so keeping single values small is not
//!   enough; see `chunk` for the sizes that keep every page in the log.
//! - **Only the committer writes**, under one lock, and a whole group with its fence row is one sled batch in one
//!   tree. `flush_async` is never called: from several tasks it deadlocks.
//! - **Its batch is a hash map** in which the last write of a key wins and ranges do not exist, so a group is reduced
//!   to one change a key first (`net`).
//! - **It has no snapshots**; `preimage` makes them.
//! - **Scanning backward runs in circles** between certain keys with four ff bytes in a row; `layout` escapes them.
//! - **Opening damaged files may panic**, which becomes [`ReadError::Corrupt`].
//!
//! # What reads show
//!
//! [`Engine::get`] and [`Engine::snapshot`] wait for the commit that is running and show only what is durable.
//! A snapshot that exists never waits for a commit, nor a commit for it.
//!
//! # When a sync fails
//!
//! Then nobody knows what is on disk, and asking again would lie (the kernel forgets the pages it could not write).
//! The commit is [`CommitError::Unknown`], and the engine stops: commits, acquisitions and positions are
//! [`CommitError::Unavailable`] from then on, until the store is reopened and shows what it has. Nobody is shown a commit
//! whose outcome is unknown: only snapshots that were taken before it can be read.
//!
//! # What it does not do
//!
//! Give space back after deletes (an export and import compacts), and find a damaged log by itself: a flipped byte
//! may silently cut off everything behind it, which the watermark above the engine notices. In a log that uses segments
//! again, it may also take a single page away with the rows on it, which nothing notices.

mod chunk;
mod home;
mod layout;
mod rows;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use self::rows::Rows;
use super::net::{self, Net};
use super::preimage::{Preimages, Tree};
use crate::ids::Shard;
use crate::storage::damage::Refused;
use crate::storage::engine::{CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot};
use crate::storage::fence::Fence;

/// Makes what was written to a file durable. A seam, so that tests can let it fail.
type SyncData = dyn Fn(&File) -> io::Result<()> + Send + Sync;

/// A store on disk. Only one process can have it open.
pub struct Sled {
    writer: Mutex<Writer>,
    rows: Arc<Rows>,
    preimages: Preimages,
    /// Sled's own log, opened a second time to sync it.
    file: File,
    sync_data: Box<SyncData>,
    /// Sled failed in the middle of a batch: its tree may hold half of a commit.
    torn: AtomicBool,
}

/// What only the one who writes knows.
#[derive(Default)]
struct Writer {
    fence: Fence,
    /// Rows whose value lies in chunks. While there are none, no old row has to be read to find its chunks.
    chunked: u64,
    stopped: Option<Stopped>,
}

/// Why nothing is committed any more.
struct Stopped {
    kind: io::ErrorKind,
    reason: String,
}

impl Sled {
    /// Opens the store in a directory, or makes one there. What it returns is on disk, directories and all.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        Self::open_with(dir, Box::new(File::sync_data))
    }

    /// The same. Where sled can't read its files, those that it can do without are told from everything else.
    pub(crate) fn open_or_tell(dir: &Path) -> Result<Self, Refused> {
        Self::open(dir).map_err(|error| match (error, home::made_anew(dir)) {
            (ReadError::Corrupt(what), Ok(files)) if !files.is_empty() => Refused::Beside { what, files },
            (error, _) => Refused::Read(error),
        })
    }

    /// Whether there is a store in a directory, so that [`Sled::open`] does not make one.
    pub(crate) fn is_there(dir: &Path) -> Result<bool, ReadError> {
        home::is_there(dir)
    }

    fn open_with(dir: &Path, sync_data: Box<SyncData>) -> Result<Self, ReadError> {
        let (db, file) = home::open(dir)?;
        let rows = Arc::new(Rows::new(db));
        let writer = Writer {
            chunked: rows.count_chunked()?,
            ..Writer::default()
        };
        let preimages = Preimages::default();
        Ok(Self {
            writer: Mutex::new(writer),
            rows,
            preimages,
            file,
            sync_data,
            torn: AtomicBool::new(false),
        })
    }

    /// The right to write, unless the engine has stopped.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>, CommitError> {
        let panicked = || io::Error::other("an earlier commit panicked; restart to see how far the store has got");
        let writer = self.writer.lock().map_err(|_| CommitError::Unavailable(panicked()))?;
        match &writer.stopped {
            Some(stopped) => Err(CommitError::Unavailable(stopped.error())),
            None => Ok(writer),
        }
    }

    /// Writes all changes as one and makes them durable.
    fn write(&self, writer: &mut Writer, net: &Net<'_>) -> Result<(), CommitError> {
        let commit = self.preimages.commit().map_err(CommitError::Unavailable)?;
        commit
            .save(net.changes().map(|(key, _)| key), |key| self.rows.get(key))
            .map_err(CommitError::Unreadable)?;
        let (batch, chunked) = self.rows.batch(net, writer.chunked).map_err(CommitError::Unreadable)?;
        if let Err(error) = self.rows.apply(batch) {
            self.torn.store(true, Ordering::Release);
            return Err(writer.stop(error));
        }
        let durable = self
            .rows
            .flush()
            .and_then(|()| (self.sync_data)(&self.file).map_err(::sled::Error::Io));
        if let Err(error) = durable {
            // What the tree holds now may not be on the disk.
            self.torn.store(true, Ordering::Release);
            return Err(writer.stop(error));
        }
        writer.chunked = chunked;
        Ok(())
    }

    /// Half a commit, or one that may not be on the disk, is not shown to anybody.
    fn check_whole(&self) -> Result<(), ReadError> {
        if self.torn.load(Ordering::Acquire) {
            let reason = "a commit failed; restart to see what became of it";
            return Err(ReadError::Unavailable(io::Error::other(reason)));
        }
        Ok(())
    }
}

impl Engine for Sled {
    fn limits(&self) -> EngineLimits {
        net::LIMITS
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let mut writer = self.writer()?;
        let stored = self.rows.get(&Fence::key(shard)).map_err(CommitError::Unreadable)?;
        let (lease, row) = Fence::take(shard, owner, stored.as_deref())?;
        self.write(&mut writer, &Net::of_row(&row))?;
        writer.fence.taken(lease);
        Ok(lease)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.writer()?.fence.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        net::LIMITS.check(group.batches)?;
        let mut writer = self.writer()?;
        let row = writer.fence.admit(group)?;
        let net = Net::of(group.batches, &row, &mut |start, end| self.rows.keys(start, end))?;
        self.write(&mut writer, &net)?;
        writer.fence.passed(group);
        Ok(())
    }

    fn get(&self, _shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let _between = self.preimages.between_commits()?;
        self.check_whole()?;
        self.rows.get(key)
    }

    fn snapshot(&self, _shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let between = self.preimages.between_commits()?;
        self.check_whole()?;
        Ok(Box::new(self.preimages.snapshot(&between, Arc::clone(&self.rows))))
    }
}

impl Writer {
    /// Stops the engine for good: what became of the commit is unknown.
    fn stop(&mut self, error: ::sled::Error) -> CommitError {
        let (kind, outcome) = match rows::read_error(error) {
            ReadError::Unavailable(error) => (error.kind(), CommitError::Unknown(error)),
            ReadError::Corrupt(what) => (io::ErrorKind::InvalidData, CommitError::Corrupt(what)),
        };
        let reason = match &outcome {
            CommitError::Unknown(error) => error.to_string(),
            other => other.to_string(),
        };
        self.stopped = Some(Stopped { kind, reason });
        outcome
    }
}

impl Stopped {
    fn error(&self) -> io::Error {
        let reason = &self.reason;
        let what_to_do = "mend the disk or make room on it, and restart";
        io::Error::new(
            self.kind,
            format!("the store stopped when a commit could not be made durable ({reason}); {what_to_do}"),
        )
    }
}

impl std::fmt::Debug for Sled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sled").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
