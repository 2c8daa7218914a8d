//! A guard against losing the end of a sealed journal.
//!
//! When fjall reads a journal and meets bytes that it can't read, it takes them for a write that a crash cut short,
//! and cuts the file off there. At the end of the journal that is being written this is right, and the watermark
//! tells if anything durable was lost. A *sealed* journal, though, was synced as a whole: there is no write in it
//! that a crash could have cut short, and what follows in later journals hides the gap from the watermark. So before
//! fjall opens, every sealed journal is held and measured; if it is shorter afterwards than its last written byte,
//! it was damaged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::storage::engine::ReadError;

/// The sealed journals as they were before fjall opened.
#[derive(Debug, Default)]
pub(super) struct SealedJournals {
    journals: Vec<Sealed>,
}

#[derive(Debug)]
struct Sealed {
    path: PathBuf,
    /// Keeps the file measurable when fjall removes it.
    file: File,
    /// The bytes up to the last one that is not zero; the rest was allocated and never written.
    written: u64,
}

impl SealedJournals {
    /// Finds and measures the sealed journals of the database in `directory`: all but the one with the highest
    /// number. There are none unless the last process died while it wrote a table.
    pub(super) fn look(directory: &Path) -> io::Result<Self> {
        let mut journals = all(directory)?;
        journals.pop();
        let measured = journals.into_iter().map(|(_, path)| Sealed::measure(path));
        Ok(Self {
            journals: measured.collect::<io::Result<_>>()?,
        })
    }

    /// Whether fjall left them as long as they were.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        for journal in &self.journals {
            let length = journal.file.metadata().map_err(ReadError::Unavailable)?.len();
            if length < journal.written {
                let (path, written) = (journal.path.display(), journal.written);
                return Err(ReadError::Corrupt(format!(
                    "{path} is readable up to byte {length} of {written}"
                )));
            }
        }
        Ok(())
    }
}

/// The journals of the database in `directory`, in their order.
pub(super) fn all(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
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

impl Sealed {
    fn measure(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        let mut end = file.metadata()?.len();
        let mut chunk = vec![0; 64 * 1024];
        while end > 0 {
            let start = end.saturating_sub(chunk.len() as u64);
            let part = &mut chunk[..(end - start) as usize];
            file.read_exact_at(part, start)?;
            if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
                end = start + last as u64 + 1;
                break;
            }
            end = start;
        }
        Ok(Self {
            path,
            file,
            written: end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_journal_that_was_cut_off_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
        write("7.jnl", &[b"written".as_slice(), &[0; 100_000]].concat());
        write("10.jnl", b"the active one");
        let sealed = SealedJournals::look(directory.path()).unwrap();
        let cut = |name: &str, length| {
            let file = File::options().write(true).open(directory.path().join(name)).unwrap();
            file.set_len(length).unwrap();
        };
        cut("10.jnl", 3);
        cut("7.jnl", 7);
        assert!(sealed.check().is_ok(), "only what was never written is gone");
        cut("7.jnl", 6);
        assert!(
            sealed
                .check()
                .is_err_and(|error| error.to_string().contains("byte 6 of 7"))
        );
    }

    #[test]
    fn a_new_database_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(
            SealedJournals::look(&directory.path().join("none"))
                .unwrap()
                .check()
                .is_ok()
        );
    }
}
