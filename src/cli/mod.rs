//! The commands of the `everstep` program. Each is a file with an `Options` that clap parses and a `run`.

mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a command returns: nothing, or what to tell the user.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Durable workflows: ordinary async functions that survive crashes, restarts and deploys.
#[derive(Debug, Parser)]
#[command(name = "everstep", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an order flow; kill it in the middle and start it again to see it carry on
    Demo(demo::Options),
}

pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Demo(options) => demo::run(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
