//! `cargo xtask crash --engine fjall|sled --cycles N [--workflows] [--power-loss] [--seed S]`:
//! kills a store, or a runtime with live workflows, again and again, and looks for what is missing. The work is
//! done by the package `everstep-crash`, which takes the arguments as they are.

use clap::Args;

use crate::error::Result;
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// Arguments for the run, `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    crash(&options.words)
}

/// A few cycles of everything, for the tests.
pub(crate) fn few() -> Result {
    for engine in ["fjall", "sled"] {
        for kind in [
            &[][..],
            &["--power-loss"],
            &["--workflows"],
            &["--workflows", "--power-loss"],
        ] {
            // As many as it takes to have every named spot once.
            let cycles = if kind.contains(&"--workflows") { "12" } else { "8" };
            let words = [&["--engine", engine, "--cycles", cycles], kind].concat();
            crash(&words.into_iter().map(String::from).collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

fn crash(words: &[String]) -> Result {
    shell::run(
        shell::cargo()
            .args(["run", "--quiet", "--release", "--package", "everstep-crash", "--"])
            .args(words),
    )
}
