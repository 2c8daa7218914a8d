//! `cargo xtask check`: everything that judges the code without running it.

use clap::Args;

use crate::error::Result;
use crate::shell;
use crate::stages::{self, Stage};
use crate::tools;

#[derive(Args)]
pub(crate) struct Options {
    /// Also look for known vulnerabilities; fetches the advisory database
    #[arg(long)]
    advisories: bool,
}

/// Sets of features, beside all of them, that the library and the program have to
/// compile with: no engine on disk, each engine alone, and the program without any.
const FEATURE_SETS: &[&str] = &["", "fjall", "sled", "cli"];

/// The stages, cheapest first. To add one, add a line.
pub(crate) fn run(options: &Options) -> Result {
    let advisories = options.advisories;
    stages::run(&[
        Stage::new("format", "the code is formatted", format),
        Stage::new("lints", "no warning in any target", lints),
        Stage::new("features", "no warning with fewer features", features),
        Stage::new("docs", "the documentation builds and its links lead somewhere", docs),
        Stage::new("dependencies", "licences, sources and duplicates", move || {
            dependencies(advisories)
        }),
        Stage::new("tidy", "the house rules", tidy),
    ])
}

fn format() -> Result {
    tools::install_component("fmt", "rustfmt")?;
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Result {
    tools::install_component("clippy", "clippy")?;
    shell::run(
        shell::cargo()
            .args(["clippy", "--workspace", "--all-targets", "--all-features"])
            .args(["--", "-D", "warnings"]),
    )
}

fn features() -> Result {
    for set in FEATURE_SETS {
        let mut clippy = shell::cargo();
        clippy.args([
            "clippy",
            "--package",
            "everstep",
            "--lib",
            "--bins",
            "--no-default-features",
        ]);
        if !set.is_empty() {
            clippy.args(["--features", set]);
        }
        shell::run(clippy.args(["--", "-D", "warnings"]))?;
    }
    // What `cargo test` compiles for whoever has just cloned this.
    shell::run(
        shell::cargo()
            .args(["clippy", "--package", "everstep", "--all-targets"])
            .args(["--", "-D", "warnings"]),
    )
}

fn docs() -> Result {
    shell::run(shell::cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--no-deps",
        "--workspace",
        "--all-features",
    ]))
}

fn dependencies(advisories: bool) -> Result {
    tools::install_deny()?;
    let mut deny = shell::cargo();
    deny.args(["deny", "check", "bans", "licenses", "sources"]);
    if advisories {
        deny.arg("advisories");
    } else {
        println!(
            "advisories are left out: their database comes over the network and changes by itself, \
             and this command has to judge the same commit the same way, also offline; \
             `--advisories` adds them"
        );
    }
    shell::run(&mut deny)
}

fn tidy() -> Result {
    shell::run(shell::cargo().args(["test", "--package", "everstep", "--all-features", "--test", "tidy"]))
}
