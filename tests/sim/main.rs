//! The simulation: random decisions, random faults, one seed, and a simple model that knows what must be there.
//!
//! What is simulated today is the storage room: the real store and committer over the memory engine behind the
//! faulty one. Each round hands over a handful of commits that are made one group by force, lets the engine do well,
//! fail, lose its answer or crash, and compares every answer and every row with the model.
//!
//! `cargo xtask sim --seeds N` runs seeds 0 to N - 1, `--seed S` runs one. Without either, a fixed number.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it expects by unwrapping it"
)]

mod decision;
mod model;
mod world;

use world::World;

const SEEDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
    })
}

fn run(seed: u64) -> Vec<String> {
    let outcome = std::panic::catch_unwind(|| World::new(seed).run());
    outcome.unwrap_or_else(|panic| {
        println!("seed {seed} failed; repeat with: cargo xtask sim --seed {seed}");
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn every_answer_and_every_row_is_as_the_model_says() {
    let seeds = match (number("EVERSTEP_SEED"), number("EVERSTEP_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(SEEDS),
    };
    println!("seeds {seeds:?}");
    let mut events = 0;
    for seed in seeds {
        let trace = run(seed);
        events += trace.len();
        if seed % 50 == 0 {
            assert_eq!(trace, run(seed), "seed {seed} gave two different traces");
        }
    }
    println!("{events} decisions checked");
}
