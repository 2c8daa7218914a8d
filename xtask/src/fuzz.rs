//! `cargo xtask fuzz [TARGET] [--seconds N] [--seed S]`: throws bytes at what reads the disk.
//!
//! libFuzzer on the stable compiler: what tells it where an input went is an LLVM pass that every rustc has, and what
//! it needs beside is a C++ compiler. Seeds come from `fuzz/corpus`; what it finds on the way stays in `fuzz/grown`
//! for the next run, and an input that failed is left in `fuzz/artifacts`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::error::{Error, Result};
use crate::shell;
use crate::tools;

#[derive(Args)]
pub(crate) struct Options {
    /// What to fuzz (every target in turn if left out)
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// For how long, each target
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// What chance begins with (another one each time if left out)
    #[arg(long)]
    seed: Option<u32>,
}

impl Options {
    /// As `cargo xtask test` does it: everything for so many seconds, and always from the same seed.
    pub(crate) fn of_a_test(seconds: u32) -> Self {
        Self {
            target: None,
            seconds,
            seed: Some(1),
        }
    }
}

const TARGETS: [&str; 4] = ["key", "envelope", "import", "history"];

/// What `cargo fuzz` asks of the compiler, without the sanitizer, which would need a nightly one.
const RUSTFLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

pub(crate) fn run(options: &Options) -> Result {
    match &options.target {
        Some(target) => fuzz(target, options),
        None => TARGETS.iter().try_for_each(|target| fuzz(target, options)),
    }
}

fn fuzz(target: &str, options: &Options) -> Result {
    let Options { seconds, seed, .. } = options;
    tools::install_cplusplus()?;
    let [corpus, grown, artifacts] = ["corpus", "grown", "artifacts"].map(|name| folder(name).join(target));
    for folder in [&grown, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|source| Error::Folder {
            path: folder.clone(),
            source,
        })?;
    }
    shell::run(
        shell::cargo()
            .env("RUSTFLAGS", RUSTFLAGS.join(" "))
            .args(["run", "--quiet", "--package", "everstep-fuzz", "--bin", target])
            // With a target, the flags do not reach build scripts and macros, which have no libFuzzer to link to.
            .args(["--profile", "fuzz", "--target", &host()?, "--"])
            .arg(format!("-max_total_time={seconds}"))
            // Zero is what libFuzzer takes for: draw one, and say which.
            .arg(format!("-seed={}", seed.unwrap_or(0)))
            // Longer than the longest key. A second for one input would be a thousand times the usual.
            .args(["-max_len=10000", "-timeout=5", "-rss_limit_mb=1024", "-verbosity=0"])
            .args(["-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([grown, corpus]),
    )
}

fn folder(name: &str) -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.with_file_name("fuzz").join(name)
}

/// The machine that the compiler runs on, as it calls it.
fn host() -> Result<String> {
    let told = shell::output(Command::new("rustc").arg("-vV"))?;
    host_in(&String::from_utf8_lossy(&told)).ok_or(Error::NoHost)
}

fn host_in(version: &str) -> Option<String> {
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_what_the_compiler_says() {
        let version = "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host_in(version).as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host_in("rustc 1.95.0"), None);
    }

    #[test]
    fn every_target_has_a_corpus_and_a_program() {
        for target in TARGETS {
            assert!(folder("corpus").join(target).is_dir(), "{target}");
            assert!(
                folder("src/bin").join(target).with_extension("rs").is_file(),
                "{target}"
            );
        }
    }
}
