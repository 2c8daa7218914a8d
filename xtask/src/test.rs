//! `cargo xtask test`: runs everything that can fail, on a machine that may
//! have nothing but a Rust toolchain.

use clap::Args;

use crate::crash;
use crate::error::Result;
use crate::fuzz;
use crate::shell;
use crate::stages::{self, Stage};
use crate::tools;

#[derive(Args)]
pub(crate) struct Options {}

/// The stages, cheapest first. To add one, add a line.
pub(crate) fn run(_options: &Options) -> Result {
    stages::run(&[
        Stage::new("tools", "what the tests need from the system", tools::install_programs),
        Stage::new("tests", "unit and integration tests of every crate", tests),
        Stage::new("doctests", "the examples in the documentation", doctests),
        Stage::new("crash", "kills and power cuts, a few of each", crash::few),
        Stage::new("fuzz", "a minute of arbitrary bytes", || {
            fuzz::run(&fuzz::Options::of_a_test(30))
        }),
    ])
}

fn tests() -> Result {
    if tools::has_subcommand("nextest") {
        return shell::run(shell::cargo().args(["nextest", "run", "--workspace", "--all-features"]));
    }
    println!("cargo-nextest is not installed; plain `cargo test` does the same, slower");
    shell::run(
        shell::cargo()
            .args(["test", "--workspace", "--all-features"])
            // Every target that nextest would run. Doctests have a stage of their own.
            .args(["--lib", "--bins", "--tests", "--examples"])
            // Some weigh the whole process, or count its threads, and have to be alone in it.
            .args(["--", "--test-threads=1"]),
    )
}

fn doctests() -> Result {
    shell::run(shell::cargo().args(["test", "--doc", "--workspace", "--all-features"]))
}
