//! `cargo xtask sim --seeds N [--seed S]`: runs the simulation, many seeds or one.

use clap::Args;

use crate::error::Result;
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only this seed, twice; if it fails, the smallest case that does is shown
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happens
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(options: &Options) -> Result {
    let mut command = shell::cargo();
    // Optimised: a hundred thousand seeds take minutes. They are shared out over the cores.
    command
        .args(["test", "--release", "--all-features", "--test", "sim", "--"])
        .args(["--nocapture", "--test-threads", "1", "every"]);
    match options.seed {
        Some(seed) => command.env("EVERSTEP_SEED", seed.to_string()),
        None => command
            .env("EVERSTEP_SEEDS", options.seeds.to_string())
            .env("EVERSTEP_FIRST", options.first.to_string()),
    };
    if options.trace {
        command.env("EVERSTEP_TRACE", "1");
    }
    shell::run(&mut command)
}
