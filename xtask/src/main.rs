//! The one list of commands that this project keeps: `cargo xtask --help`.
//!
//! Each command is a file with an `Options` that clap parses and a `run`. To
//! add one, write the file, then give it a line in [`Command`] and in
//! [`dispatch`]. Continuous integration calls the same commands as people do.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its caller"
)]

mod bench;
mod check;
#[cfg(test)]
#[path = "../../tests/documents/commands.rs"]
mod commands;
mod crash;
mod error;
mod fuzz;
mod load;
mod metadata;
mod shell;
mod sim;
mod stages;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// The commands of the everstep workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that reads the code without running it: format, lints, docs, dependencies, house rules
    Check(check::Options),
    /// Every test, after installing what the tests need
    Test(test::Options),
    /// What workflows cost on this machine; or the named bench, of a part alone, with its own arguments
    Bench(bench::Options),
    /// Kills a store again and again, and looks for what is missing
    Crash(crash::Options),
    /// Random decisions and faults from a seed, against a simple model
    Sim(sim::Options),
    /// As much of everything as the design promises: it ends, nobody is starved, memory stays flat
    Load(load::Options),
    /// Arbitrary bytes for everything that reads the disk: all targets, or the named one
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &Command) -> Result {
    match command {
        Command::Check(options) => check::run(options),
        Command::Test(options) => test::run(options),
        Command::Bench(options) => bench::run(options),
        Command::Crash(options) => crash::run(options),
        Command::Sim(options) => sim::run(options),
        Command::Load(options) => load::run(options),
        Command::Fuzz(options) => fuzz::run(options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents show commands that are understood. Help that is asked for comes after what is not understood.
    #[test]
    fn every_command_of_the_documents_is_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let shown = commands::commands_of(&root, &["cargo", "xtask"]);
        assert!(shown.len() > 15, "the pages were read: {shown:?}");
        for (page, words) in shown {
            let line = ["xtask"]
                .into_iter()
                .chain(words.iter().map(String::as_str))
                .chain(["--help"]);
            if let Err(error) = Arguments::try_parse_from(line) {
                assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{page}: {error}");
            }
        }
    }
}
