//! Kills a store again and again, and looks for what is missing.
//!
//! A child process commits with many writers at once and reports every acknowledgement over a pipe. The parent kills
//! it with SIGKILL at a random moment, sometimes while it is still opening the store; with `--power-loss` it then
//! takes away everything that was not synced. Then it opens the store itself and checks that every acknowledged
//! commit is there, whole and byte-equal, and that what is there beyond them is a commit that was on its way.
//!
//! To read: `workload` (what a writer commits, and what its rows must then be), `child`, `parent`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its caller"
)]

mod chance;
mod child;
mod parent;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Kills a store again and again, and looks for what is missing.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask crash")]
struct Options {
    /// The engine to kill
    #[arg(long, value_parser = ["fjall", "sled"])]
    engine: String,
    /// How often
    #[arg(long, default_value_t = 20)]
    cycles: u64,
    /// Take away what was not synced, as a power cut would
    #[arg(long)]
    power_loss: bool,
    /// Begin from this seed (it decides when to kill and what a power cut takes away)
    #[arg(long)]
    seed: Option<u64>,
    /// Where to put the store (a temporary directory if left out)
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Be the child: open this store and commit until killed
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.child {
        Some(url) => child::run(url),
        None => parent::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
