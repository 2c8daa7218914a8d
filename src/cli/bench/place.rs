//! Where a bench puts its stores.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::Output;
use super::super::problem::Outcome;

/// The engine that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// What a plain path opens
    Fjall,
    /// `sled:PATH`
    Sled,
    /// `memory:`, which survives nothing
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

    pub(crate) fn is_durable(self) -> bool {
        self != Self::Memory
    }

    /// What an acknowledgement means.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::Fjall | Self::Sled => "durable: every commit is synced before it is acknowledged",
            Self::Memory => "not durable: nothing is written to a disk",
        }
    }
}

/// A directory of this bench alone, removed when it is over.
#[derive(Debug)]
pub(crate) struct Place {
    root: PathBuf,
    engine: Engine,
}

impl Place {
    pub(crate) fn new(within: &Path, engine: Engine) -> Outcome<Self> {
        let root = within.join("everstep-bench").join(std::process::id().to_string());
        std::fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        Ok(Self { root, engine })
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// A directory in it.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The URL of a store in it.
    pub(crate) fn url(&self, name: &str) -> String {
        match self.engine {
            Engine::Memory => String::from("memory:"),
            engine => format!("{}:{}", engine.name(), self.directory(name).display()),
        }
    }

    /// Removes a store that is not needed any more.
    pub(crate) fn remove(&self, name: &str) {
        // What can't be removed now is removed with everything else, or tells then.
        let _ = std::fs::remove_dir_all(self.directory(name));
    }

    /// Says what is measured.
    pub(crate) fn tell(&self, output: &mut Output) -> Outcome {
        let (name, durability) = (self.engine.name(), self.engine.durability());
        Ok(writeln!(output.out, "{name} in {}, {durability}", self.root.display())?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            anstream::eprintln!("could not remove {}: {error}", self.root.display());
        }
        // Another bench may have something there.
        let _ = self.root.parent().map(std::fs::remove_dir);
    }
}
