//! A guard over the numbers of the batches in the journals.
//!
//! Every batch has a number, and where two batches wrote the same key the higher one wins. fjall's checksum covers
//! what a batch holds and not its number: a flipped bit there gives an old value back, or drops the batch as one that
//! already lies in a table, and nothing notices. Numbers only ever grow, through a journal and from one to the next,
//! so one that was changed stands out: lower than the one before it, or higher than the one behind it.
//!
//! What stays unseen: the very last batch with a higher number, which does no harm; the very first one with a lower
//! number; and a sealed journal that is cut off exactly between two batches, or the oldest one missing as a whole.
//! There are sealed journals only after a crash that came while a table was written.
//!
//! ```text
//! 1  items (4 bytes)  number (8 bytes)                                        a batch begins
//! 2  kind  0  keyspace (8)  key length (2)  length (4)  length (4)  key value an item
//! 3  checksum (8)  "FJL" 3                                                    a batch ends
//! 4  keyspace (8)                                                             a keyspace is cleared
//! ```
//!
//! What reads otherwise is the end of what was written, as it is for fjall, but for two things that no crash leaves
//! behind: a length that nothing of ours has, for which fjall would ask for gigabytes, and two lengths that differ in
//! a batch that is whole otherwise. fjall asserts the latter in debug builds, while it holds a lock that it needs to
//! clean up after a panic, and the process would end there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::limits::VALUE_BYTES_MAX;
use crate::storage::engine::ReadError;

const BEGIN: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MARK: [u8; 4] = *b"FJL\x03";

/// Bytes of an item in front of its key, without the tag.
const ITEM_BYTES: usize = 20;

/// Checks the journals, which are given in their order. Changes nothing.
pub(super) fn check(journals: &[(u64, PathBuf)]) -> Result<(), ReadError> {
    let mut last = None;
    for (index, (id, path)) in journals.iter().enumerate() {
        let file = File::open(path).map_err(ReadError::Unavailable)?;
        let before = last;
        check_journal(BufReader::new(file), path, &mut last)?;
        let Some((next, _)) = journals.get(index + 1) else {
            break;
        };
        // A journal is sealed because it is full, and removed when everything in it and before it lies in tables.
        if last == before || *next != id + 1 {
            let path = path.display();
            return Err(ReadError::Corrupt(format!(
                "{path}, or a journal behind it, has lost what it held; restore it from a backup"
            )));
        }
    }
    Ok(())
}

fn check_journal(mut journal: impl BufRead, path: &Path, last: &mut Option<u64>) -> Result<(), ReadError> {
    let damaged = |what: &str| {
        let path = path.display();
        Err(ReadError::Corrupt(format!("{path} {what}; restore it from a backup")))
    };
    loop {
        let number = match next_batch(&mut journal).map_err(ReadError::Unavailable)? {
            Next::Batch(number) => number,
            Next::Damage(what) => return damaged(what),
            Next::End => return Ok(()),
        };
        if let Some(last) = last.filter(|last| *last >= number) {
            return damaged(&format!("has batch {number} behind batch {last}"));
        }
        *last = Some(number);
    }
}

/// What comes next in a journal.
enum Next {
    /// A whole batch of this number.
    Batch(u64),
    /// Something that was never written.
    Damage(&'static str),
    /// Nothing, or a batch that a crash cut short.
    End,
}

fn next_batch(journal: &mut impl BufRead) -> io::Result<Next> {
    match read_batch(journal) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Next::End),
        outcome => outcome,
    }
}

