//! How near the store comes to what the disk and the machine allow.
//!
//! The limit is a program of the same shape without a store: the same tasks, the same channel, one thread, one
//! write and one sync for a group, an answer to each. Limit and engines take turns in short rounds, so that a
//! machine that is busy with other things slows all of them down; what counts is the ratio. The limit and the commits
//! are those of `everstep bench`, which measures whole workflows against them.
//!
//! `cargo xtask bench storage --store fjall --writers 1,16 --json`

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

#[path = "../../src/cli/bench/commits.rs"]
mod commits;
#[path = "../../src/cli/bench/limit.rs"]
mod limit;
mod options;
mod report;
#[path = "../../src/cli/bench/round.rs"]
mod round;

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Runtime;

use commits::Commits;
use limit::Limit;
use options::{Engine, Options};
use report::{Line, Report};
use round::Round;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let options = Options::parse();
    options.warn_of_memory()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let mut report = Report::new(options.json);
    for &writers in &options.writers {
        for line in compare(&options, &runtime, writers)? {
            report.print(&line);
        }
    }
    Ok(())
}

/// The limit and every engine with this many writers, in turns.
fn compare(options: &Options, runtime: &Runtime, writers: usize) -> Outcome<Vec<Line>> {
    let directory = tempfile::Builder::new()
        .prefix("bench-storage-")
        .tempdir_in(&options.dir)?;
    let mut stores = open(&options.store, runtime, directory.path(), writers)?;
    let mut limit = Limit::start(directory.path(), writers)?;
    let mut limit_rounds = Vec::new();
    let mut rounds = vec![Vec::new(); stores.len()];
    let length = Duration::from_secs_f64(options.seconds);
    // The first turn warms up and is not counted.
    for turn in 0..=options.rounds {
        let keep = |rounds: &mut Vec<Round>, round| {
            if turn > 0 {
                rounds.push(round);
            }
        };
        keep(&mut limit_rounds, round::measure(runtime, &mut limit.writers, length));
        for (store, rounds) in stores.iter_mut().zip(&mut rounds) {
            keep(rounds, round::measure(runtime, &mut store.writers, length));
        }
    }
    let mut lines = vec![Line::new("limit", writers, &limit_rounds, &limit_rounds)];
    for (engine, rounds) in options.store.iter().zip(&rounds) {
        lines.push(Line::new(engine.name(), writers, rounds, &limit_rounds));
    }
    Ok(lines)
}

fn open(engines: &[Engine], runtime: &Runtime, directory: &Path, writers: usize) -> Outcome<Vec<Commits>> {
    engines
        .iter()
        .map(|engine| Commits::start(runtime, &engine.url(directory), writers))
        .collect()
}
