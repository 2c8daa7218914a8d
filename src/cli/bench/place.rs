//! Where a bench puts its stores.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

use super::super::Output;
use super::super::problem::{Exit, Outcome, Problem};
use super::crash::Child;

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
        let refused = |error| Problem::file("make", &root, error);
        std::fs::create_dir_all(&root).map_err(refused)?;
        let root = root.canonicalize().map_err(refused)?;
        clean_when_interrupted(root.clone())?;
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
        if cfg!(debug_assertions) {
            anstream::eprintln!("this is a debug build: what it measures says nothing; build it with `--release`");
        }
        let (name, durability) = (self.engine.name(), self.engine.durability());
        Ok(writeln!(
            output.out,
            "{name} in {}\n{durability}\n",
            self.root.display()
        )?)
    }
}

/// Ctrl-C, or whoever ends it after a time, ends a bench in the middle of what it does, so its directory goes here.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing of a runtime: it waits beside everything that is measured, and ends with the process"
)]
fn clean_when_interrupted(root: PathBuf) -> Outcome {
    let waiting = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (interrupted, terminated) = {
        // Heard of from here on, before there is anything in the directory.
        let _here = waiting.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::spawn(move || {
        let (mut interrupted, mut terminated) = (interrupted, terminated);
        waiting.block_on(async {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
        });
        // All other threads end with the program that they run, so nothing is made anew behind what is removed.
        let clean = Child::Clean.command(&root.to_string_lossy());
        if let Ok(mut clean) = clean {
            let error = clean.exec();
            anstream::eprintln!("could not remove {}: {error}", root.display());
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}

/// Removes the directory of a bench that was interrupted, when nothing of its own runs any more.
pub(crate) fn clean(root: &str) -> Outcome {
    // A process that it had started may need a moment to notice.
    const TRIES: usize = 1_000;
    let root = Path::new(root);
    let removed = (0..TRIES).find_map(|_| std::fs::remove_dir_all(root).ok());
    if removed.is_none() && root.exists() {
        anstream::eprintln!("could not remove {}", root.display());
    }
    // Another bench may have something there.
    let _ = root.parent().map(std::fs::remove_dir);
    Err(Problem::Silent(Exit::Interrupted))
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
