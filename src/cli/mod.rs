//! The commands of the `everstep` program. Each is a file with an `Options` that clap parses and a `run`.

mod demo;
mod store;

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
    /// Read everything in a store and report what is wrong
    Verify(store::Verify),
    /// Write a store, or one instance, to a file
    Export(store::Export),
    /// Bring what `export` wrote into a store
    Import(store::Import),
    /// Copy a store into a new one
    Backup(store::Backup),
    /// Open a store that has lost commits, on purpose; the loss is written into it
    AcceptLoss(store::AcceptLoss),
}

pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Demo(options) => demo::run(options),
        Command::Verify(verify) => verify.run(),
        Command::Export(export) => export.run(),
        Command::Import(import) => import.run(),
        Command::Backup(backup) => backup.run(),
        Command::AcceptLoss(accept) => accept.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match code(&*error) {
                Some(code) => eprintln!("error {code}: {error}"),
                None => eprintln!("error: {error}"),
            }
            ExitCode::FAILURE
        }
    }
}

/// The stable code of an error, if it is one of ours.
fn code(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let storage = error
        .downcast_ref::<everstep::storage::Error>()
        .map(everstep::storage::Error::code);
    storage.or_else(|| error.downcast_ref::<everstep::Error>().map(everstep::Error::code))
}
