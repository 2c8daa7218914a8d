//! A guard over the journals, which reads them before fjall does.
//!
//! When fjall reads a journal and meets bytes that it can't read, it takes them for a write that a crash cut short and
//! cuts the file off there, with everything behind them. When it meets a batch that reads well and has the wrong
//! checksum, it refuses to open. Neither is always right, so by the time fjall opens, the journals hold nothing but
//! whole batches:
//!
//! - **Something whole behind what can't be read**: no crash leaves that, because a batch is synced before the next one
//!   is written. The journal was damaged, what is behind the damage may be all there is of it, and not a byte of any
//!   file is changed.
//! - **Nothing whole behind it, in the journal that was being written**: the last write, which a crash cut short. A
//!   power cut may have kept any of its sectors, so the frame of the batch can be there around a hole. It is cut off,
//!   and the watermark tells if it was durable.
//!   If it was, as far as the watermark and the batches before it can tell, it is damage, and left as it is.
//! - **In a sealed journal**: damage, whatever is behind it. It was synced as a whole before the next one was made,
//!   whose content would hide the gap from the watermark.
//!
//! What lies before damage is the store as it was at that commit, or later if tables hold more, since tables are
//! written in the order of commits. So whoever accepts the loss has the rest set aside: see
//! [`damage`](crate::storage::damage).
//!
//! fjall's checksum covers what a batch holds and not its number, and where two batches wrote the same key the higher
//! number wins: a flipped bit there gives an old value back, or drops the batch as one that already lies in a table.
//! Numbers only ever grow, through a journal and from one to the next, so one that was changed stands out: lower than
//! the one before it, or higher than the one behind it.
//!
//! What stays unseen: the very last batch with a higher number, which does no harm; the very first one with a lower
//! number; and a sealed journal that is cut off exactly between two batches, or the oldest one missing as a whole.
//! There are sealed journals only after a crash that came while a table was written. And one thing is seen that is not
//! there: if a crash destroys the frame of a batch, and a value in that batch happens to be a piece of such a journal.

mod frame;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::ids::Shard;
use crate::storage::damage::{Damage, Refused};
use crate::storage::engine::ReadError;
use crate::storage::key::Key;
use crate::storage::record::Held;
use crate::storage::value;
use frame::{BEGIN, Frame};

/// How often the search for a batch may look at each byte, on average. It looks at hardly any twice, unless someone
/// made a value so that it does.
const LOOKS: usize = 16;

/// What was allocated and never written.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The last write of a journal, which a crash cut short.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    path: PathBuf,
    /// Where it begins.
    at: u64,
}

/// Where a batch is, and its number.
#[derive(Debug, Clone, Copy)]
struct Batch {
    /// Which of the journals, counted from the oldest.
    journal: usize,
    at: usize,
    number: u64,
}

/// The last two batches that were read.
#[derive(Debug, Default, Clone, Copy)]
struct Past {
    last: Option<Batch>,
    before: Option<u64>,
}

/// Reads all journals of the database in `directory`. Changes nothing.
pub(super) fn check(directory: &Path) -> Result<Option<Torn>, Refused> {
    let journals = all(directory).map_err(ReadError::Unavailable)?;
    let mut past = Past::default();
    for (index, (id, path)) in journals.iter().enumerate() {
        let bytes = written(path).map_err(ReadError::Unavailable)?;
        let read = past.number();
        let end = match past.walk(index, &bytes) {
            Ok(end) => end,
            Err(Wrong::Number { journal, at, reason }) => return Err(damage(&journals, journal, at, reason)),
            Err(Wrong::Compressed(number)) => {
                let path = path.display();
                let what = "compressed, which no release of this one does; restore it from a backup";
                return Err(ReadError::Corrupt(format!("{path} has batch {number} {what}")).into());
            }
        };
        let damaged = |reason: String| Err(damage(&journals, index, end, reason));
        let Some((next, _)) = journals.get(index + 1) else {
            if end == bytes.len() {
                return Ok(None);
            }
            if whole_behind(&bytes[end..], past.number()) {
                return damaged("it goes on behind what can't be read".into());
            }
            let (path, at) = (path.clone(), end as u64);
            return Ok(Some(Torn { path, at }));
        };
        if end < bytes.len() {
            return damaged(format!(
                "another journal follows, and {} bytes of it are left",
                bytes.len() - end
            ));
        }
        // A journal is sealed because it is full, and removed when everything in it and before it lies in tables.
        if past.number() == read {
            return damaged("another journal follows, and it holds nothing".into());
        }
        if *next != id + 1 {
            return damaged(format!("{}.jnl is missing behind it", id + 1));
        }
    }
    Ok(None)
}

/// What is said of damage behind byte `at` of one of the journals.
fn damage(journals: &[(u64, PathBuf)], journal: usize, at: usize, reason: String) -> Refused {
    let paths = journals.iter().map(|(_, path)| path);
    match readable(paths.clone().take(journal + 1), at) {
        Ok(readable) => Refused::Damaged(Damage {
            file: journals[journal].1.clone(),
            at: at as u64,
            reason,
            readable,
            behind: paths.skip(journal + 1).cloned().collect(),
        }),
        Err(error) => ReadError::Unavailable(error).into(),
    }
}

/// The last commit of each shard in these journals, the last of which is read up to byte `end` only.
fn readable<'a>(journals: impl Iterator<Item = &'a PathBuf>, end: usize) -> io::Result<BTreeMap<Shard, u64>> {
    let mut found = BTreeMap::new();
    let mut journals = journals.peekable();
    while let Some(path) = journals.next() {
        let bytes = written(path)?;
        let length = if journals.peek().is_some() { bytes.len() } else { end };
        let mut rest = bytes.get(..length).unwrap_or(&bytes);
        let mut budget = usize::MAX;
        while let Some(frame) = Frame::read(rest, &mut budget) {
            // Every group has a row that says how far its shard has got with it.
            for (key, row) in frame.rows() {
                if let Ok(Key::Position(shard)) = Key::unpack(key)
                    && let Ok(held) = value::decode::<Held>(key, row)
                {
                    let last = found.entry(shard).or_default();
                    *last = held.sequence.max(*last);
                }
            }
            rest = &rest[frame.bytes..];
        }
    }
    Ok(found)
}

