//! How far the store has got, written down outside the engine.
//!
//! An embedded engine that finds a damaged log cuts it off and opens as if nothing had happened: what was behind the
//! damage is silently gone. The watermark remembers, in a file of its own, the last commit of every shard that was
//! durable, and the hash over everything up to there. A store that is behind it does not open.
//!
//! ```text
//! slot 0 at byte 0, slot 1 at byte SLOT_BYTES; the valid one with the higher generation counts
//!
//! offset  bytes
//!      0      8  "ESWMARK1"
//!      8      8  generation
//!     16      4  format of the store
//!     20      4  shards
//!     24     24  for each shard: sequence, chain, epoch
//!                xxh3 over everything above
//!             8  when the store was made
//!             8  xxh3 over everything above
//! ```
//!
//! When the store was made tells the watermark of another store, whose engine may be further ahead. It came later than
//! the rest: a watermark without it is one of a store that was not opened since, and says nothing of that.
//!
//! **Cost.** A sync of its own for each group would double the price of a commit. So the slot is overwritten after
//! each group without a sync, which costs a microsecond and survives the death of the process, and synced once a
//! second by a thread of its own. After a power cut the watermark may therefore be up to a second older than the
//! store, which is no lie: a store that is ahead of its watermark is fine. What is given up is the detection of a
//! loss inside the last second before a power cut.
//!
//! **A slot is reused only after the other one was synced**, so a write that a power cut tears can only hit the slot
//! that was not yet relied on.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Millis;
use crate::ids::Shard;
use crate::spawn;
use crate::storage::engine::Position;
use crate::storage::error::{Error, Result};
use crate::storage::failure::Failure;
use crate::telemetry;

const MAGIC: &[u8; 8] = b"ESWMARK1";
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 24;
/// When the store was made, and the checksum over it.
const BORN_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What the watermark says of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub(crate) position: Position,
    pub(crate) epoch: u64,
}

/// What was found where a watermark should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A readable one.
    Marks {
        /// The format of the store.
        format: u32,
        /// One for each shard.
        marks: Vec<Mark>,
        /// When the store was made, if it says so.
        born: Option<Millis>,
    },
    /// No file.
    Missing,
    /// A file without a readable slot.
    Damaged,
}

/// The open watermark of a store.
#[derive(Debug)]
pub(crate) struct Watermark {
    path: PathBuf,
    file: File,
    slots: Mutex<Slots>,
    dirty: AtomicBool,
    /// Why the store acknowledges nothing any more. It is that of the committer, too: a sync that fails between two
    /// commits is known before the next one is written.
    failure: Arc<Failure>,
    keeper: Mutex<Option<Thread>>,
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    generation: u64,
    format: u32,
    marks: Vec<Mark>,
    born: Option<Millis>,
}

#[derive(Debug)]
struct Slots {
    slot: Slot,
    /// The slot being overwritten. The other one holds what was last synced.
    current: usize,
    buffer: Vec<u8>,
}

