//! What the disk allows, measured in turns with what is compared to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, IntoInnerError, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;
use xxhash_rust::xxh3::xxh3_64;

use super::super::problem::Outcome;
use super::commits::COMMIT_BYTES;
use super::figure::Limit;
use super::limit;
use super::round;

/// What is asked of the disk at a time when the log is read back.
const READ_BYTES: usize = 1024 * 1024;

/// Syncs of one turn.
const SYNCS: usize = 15;

/// The bare log, with each number of writers that was asked for so far, and a file that is synced alone.
pub(crate) struct Disk {
    directory: PathBuf,
    length: Duration,
    logs: BTreeMap<usize, limit::Limit>,
    file: File,
}

impl Disk {
    /// Measures in a directory, a turn of the bare log this long.
    pub(crate) fn new(directory: &Path, length: Duration) -> Outcome<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            length,
            logs: BTreeMap::new(),
            file: File::create(directory.join("sync"))?,
        })
    }

    /// One turn: what the bare log does with so many writers, and what a sync takes.
    pub(crate) fn turn(&mut self, executor: &Runtime, writers: usize) -> Outcome<Limit> {
        if !self.logs.contains_key(&writers) {
            let directory = self.directory.join(format!("{writers}"));
            std::fs::create_dir_all(&directory)?;
            self.logs.insert(writers, limit::Limit::start(&directory, writers)?);
        }
        let log = self.logs.get_mut(&writers).expect("it was put there");
        let round = round::measure(executor, &mut log.writers, self.length);
        Ok(Limit {
            commits_per_s: round.ops_per_s,
            sync_us: self.sync_us()?,
        })
    }

    /// How many commits a second the bare log reads back when it is opened: one thread reads the file from its beginning,
    /// takes each commit out of it and checks its hash.
    pub(crate) fn read_back(&self, commits: u32) -> Outcome<f64> {
        let path = self.directory.join("read");
        let commit = [7; COMMIT_BYTES];
        let hash = xxh3_64(&commit);
        let mut file = BufWriter::new(File::create(&path)?);
        for _ in 0..commits {
            file.write_all(&hash.to_le_bytes())?;
            file.write_all(&commit)?;
        }
        file.into_inner().map_err(IntoInnerError::into_error)?.sync_data()?;
        let begin = round::now();
        let mut log = BufReader::with_capacity(READ_BYTES, File::open(&path)?);
        let (mut expected, mut read, mut intact) = ([0; 8], [0; COMMIT_BYTES], 0);
        for _ in 0..commits {
            log.read_exact(&mut expected)?;
            log.read_exact(&mut read)?;
            intact += u32::from(xxh3_64(&read).to_le_bytes() == expected);
        }
        let took = round::now() - begin;
        assert_eq!(intact, commits, "the log reads back what it wrote");
        Ok(f64::from(commits) / took.as_secs_f64().max(1e-9))
    }

    /// The median time of a write with a sync.
    fn sync_us(&mut self) -> Outcome<f64> {
        let mut syncs = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let begin = round::now();
            self.file.write_all(&[7; COMMIT_BYTES])?;
            self.file.sync_data()?;
            syncs.push((round::now() - begin).as_secs_f64() * 1e6);
        }
        Ok(round::median(syncs.into_iter()))
    }
}
