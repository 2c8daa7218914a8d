//! The `everstep` program: a demonstration, and the operations on a store.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its caller"
)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