impl Watermark {
    /// Reads what is at `path` without changing it.
    pub(crate) fn read(path: &Path) -> Result<Found> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let slot_bytes = bytes.len() / 2;
        let newest: Option<Slot> = [bytes.get(..slot_bytes), bytes.get(slot_bytes..)]
            .into_iter()
            .flatten()
            .filter_map(decode)
            .max_by_key(|slot| slot.generation);
        Ok(newest.map_or(
            Found::Damaged,
            |Slot {
                 format, marks, born, ..
             }| Found::Marks { format, marks, born },
        ))
    }

    /// Makes (or replaces) the file at `path`, durably, and opens it.
    pub(crate) fn create(path: &Path, format: u32, marks: &[Mark], born: Option<Millis>) -> Result<Arc<Self>> {
        let slot_bytes = slot_bytes(marks.len());
        let mut bytes = vec![0; slot_bytes * 2];
        let mut buffer = Vec::new();
        let slot = Slot {
            generation: 1,
            format,
            marks: marks.to_vec(),
            born,
        };
        encode(&slot, &mut buffer);
        bytes[..buffer.len()].copy_from_slice(&buffer);
        let new = path.with_extension("new");
        crate::storage::directory::refuse_link(&new)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&new)
            .map_err(Error::io("create", &new))?;
        file.write_all_at(&bytes, 0).map_err(Error::io("write", &new))?;
        file.sync_all().map_err(Error::io("sync", &new))?;
        std::fs::rename(&new, path).map_err(Error::io("rename", &new))?;
        if let Some(parent) = path.parent() {
            crate::storage::directory::sync(parent)?;
        }
        // Slot 0 is synced, so the next write goes to slot 1.
        let slots = Slots {
            slot,
            current: 1,
            buffer,
        };
        let watermark = Arc::new(Self {
            path: path.to_owned(),
            file,
            slots: Mutex::new(slots),
            dirty: AtomicBool::new(false),
            failure: Arc::default(),
            keeper: Mutex::new(None),
        });
        watermark.keep()?;
        Ok(watermark)
    }

    /// Where it shows that the watermark failed, or whatever else ends the store.
    pub(crate) fn failure(&self) -> Arc<Failure> {
        Arc::clone(&self.failure)
    }

    /// Notes that a shard is durable up to `position`. An error says nothing of the commit, which is done.
    pub(crate) fn advance(&self, shard: Shard, epoch: u64, position: Position) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let mut slots = self.slots();
        slots.slot.marks[usize::from(shard.0)] = Mark { position, epoch };
        slots.slot.generation += 1;
        self.write(&mut slots)?;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes what was noted durable. A failure here is that of the store, at once and for good.
    pub(crate) fn sync(&self) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        if !self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        // Most of the work is done while commits go on; the rest under the lock, so that this slot is whole on disk
        // before the other one is reused.
        let synced = self.file.sync_data().and_then(|()| {
            let mut slots = self.slots();
            // Cleared under the lock: what is noted from here on is for the next time, and goes to the other slot.
            if !self.dirty.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            self.file.sync_data()?;
            slots.current = 1 - slots.current;
            Ok(())
        });
        synced.map_err(|error| {
            let failure = match Error::io("sync", &self.path)(error) {
                Error::Full => Error::Full,
                error => Error::Failed(error.to_string()),
            };
            tracing::error!(error = %failure, "the store failed and acknowledges nothing any more");
            telemetry::store_works(false);
            self.failure.set(failure).clone()
        })
    }

    fn write(&self, slots: &mut Slots) -> Result<()> {
        let mut buffer = std::mem::take(&mut slots.buffer);
        encode(&slots.slot, &mut buffer);
        let offset = slots.current * slot_bytes(slots.slot.marks.len());
        let written = self.file.write_all_at(&buffer, offset as u64);
        slots.buffer = buffer;
        written.map_err(Error::io("write", &self.path))
    }

    /// Starts the thread that syncs once a second. It ends when the watermark is dropped.
    fn keep(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        let thread = spawn::thread("everstep-watermark", move || keeper(&weak))
            .map_err(Error::io("start a thread for", &self.path))?;
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread.thread().clone());
        Ok(())
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watermark {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.unpark();
        }
    }
}

fn keeper(watermark: &Weak<Watermark>) {
    loop {
        std::thread::park_timeout(SYNC_EVERY);
        let Some(watermark) = watermark.upgrade() else {
            return;
        };
        // It failed for good, and has said so.
        if watermark.sync().is_err() {
            return;
        }
    }
}

fn slot_bytes(shards: usize) -> usize {
    (HEADER_BYTES + shards * ENTRY_BYTES + 8 + BORN_BYTES).next_multiple_of(PAGE_BYTES)
}

fn encode(slot: &Slot, out: &mut Vec<u8>) {
    let shards = u32::try_from(slot.marks.len()).expect("there are at most SHARDS_MAX shards");
    out.clear();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&slot.generation.to_le_bytes());
    out.extend_from_slice(&slot.format.to_le_bytes());
    out.extend_from_slice(&shards.to_le_bytes());
    for mark in &slot.marks {
        out.extend_from_slice(&mark.position.sequence.to_le_bytes());
        out.extend_from_slice(&mark.position.chain.to_le_bytes());
        out.extend_from_slice(&mark.epoch.to_le_bytes());
    }
    out.extend_from_slice(&xxh3_64(out).to_le_bytes());
    if let Some(born) = slot.born {
        out.extend_from_slice(&born.to_le_bytes());
        out.extend_from_slice(&xxh3_64(out).to_le_bytes());
    }
}

fn decode(slot: &[u8]) -> Option<Slot> {
    let shards = usize::try_from(small(slot, 20)?).ok()?;
    let end = HEADER_BYTES.checked_add(shards.checked_mul(ENTRY_BYTES)?)?;
    let content = slot.get(..end)?;
    if !content.starts_with(MAGIC) || number(slot, end)? != xxh3_64(content) {
        return None;
    }
    let marks = content[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).filter_map(|entry| {
        let position = Position {
            sequence: number(entry, 0)?,
            chain: number(entry, 8)?,
        };
        Some(Mark {
            position,
            epoch: number(entry, 16)?,
        })
    });
    let born = end + 8;
    let is_said = slot.get(..born + 8).map(xxh3_64) == number(slot, born + 8);
    Some(Slot {
        generation: number(slot, 8)?,
        format: small(slot, 16)?,
        marks: marks.collect(),
        born: number(slot, born).filter(|_| is_said),
    })
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