impl Torn {
    /// What has become of it if it was durable, as far as that can be told: a shard is known to have got further than
    /// the batches before it say. If they say nothing of the shard, the tables may hold what there was, and the
    /// watermark decides when the store is open.
    pub(super) fn is_loss(&self, directory: &Path, durable: &[u64]) -> Result<Option<Damage>, Refused> {
        let journals = all(directory).map_err(ReadError::Unavailable)?;
        let Some(index) = journals.iter().position(|(_, path)| *path == self.path) else {
            return Ok(None);
        };
        let reason = "the last batch in it was durable once".into();
        match damage(&journals, index, self.at as usize, reason) {
            Refused::Damaged(damage) if damage.is_behind(durable) => Ok(Some(damage)),
            Refused::Damaged(_) => Ok(None),
            other => Err(other),
        }
    }

    /// Cuts it off. fjall writes on where the file ends.
    pub(super) fn cut(&self, directory: &Path) -> Result<(), ReadError> {
        // What looks torn may be a write under way, so nothing is cut unless fjall's own lock says that there is none.
        let lock = File::open(directory.join("lock")).map_err(ReadError::Unavailable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => super::read_error(fjall::Error::Locked),
            TryLockError::Error(error) => ReadError::Unavailable(error),
        })?;
        if !matches!(check(directory), Ok(Some(torn)) if torn == *self) {
            let changed = io::Error::other("the journal changed while it was read; another process may have it open");
            return Err(ReadError::Unavailable(changed));
        }
        let (path, at) = (self.path.display(), self.at);
        tracing::warn!(%path, at, "the last write was cut short and is taken back");
        self.set_len().map_err(ReadError::Unavailable)
    }

    fn set_len(&self) -> io::Result<()> {
        let file = File::options().write(true).open(&self.path)?;
        file.set_len(self.at)?;
        file.sync_all()
    }
}

/// Whether there is any journal in `directory`.
pub(super) fn is_any(directory: &Path) -> io::Result<bool> {
    Ok(!all(directory)?.is_empty())
}

/// The journals of the database in `directory`, in their order.
fn all(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
        Err(error) => return Err(error),
    };
    for file in listing {
        let path = file?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .and_then(|stem| stem.parse::<u64>().ok());
        if let (Some(number), Some("jnl")) = (number, path.extension().and_then(|it| it.to_str())) {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

/// The bytes of a journal up to the last one that is not zero.
fn written(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut chunk = vec![0; ZEROS.len()];
    while end > 0 {
        let start = end.saturating_sub(chunk.len() as u64);
        let part = &mut chunk[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        // As a whole first: byte by byte would take long over what was only allocated.
        if part != &ZEROS[..part.len()]
            && let Some(last) = part.iter().rposition(|byte| *byte != 0)
        {
            end = start + last as u64 + 1;
            break;
        }
        end = start;
    }
    let mut bytes = vec![0; end as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A batch that is whole and not right.
enum Wrong {
    /// Its number says that it is older than the one before it.
    Number {
        journal: usize,
        at: usize,
        reason: String,
    },
    Compressed(u64),
}

impl Past {
    fn number(&self) -> Option<u64> {
        self.last.map(|batch| batch.number)
    }

    /// Reads whole batches for as long as there are some, and says where they end.
    fn walk(&mut self, journal: usize, bytes: &[u8]) -> Result<usize, Wrong> {
        let mut at = 0;
        let mut budget = usize::MAX;
        while let Some(frame) = Frame::read(&bytes[at..], &mut budget).filter(Frame::is_right) {
            let number = frame.number;
            if let Some(last) = self.last.filter(|last| last.number >= number) {
                // One of the two was changed. If it can be the one before, that is not to be trusted either.
                let changed = if self.before.is_none_or(|before| before < number) {
                    last
                } else {
                    Batch { journal, at, number }
                };
                return Err(Wrong::Number {
                    journal: changed.journal,
                    at: changed.at,
                    reason: format!("batch {number} comes behind batch {}", last.number),
                });
            }
            if frame.compressed {
                return Err(Wrong::Compressed(number));
            }
            self.before = self.number();
            self.last = Some(Batch { journal, at, number });
            at += frame.bytes;
        }
        Ok(at)
    }
}

/// Whether there is a whole batch in `rest`, which begins with something that isn't one. Also if that would take too
/// long to tell: what is not known to be torn is not cut.
fn whole_behind(rest: &[u8], last: Option<u64>) -> bool {
    let mut budget = rest.len().saturating_mul(LOOKS);
    // Where a frame is there and only its content is wrong, the content is no place to look for batches.
    let mut at = match Frame::read(rest, &mut budget) {
        Some(frame) if frame.is_counted() => frame.bytes,
        _ => 1,
    };
    while let Some(found) = rest
        .get(at..)
        .and_then(|rest| rest.iter().position(|byte| *byte == BEGIN))
    {
        at += found;
        let frame = Frame::read(&rest[at..], &mut budget).filter(Frame::is_counted);
        if let Some(frame) = frame.filter(|frame| last.is_none_or(|last| last < frame.number)) {
            budget = budget.saturating_sub(frame.bytes);
            if frame.is_right() {
                return true;
            }
        }
        if budget == 0 {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests;
