//! What the disk allows, measured in turns with what is compared to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::super::problem::Outcome;
use super::commits::COMMIT_BYTES;
use super::figure::{self, Limit};
use super::limit;
use super::round;

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

    /// The median time of a write with a sync.
    fn sync_us(&mut self) -> Outcome<f64> {
        let mut syncs = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let begin = round::now();
            self.file.write_all(&[7; COMMIT_BYTES])?;
            self.file.sync_data()?;
            syncs.push((round::now() - begin).as_secs_f64() * 1e6);
        }
        Ok(figure::median(syncs.into_iter()))
    }
}
