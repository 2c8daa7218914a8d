//! What the engine itself costs: a step, and a replay.
//!
//! In memory and in virtual time, so that no disk and no clock takes part; what counts is the CPU time of the thread
//! that runs the engine, so that a machine that is busy with other things makes little difference. The rig that
//! drives it and the store in memory are counted along, which makes every figure an upper bound.
//!
//! `cargo xtask bench engine`, or with lengths of its own, `cargo xtask bench engine 500 5000`

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

mod chain;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Each figure is the best of so many rounds.
const ROUNDS: u32 = 5;

fn main() {
    println!("{:>8} {:>12} {:>16}", "steps", "us a step", "replayed a s");
    for steps in chain::lengths() {
        let (live, replay) = measure(steps);
        let per_step = live.as_secs_f64() * 1e6 / f64::from(steps);
        let per_second = f64::from(steps) / replay.as_secs_f64();
        println!("{steps:>8} {per_step:>12.2} {per_second:>16.0}");
    }
}

/// How long a chain takes, and its replay: the best of the rounds.
fn measure(steps: u32) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let mut rig = chain::started(steps);
        let begin = cpu_time();
        let end = rig.run("chain").expect("the code is the same");
        best.0 = best.0.min(cpu_time() - begin);
        assert_eq!(end, chain::end(steps));
        let begin = cpu_time();
        let replayed = rig.replay("chain").expect("the code is the same");
        best.1 = best.1.min(cpu_time() - begin);
        assert_eq!(replayed, Some(end));
    }
    best
}

/// Called by the chain; here nothing is to be seen at its end.
fn at_the_end() {}

/// What this thread has used of the processor.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("CPU time is not negative")
}
