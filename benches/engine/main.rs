//! What the engine itself costs: a step, a replay, the memory of an entry.
//!
//! In memory and in virtual time, so that no disk and no clock takes part; what counts is the CPU time of the thread
//! that runs the engine, so that a machine that is busy with other things makes little difference. The harness that
//! drives it is counted along, which makes every figure an upper bound.
//!
//! `cargo xtask bench engine`, or with lengths of its own, `cargo xtask bench engine 500 5000`

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::alloc::System;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everstep::testing::harness::{End, Harness, Plan};
use everstep::{Ctx, Result, Workflow, ok};
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What was allocated when the function had come to its end, with its whole history in memory.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Lengths of histories that are compared: what a step costs must not depend on them.
const STEPS: [u32; 3] = [1_000, 10_000, 20_000 - 1];

/// Each figure is the best of so many rounds.
const ROUNDS: u32 = 5;

/// A chain of steps that do nothing.
struct Chain;

impl Workflow for Chain {
    const NAME: &'static str = "chain";
    type Input = u32;
    type Output = u64;

    async fn run(ctx: Ctx<Self>, steps: u32) -> Result<u64> {
        let mut sum = 0;
        for number in 0..steps {
            sum += ctx
                .step(&number.to_string(), move || async move { ok(u64::from(number)) })
                .await?;
        }
        HELD.store(allocated(), Ordering::Relaxed);
        ok(sum)
    }
}

fn main() {
    println!(
        "{:>8} {:>12} {:>16} {:>14}",
        "steps", "us a step", "replayed a s", "bytes an entry"
    );
    let asked: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    for steps in if asked.is_empty() { STEPS.to_vec() } else { asked } {
        let Measured { live, replay, bytes } = measure(steps);
        let per_step = live.as_secs_f64() * 1e6 / f64::from(steps);
        let per_second = f64::from(steps) / replay.as_secs_f64();
        println!(
            "{steps:>8} {per_step:>12.2} {per_second:>16.0} {:>14}",
            bytes / steps as usize
        );
    }
}

/// The best of the rounds.
struct Measured {
    live: Duration,
    replay: Duration,
    bytes: usize,
}

fn measure(steps: u32) -> Measured {
    let mut best = Measured {
        live: Duration::MAX,
        replay: Duration::MAX,
        bytes: usize::MAX,
    };
    for _ in 0..ROUNDS {
        let mut harness = Harness::<Chain>::new(Plan::Live, 1);
        harness.start("chain", &steps);
        let begin = cpu_time();
        let end = harness.run("chain").expect("the code is the same");
        best.live = best.live.min(cpu_time() - begin);
        assert_eq!(end, End::Completed(u64::from(steps) * u64::from(steps - 1) / 2));
        let (begin, before) = (cpu_time(), allocated());
        let replayed = harness.replay("chain").expect("the code is the same");
        best.replay = best.replay.min(cpu_time() - begin);
        best.bytes = best.bytes.min(HELD.load(Ordering::Relaxed).saturating_sub(before));
        assert_eq!(replayed, Some(end));
    }
    best
}

/// Bytes that are allocated now.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// What this thread has used of the processor.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("CPU time is not negative")
}