fn read_batch(journal: &mut impl BufRead) -> io::Result<Next> {
    let mut number = None;
    let mut odd = false;
    loop {
        match read::<1>(journal)? {
            [BEGIN] => {
                let [_, _, _, _, bytes @ ..] = read::<12>(journal)?;
                number = Some(u64::from_le_bytes(bytes));
            }
            [ITEM] => {
                let head = read::<ITEM_BYTES>(journal)?;
                let key = u16::from_le_bytes([head[10], head[11]]);
                let value = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                odd |= head[12..16] != head[16..20];
                if value as usize > VALUE_BYTES_MAX {
                    return Ok(Next::Damage("has a value that is longer than any"));
                }
                skip(journal, u64::from(key) + u64::from(value))?;
            }
            [END] => {
                let end = read::<12>(journal)?;
                return Ok(match number.filter(|_| end.ends_with(&MARK)) {
                    Some(_) if odd => Next::Damage("has a value with two lengths"),
                    Some(number) => Next::Batch(number),
                    None => Next::End,
                });
            }
            [CLEAR] => drop(read::<8>(journal)?),
            _ => return Ok(Next::End),
        }
    }
}

fn read<const N: usize>(journal: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    journal.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip(journal: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut journal.take(bytes), &mut io::sink())?;
    if skipped == bytes {
        Ok(())
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> Vec<u8> {
        let mut bytes = vec![BEGIN, 1, 0, 0, 0];
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&[ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 3, 0, 0, 0]);
        bytes.extend_from_slice(b"ab123");
        bytes.extend_from_slice(&[END, 9, 9, 9, 9, 9, 9, 9, 9]);
        bytes.extend_from_slice(&MARK);
        bytes
    }

    fn found(journals: &[&[u64]], tail: &[u8]) -> bool {
        let mut last = None;
        journals.iter().any(|numbers| {
            let mut journal: Vec<u8> = numbers.iter().flat_map(|number| batch(*number)).collect();
            journal.extend_from_slice(tail);
            check_journal(&journal[..], Path::new("1.jnl"), &mut last).is_err()
        })
    }

    #[test]
    fn numbers_that_do_not_grow_are_found() {
        assert!(!found(&[&[4, 5, 9], &[10, 12]], &[]));
        assert!(found(&[&[4, 1, 9]], &[]), "lower than the one before");
        assert!(found(&[&[4, 13, 9]], &[]), "higher than the one behind");
        assert!(found(&[&[4, 4]], &[]), "the same twice");
        assert!(found(&[&[4, 5, 9], &[8]], &[]), "lower than in the journal before");
    }

    #[test]
    fn a_sealed_journal_that_is_empty_or_missing_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let with = |journals: &[(u64, &[u64])]| {
            let journals: Vec<_> = journals
                .iter()
                .map(|(id, numbers)| {
                    let path = directory.path().join(format!("{id}.jnl"));
                    let bytes: Vec<u8> = numbers.iter().flat_map(|number| batch(*number)).collect();
                    std::fs::write(&path, bytes).unwrap();
                    (*id, path)
                })
                .collect();
            check(&journals)
        };
        assert!(with(&[(3, &[1, 2]), (4, &[3]), (5, &[])]).is_ok());
        assert!(with(&[(3, &[]), (4, &[3])]).is_err(), "empty");
        assert!(with(&[(3, &[1]), (5, &[3])]).is_err(), "one is missing");
    }

    #[test]
    fn lengths_that_nothing_has_are_found() {
        let with = |at: usize, byte: u8| {
            let mut journal = batch(4);
            journal[at] = byte;
            journal.extend(batch(5));
            check_journal(&journal[..], Path::new("1.jnl"), &mut None).is_err()
        };
        // Behind the beginning of the batch, 13 bytes: the tag, then 12 bytes up to the first length, 16 to the second.
        assert!(!with(26, 3) && !with(30, 3), "what they are");
        assert!(with(26, 2), "two lengths");
        assert!(with(33, 0x80), "two gigabytes");
    }

    #[test]
    fn what_a_crash_cut_short_is_the_end() {
        let torn = batch(1);
        for length in 0..torn.len() {
            assert!(!found(&[&[4, 5]], &torn[..length]), "cut at {length}");
        }
        assert!(found(&[&[4, 5]], &torn));
        assert!(!found(&[&[4, 5]], &[0; 64]), "allocated and never written");
    }
}
