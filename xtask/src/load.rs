//! `cargo xtask load`: as much of everything as the design promises, in virtual time.

use clap::Args;

use crate::error::Result;
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// Only those whose names have this in them
    name: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    shell::run(
        shell::cargo()
            // Optimised: a million of anything takes minutes.
            .args(["test", "--release", "--all-features", "--test", "load", "--"])
            .args(["--nocapture", "--test-threads", "1"])
            .args(&options.name)
            .env("EVERSTEP_LOAD", "all"),
    )
}
