//! What the shim writes down: one record per effect, saved before the effect.
//!
//! ```text
//! length u64 | seq u64 | kind u8 | fields
//! ```
//!
//! All numbers are little-endian, byte strings carry a `u64` length. A record
//! is appended with one write, so only the last one can be incomplete, and
//! then its effect never began.

/// An inode number. All files below the root live on one device, and the shim
/// keeps every removed inode alive, so the number is never reused.
pub type FileId = u64;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Rises by one per record; survives compaction.
    pub seq: u64,
    /// What is about to happen, or has been learnt.
    pub event: Event,
}

/// An effect on a file or a directory, or news about an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes are about to be written.
    Write {
        /// The file.
        file: FileId,
        /// Where the first byte goes.
        offset: u64,
        /// The file's length before.
        old_len: u64,
        /// The bytes that get overwritten, without trailing zeros.
        old: Vec<u8>,
        /// The bytes that take their place.
        new: Vec<u8>,
    },
    /// The length is about to change without a write.
    Resize {
        /// The file.
        file: FileId,
        /// The length before.
        old_len: u64,
        /// The length after.
        new_len: u64,
        /// The bytes that get cut off, without trailing zeros.
        tail: Vec<u8>,
    },
    /// Directory entries are about to change, all or none of them.
    Entries(Vec<Change>),
    /// An earlier effect was smaller than announced.
    Outcome {
        /// The `seq` of that effect.
        of: u64,
        /// Bytes written; zero also means that the call failed.
        done: u64,
    },
    /// A sync of this file or directory has completed.
    Synced {
        /// The file or directory.
        file: FileId,
        /// The newest `seq` when the sync began.
        upto: u64,
    },
}

/// One name in one directory, before and after.
///
/// `None` to `None` claims that a name was absent: it precedes a creation,
/// whose inode is known only afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The directory.
    pub dir: FileId,
    /// The name in it.
    pub name: Vec<u8>,
    /// What the name meant before.
    pub before: Option<FileId>,
    /// What it means after.
    pub after: Option<FileId>,
}

const WRITE: u8 = 1;
const RESIZE: u8 = 2;
const ENTRIES: u8 = 3;
const OUTCOME: u8 = 4;
const SYNCED: u8 = 5;

impl Record {
    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        put(out, 0);
        put(out, self.seq);
        match &self.event {
            Event::Write {
                file,
                offset,
                old_len,
                old,
                new,
            } => {
                out.push(WRITE);
                put_all(out, &[*file, *offset, *old_len]);
                put_bytes(out, old);
                put_bytes(out, new);
            }
            Event::Resize {
                file,
                old_len,
                new_len,
                tail,
            } => {
                out.push(RESIZE);
                put_all(out, &[*file, *old_len, *new_len]);
                put_bytes(out, tail);
            }
            Event::Entries(changes) => {
                out.push(ENTRIES);
                put(out, changes.len() as u64);
                for change in changes {
                    put(out, change.dir);
                    put_bytes(out, &change.name);
                    put(out, change.before.unwrap_or(0));
                    put(out, change.after.unwrap_or(0));
                }
            }
            Event::Outcome { of, done } => {
                out.push(OUTCOME);
                put_all(out, &[*of, *done]);
            }
            Event::Synced { file, upto } => {
                out.push(SYNCED);
                put_all(out, &[*file, *upto]);
            }
        }
        let length = (out.len() - start - 8) as u64;
        out[start..start + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads all complete records, and how many bytes they take.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> (Vec<Self>, usize) {
        let mut records = Vec::new();
        let mut reader = Reader(bytes);
        let mut valid = 0;
        while let Some(record) = reader.bytes().and_then(Self::decode) {
            records.push(record);
            valid = bytes.len() - reader.0.len();
        }
        (records, valid)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        let seq = reader.number()?;
        let event = match reader.take(1)?[0] {
            WRITE => Event::Write {
                file: reader.number()?,
                offset: reader.number()?,
                old_len: reader.number()?,
                old: reader.bytes()?.to_vec(),
                new: reader.bytes()?.to_vec(),
            },
            RESIZE => Event::Resize {
                file: reader.number()?,
                old_len: reader.number()?,
                new_len: reader.number()?,
                tail: reader.bytes()?.to_vec(),
            },
            ENTRIES => {
                let count = reader.number()?;
                Event::Entries((0..count).map(|_| reader.change()).collect::<Option<_>>()?)
            }
            OUTCOME => Event::Outcome {
                of: reader.number()?,
                done: reader.number()?,
            },
            SYNCED => Event::Synced {
                file: reader.number()?,
                upto: reader.number()?,
            },
            _ => return None,
        };
        Some(Self { seq, event })
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_all(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|&number| put(out, number));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn change(&mut self) -> Option<Change> {
        Some(Change {
            dir: self.number()?,
            name: self.bytes()?.to_vec(),
            before: Some(self.number()?).filter(|&id| id != 0),
            after: Some(self.number()?).filter(|&id| id != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Record> {
        let change = Change {
            dir: 2,
            name: b"a".to_vec(),
            before: None,
            after: Some(9),
        };
        let events = [
            Event::Write {
                file: 9,
                offset: 3,
                old_len: 4,
                old: vec![1],
                new: vec![2, 3],
            },
            Event::Resize {
                file: 9,
                old_len: 5,
                new_len: 1,
                tail: vec![7],
            },
            Event::Entries(vec![change]),
            Event::Outcome { of: 1, done: 1 },
            Event::Synced { file: 9, upto: 3 },
        ];
        (1..).zip(events).map(|(seq, event)| Record { seq, event }).collect()
    }

    #[test]
    fn an_incomplete_tail_is_left_out_wherever_it_was_cut() {
        let records = one_of_each();
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for record in &records {
            record.encode(&mut bytes);
            ends.push(bytes.len());
        }
        for cut in 0..=bytes.len() {
            let complete = ends.iter().filter(|&&end| end <= cut).count() - 1;
            let (read, valid) = Record::decode_all(&bytes[..cut]);
            assert_eq!((read.as_slice(), valid), (&records[..complete], ends[complete]));
        }
    }
}
