//! The arguments of the bench.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use crate::Outcome;

/// Measures the store against a bare log of the same shape.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Engines to measure
    #[arg(long, value_delimiter = ',', default_value = "fjall,sled,memory")]
    pub(crate) store: Vec<Engine>,
    /// Numbers of concurrent writers
    #[arg(long, value_delimiter = ',', default_value = "1,16,256,4096")]
    pub(crate) writers: Vec<usize>,
    /// Seconds of one round
    #[arg(long, default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Rounds for each engine and number of writers; one more is run first and not counted
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Where to put the data; it should be on a real disk
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    pub(crate) dir: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Cargo adds this to what it runs as a bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// An engine that a URL can name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Engine {
    /// What a plain path opens
    Fjall,
    /// `sled:PATH`
    Sled,
    /// `memory:`, which syncs nothing
    Memory,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::Sled => "sled",
            Self::Memory => "memory",
        }
    }

    /// The URL of a new store in a directory.
    pub(crate) fn url(self, directory: &Path) -> String {
        match self {
            Self::Fjall | Self::Sled => format!("{}:{}", self.name(), directory.join(self.name()).display()),
            Self::Memory => String::from("memory:"),
        }
    }
}

impl Options {
    /// In memory a sync costs nothing, and the figures say nothing about a disk.
    pub(crate) fn warn_of_memory(&self) -> Outcome {
        const TMPFS: u64 = 0x0102_1994;
        std::fs::create_dir_all(&self.dir)?;
        let kind = u64::try_from(rustix::fs::statfs(&self.dir)?.f_type)?;
        if kind == TMPFS {
            let dir = self.dir.display();
            return Err(format!("{dir} is in memory, where a sync costs nothing; name a disk with --dir").into());
        }
        Ok(())
    }
}
