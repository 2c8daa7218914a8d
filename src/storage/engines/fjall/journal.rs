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
//! - **In a sealed journal**: damage, whatever is behind it. It was synced as a whole before the next one was made,
//!   whose content would hide the gap from the watermark.
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
//!
//! ```text
//! 1  items (4 bytes)  number (8 bytes)                                        a batch begins
//! 2  kind  compression  keyspace (8)  key length (2)  length (4)  length (4)  key value an item
//! 3  checksum (8)  "FJL" 3                                                    a batch ends
//! 4  keyspace (8)                                                             a keyspace is cleared
//! ```
//!
//! The checksum is over the items. What was allocated and never written is zeros.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::VALUE_BYTES_MAX;
use crate::storage::engine::ReadError;

const BEGIN: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MARK: [u8; 4] = *b"FJL\x03";

/// The highest kind of an item that fjall puts into a journal.
const KIND_MAX: u8 = 2;

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

/// Reads all journals of the database in `directory`. Changes nothing.
pub(super) fn check(directory: &Path) -> Result<Option<Torn>, ReadError> {
    let journals = all(directory).map_err(ReadError::Unavailable)?;
    let mut last = None;
    for (index, (id, path)) in journals.iter().enumerate() {
        let bytes = written(path).map_err(ReadError::Unavailable)?;
        let before = last;
        let damaged = |what: String| {
            let path = path.display();
            ReadError::Corrupt(format!("{path} {what}; restore it from a backup"))
        };
        let end = walk(&bytes, &mut last).map_err(damaged)?;
        let Some((next, _)) = journals.get(index + 1) else {
            if end == bytes.len() {
                return Ok(None);
            }
            if whole_behind(&bytes[end..], last) {
                return Err(damaged(format!("can't be read at byte {end}, and goes on behind it")));
            }
            let (path, at) = (path.clone(), end as u64);
            return Ok(Some(Torn { path, at }));
        };
        if end < bytes.len() {
            let length = bytes.len();
            return Err(damaged(format!("is readable up to byte {end} of {length}")));
        }
        // A journal is sealed because it is full, and removed when everything in it and before it lies in tables.
        if last == before || *next != id + 1 {
            return Err(damaged("or a journal behind it has lost what it held".into()));
        }
    }
    Ok(None)
}

