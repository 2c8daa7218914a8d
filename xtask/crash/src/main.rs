//! Kills processes again and again, and looks for what is missing.
//!
//! Two kinds of victims. Without `--workflows` a child process commits to a bare store with many writers (`store`);
//! with it, a child process is a whole runtime with live workflows and clients (`live`). Either reports every
//! acknowledgement over a pipe. The parent kills it with SIGKILL at a random moment, sometimes while it is still
//! opening the store, or has it die by itself at a point that it names; with `--power-loss` it then takes away everything that was not synced. Then it looks at what is
//! left, and lets the next child carry on with it.
//!
//! To read: `victim` (a process that dies), `at_sync` (where it hurts most), then either of the two.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its caller"
)]

mod at_sync;
mod chance;
#[cfg(test)]
#[path = "../../../tests/documents/commands.rs"]
mod commands;
mod live;
mod store;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

use crate::victim::Victim;

/// Kills processes again and again, and looks for what is missing.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask crash")]
struct Options {
    /// The engine under the store
    #[arg(long, value_parser = ["fjall", "sled"])]
    engine: String,
    /// How often to kill
    #[arg(long, default_value_t = 20)]
    cycles: u64,
    /// Kill a runtime with live workflows, not only a store
    #[arg(long)]
    workflows: bool,
    /// Take away what was not synced, as a power cut would
    #[arg(long)]
    power_loss: bool,
    /// Begin from this seed (it decides when to kill and what a power cut takes away)
    #[arg(long)]
    seed: Option<u64>,
    /// Where to put the store (a temporary directory if left out)
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Be the child: open this store and work until killed
    #[arg(long, hide = true)]
    child: Option<String>,
    /// What the child with workflows has to know
    #[command(flatten)]
    life: live::Life,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.child {
        Some(url) if options.workflows => live::child(url, &options.life),
        Some(url) => store::child(url),
        None => kill(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn kill(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(seed_of_the_moment);
    let mut again = format!("--engine {} --cycles {} --seed {seed}", options.engine, options.cycles);
    for (set, flag) in [
        (options.workflows, " --workflows"),
        (options.power_loss, " --power-loss"),
    ] {
        again.push_str(if set { flag } else { "" });
    }
    println!("repeat with: cargo xtask crash {again}");
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    let home = options.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut victim = Victim::new(&home, options)?;
    let outcome = if options.workflows {
        live::kill(&mut victim, &home, options.cycles, seed)
    } else {
        store::kill(&mut victim, options.cycles, seed)
    };
    if outcome.is_err() && options.directory.is_none() {
        println!("the store is kept in {}", temporary.keep().display());
    }
    println!("{}", outcome?);
    if let Some(cut) = victim.cut {
        println!(
            "unsynced writes: {} kept, {} undone, {} torn; names were lost with their directories in {} of {} cuts",
            cut.kept,
            cut.undone,
            cut.torn,
            cut.strict,
            cut.strict + cut.lenient
        );
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a tool, not the runtime")]
fn seed_of_the_moment() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents show commands that are understood. Help that is asked for comes after what is not understood.
    #[test]
    fn every_command_of_the_documents_is_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shown = commands::commands_of(&root, &["cargo", "xtask", "crash"]);
        assert!(shown.len() > 3, "the pages were read: {shown:?}");
        for (page, words) in shown {
            let words = words.iter().map(String::as_str);
            let line = ["crash"].into_iter().chain(words).chain(["--help"]);
            let error = Options::try_parse_from(line).expect_err("help is asked for");
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{page}: {error}");
        }
    }
}
