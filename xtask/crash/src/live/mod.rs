//! A runtime with live workflows is killed: results exactly once, effects at least once, and never again after they
//! were acknowledged.
//!
//! Whatever a step does to the world is a line in a file that no crash takes back (`observer`), with a number that no
//! other attempt has. The step returns that number, and the code that awaits the step writes down which one it saw.
//! From these lines alone the parent tells, without asking the store, whether a result was ever decided twice and
//! whether a step ran again after its result was seen. What clients were told (started, sent, the result) is asked of
//! the store again after every kill, which then has to verify clean.
//!
//! Half of the kills come from outside at a random moment; the other half the child deals itself, at a `Point` in
//! the life of a step where it hurts most.
//!
//! To read: `flows` (the workflows), `child` (their clients), `observer` and `check` (what must hold), `parent`.

mod check;
mod child;
mod flows;
mod observer;
mod parent;
mod point;

use std::path::PathBuf;

use clap::Args;

pub(crate) use child::run as child;
pub(crate) use parent::kill;
use point::Trap;

/// Clients at work at once. Each has one job after the other: client `c` the jobs `c`, `c + CLIENTS`, ...
pub(crate) const CLIENTS: u64 = 16;

/// What a child has to know of the life before it.
#[derive(Debug, Default, Args)]
pub(crate) struct Life {
    /// The file of the observer
    #[arg(long, hide = true)]
    observer: Option<PathBuf>,
    /// The job that each client begins with
    #[arg(long, hide = true, value_delimiter = ',')]
    jobs: Vec<u64>,
    /// How many jobs each client does before the child ends by itself; without, it never does
    #[arg(long, hide = true)]
    until: Option<u64>,
    /// Where in the life of a step the child kills itself, and at which time of coming there
    #[arg(long, hide = true)]
    trap: Option<Trap>,
}