impl Torn {
    /// Cuts it off. fjall writes on where the file ends.
    pub(super) fn cut(&self, directory: &Path) -> Result<(), ReadError> {
        // What looks torn may be a write under way, so nothing is cut unless fjall's own lock says that there is none.
        let lock = File::open(directory.join("lock")).map_err(ReadError::Unavailable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => super::read_error(fjall::Error::Locked),
            TryLockError::Error(error) => ReadError::Unavailable(error),
        })?;
        if check(directory)?.as_ref() != Some(self) {
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

/// Reads whole batches for as long as there are some, and says where they end.
fn walk(journal: &[u8], last: &mut Option<u64>) -> Result<usize, String> {
    let mut end = 0;
    let mut budget = usize::MAX;
    while let Some(frame) = Frame::read(&journal[end..], &mut budget).filter(Frame::is_right) {
        let number = frame.number;
        if let Some(last) = last.filter(|last| *last >= number) {
            return Err(format!("has batch {number} behind batch {last}"));
        }
        if frame.compressed {
            return Err(format!(
                "has batch {number} compressed, which no release of this one does"
            ));
        }
        *last = Some(number);
        end += frame.bytes;
    }
    Ok(end)
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

/// A batch that has a beginning, items of possible lengths, and an end.
struct Frame<'a> {
    number: u64,
    bytes: usize,
    /// How many items it says it has, and how many it has.
    count: (u32, u32),
    /// Whether there is a value in it that was compressed.
    compressed: bool,
    items: &'a [u8],
    checksum: u64,
}

impl<'a> Frame<'a> {
    /// Reads the frame that `journal` begins with. Takes from the budget for what it looks at, and none is left if it
    /// gave up.
    fn read(journal: &'a [u8], budget: &mut usize) -> Option<Self> {
        let mut rest = Rest(journal);
        let [BEGIN] = rest.take()? else {
            return None;
        };
        let count = u32::from_le_bytes(rest.take()?);
        let number = u64::from_le_bytes(rest.take()?);
        let items = rest.0;
        let (mut found, mut compressed) = (0, false);
        loop {
            let length = items.len() - rest.0.len();
            *budget = budget.saturating_sub(1);
            if *budget == 0 {
                return None;
            }
            match rest.take()? {
                [ITEM] => compressed |= rest.skip_item()?,
                [CLEAR] => drop(rest.take::<8>()?),
                [END] => {
                    let checksum = u64::from_le_bytes(rest.take()?);
                    return (rest.take()? == MARK).then_some(Self {
                        number,
                        bytes: journal.len() - rest.0.len(),
                        count: (count, found),
                        compressed,
                        items: &items[..length],
                        checksum,
                    });
                }
                _ => return None,
            }
            found += 1;
        }
    }

    fn is_counted(&self) -> bool {
        self.count.0 == self.count.1
    }

    fn is_right(&self) -> bool {
        self.is_counted() && xxh3_64(self.items) == self.checksum
    }
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// What is behind the tag of an item, if it can be one. Tells whether its value was compressed.
    fn skip_item(&mut self) -> Option<bool> {
        let [kind, compression] = self.take()?;
        let _keyspace: [u8; 8] = self.take()?;
        let key = usize::from(u16::from_le_bytes(self.take()?));
        let value = u32::from_le_bytes(self.take()?);
        let stored = u32::from_le_bytes(self.take()?);
        // fjall would ask for gigabytes for a wrong length. That the two are the same it asserts in debug builds,
        // while it holds a lock that it needs to clean up after a panic, and the process would end there.
        let compressed = compression != 0;
        let longest = value.max(stored) as usize;
        if kind > KIND_MAX || (value != stored && !compressed) || longest > VALUE_BYTES_MAX {
            return None;
        }
        self.0 = self.0.get(key + stored as usize..)?;
        Some(compressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> Vec<u8> {
        with_value(number, b"123")
    }

    fn with_value(number: u64, value: &[u8]) -> Vec<u8> {
        let mut item = vec![ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        for _ in 0..2 {
            item.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        item.extend_from_slice(b"ab");
        item.extend_from_slice(value);
        let mut bytes = vec![BEGIN, 1, 0, 0, 0];
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&item);
        bytes.push(END);
        bytes.extend_from_slice(&xxh3_64(&item).to_le_bytes());
        bytes.extend_from_slice(&MARK);
        bytes
    }

    fn batches(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| batch(*number)).collect()
    }

    /// Checks journals of these contents: where the last one is torn, if it is.
    fn outcome(journals: &[(u64, Vec<u8>)]) -> Result<Option<u64>, String> {
        let directory = tempfile::tempdir().unwrap();
        for (id, bytes) in journals {
            std::fs::write(directory.path().join(format!("{id}.jnl")), bytes).unwrap();
        }
        let outcome = check(directory.path());
        for (id, bytes) in journals {
            assert_eq!(
                std::fs::read(directory.path().join(format!("{id}.jnl"))).unwrap(),
                *bytes
            );
        }
        outcome
            .map(|torn| torn.map(|torn| torn.at))
            .map_err(|error| error.to_string())
    }

    fn of_one(bytes: Vec<u8>) -> Result<Option<u64>, String> {
        outcome(&[(1, bytes)])
    }

    #[test]
    fn a_new_database_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check(&directory.path().join("none")).unwrap(), None);
    }

    #[test]
    fn numbers_that_do_not_grow_are_found() {
        let with = |journals: &[&[u64]]| outcome(&(1..).zip(journals.iter().map(|it| batches(it))).collect::<Vec<_>>());
        assert_eq!(with(&[&[4, 5, 9], &[10, 12]]), Ok(None));
        assert!(with(&[&[4, 1, 9]]).is_err(), "lower than the one before");
        assert!(with(&[&[4, 13, 9]]).is_err(), "higher than the one behind");
        assert!(with(&[&[4, 4]]).is_err(), "the same twice");
        assert!(with(&[&[4, 5, 9], &[8]]).is_err(), "lower than in the journal before");
    }

    #[test]
    fn a_sealed_journal_that_is_empty_missing_or_cut_off_is_found() {
        let with = |journals: &[(u64, &[u64])]| {
            outcome(&journals.iter().map(|(id, it)| (*id, batches(it))).collect::<Vec<_>>())
        };
        assert_eq!(with(&[(3, &[1, 2]), (4, &[3]), (5, &[])]), Ok(None));
        assert!(with(&[(3, &[]), (4, &[3])]).is_err(), "empty");
        assert!(with(&[(3, &[1]), (5, &[3])]).is_err(), "one is missing");
        let mut sealed = [batches(&[1, 2]), vec![0; 100_000]].concat();
        assert_eq!(outcome(&[(9, sealed.clone()), (10, batch(3))]), Ok(None));
        sealed.truncate(batch(1).len() + 20);
        let error = outcome(&[(9, sealed), (10, batch(3))]).unwrap_err();
        assert!(error.contains(&format!("up to byte {}", batch(1).len())), "{error}");
    }

    #[test]
    fn any_flipped_byte_is_found_if_a_batch_follows() {
        let length = batch(4).len();
        for at in length..2 * length {
            let mut journal = batches(&[4, 5, 6]);
            journal[at] ^= 0x80;
            assert!(of_one(journal).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_a_crash_left_of_the_last_batch_is_torn() {
        let good = batches(&[4, 5]);
        let torn = with_value(6, &[1; 3000]);
        let at = Some(good.len() as u64);
        for length in 1..torn.len() {
            // Cut off, with and without zeros behind it; a hole up to the end; a hole in the middle.
            let cut = [&good, &torn[..length], &[0; 512]].concat();
            assert_eq!(of_one(cut), Ok(at), "cut at {length}");
            let missing = [&good, &vec![0; length][..], &torn[length..]].concat();
            assert_eq!(of_one(missing), Ok(at), "without its first {length} bytes");
            let mut hole = [&good[..], &torn].concat();
            let from = good.len() + length;
            let to = hole.len().min(from + 64);
            hole[from..to].fill(0);
            assert_eq!(of_one(hole), Ok(at), "a hole at {length}");
        }
        assert_eq!(of_one([&good[..], &[0; 4096]].concat()), Ok(None), "never written");
        let mut count = [&good[..], &torn].concat();
        count[good.len() + 1] = 2;
        assert_eq!(of_one(count.clone()), Ok(at), "too few items");
        count[good.len() + 1] = 0;
        assert_eq!(of_one(count.clone()), Ok(at), "too many items");
        assert!(of_one([count, batch(7)].concat()).is_err());
    }

    /// Found in review: a batch that fjall had compressed was cut off as torn, and it was the last that was durable.
    #[test]
    fn a_compressed_batch_is_refused_and_not_cut() {
        let mut compressed = with_value(5, b"123");
        compressed[15] = 1;
        let (start, end) = (13, compressed.len() - 13);
        compressed[start + 13] = 200;
        let checksum = xxh3_64(&compressed[start..end]);
        compressed[end + 1..end + 9].copy_from_slice(&checksum.to_le_bytes());
        let error = of_one([batch(4), compressed].concat()).unwrap_err();
        assert!(error.contains("compressed"), "{error}");
    }

    #[test]
    fn a_value_that_holds_a_batch_is_no_batch() {
        let mut journal = [batch(4), with_value(5, &[batch(9), vec![7; 2000]].concat())].concat();
        assert_eq!(of_one(journal.clone()), Ok(None));
        let at = journal.len() - 600;
        journal[at..at + 512].fill(0);
        assert_eq!(of_one(journal), Ok(Some(batch(4).len() as u64)));
    }

    /// Values can be made so that they begin many long chains of items; the search must not follow them all.
    #[test]
    fn the_search_ends_in_time() {
        let item = |length: u32| {
            let length = length.to_le_bytes();
            let mut item = vec![ITEM, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            item.extend_from_slice(&[length, length].concat());
            item
        };
        let mut journal = batch(4);
        for left in (0..1_000).rev() {
            journal.extend_from_slice(&[BEGIN, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
            journal.extend(item(left * 34));
        }
        journal.extend(std::iter::repeat_n(item(0), 5_000).flatten());
        let error = of_one([journal, vec![9]].concat()).unwrap_err();
        assert!(error.contains("at byte 52"), "{error}");
    }
}
