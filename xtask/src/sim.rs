//! `cargo xtask sim --seeds N [--seed S]`: runs the simulation, many seeds or one.

use clap::Args;

use crate::error::Result;
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// How many seeds, from zero
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Only this seed
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result {
    let mut command = shell::cargo();
    command.args([
        "test",
        "--release",
        "--all-features",
        "--test",
        "sim",
        "--",
        "--nocapture",
    ]);
    match options.seed {
        Some(seed) => command.env("EVERSTEP_SEED", seed.to_string()),
        None => command.env("EVERSTEP_SEEDS", options.seeds.to_string()),
    };
    shell::run(&mut command)
}
