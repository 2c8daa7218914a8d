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
mod crash;
mod error;
mod fuzz;
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
    /// The benches: all of them, or the named one with its own arguments
    Bench(bench::Options),
    /// Kills a store again and again, and looks for what is missing
    Crash(crash::Options),
    /// Random decisions and faults from a seed, against a simple model
    Sim(sim::Options),
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
        Command::Fuzz(options) => fuzz::run(options),
    }
}
