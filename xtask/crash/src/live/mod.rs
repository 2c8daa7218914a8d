//! A runtime with live workflows is killed: results exactly once, effects at least once, and never again after they
//! were acknowledged.
//!
//! Whatever a step does to the world is a line in a file that no crash takes back (`observer`), with a number that no
//! other attempt has. The step returns that number, and the code that awaits the step writes down which one it saw.
//! From these lines alone the parent tells, without asking the store, whether a result was ever decided twice and
//! whether a step ran again after its result was seen. What clients were told (started, sent, the end) is looked for in
//! the store after every kill, before anybody could mend it (`told`), and the store has to verify clean. The next clients
//! do the last of it again, and must hear that it was done before.
//!
//! A third of the kills come from outside at a random moment. The others the child deals itself, in turn: at a `Point` in
//! the life of a step where it hurts most, or at a sync (`at_sync`).
//!
//! To read: `flows` (the workflows), `child` (their clients), `observer`, `check` and `told` (what must hold), `parent`.

mod check;
mod child;
mod flows;
mod observer;
mod parent;
mod point;
mod told;

use std::path::PathBuf;

use clap::Args;

pub(crate) use child::run as child;
pub(crate) use parent::kill;
use point::Trap;
use told::Known;

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
    /// What an earlier client was told of those jobs
    #[arg(long, hide = true, value_delimiter = ',')]
    known: Vec<Known>,
    /// Where in the life of a step the child kills itself, and at which time of coming there
    #[arg(long, hide = true)]
    trap: Option<Trap>,
}
