//! What the history of a resident instance takes in memory, an entry.
//!
//! Every allocation is counted, which takes time: hence a bench of its own, beside that of the engine.
//!
//! `cargo xtask bench memory`, or with lengths of its own, `cargo xtask bench memory 500 5000`

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

#[path = "../engine/chain.rs"]
mod chain;

use std::alloc::System;
use std::sync::atomic::{AtomicUsize, Ordering};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What was allocated when the function had come to its end, with its whole history in memory.
static HELD: AtomicUsize = AtomicUsize::new(0);

fn main() {
    println!("{:>8} {:>14}", "steps", "bytes an entry");
    for steps in chain::lengths() {
        let mut rig = chain::started(steps);
        assert_eq!(rig.run("chain").expect("the code is the same"), chain::end(steps));
        let before = allocated();
        rig.replay("chain").expect("the code is the same");
        let held = HELD.load(Ordering::Relaxed).saturating_sub(before);
        println!("{steps:>8} {:>14}", held / steps as usize);
    }
}

/// Called by the chain: its whole history is in memory now.
fn at_the_end() {
    HELD.store(allocated(), Ordering::Relaxed);
}

/// Bytes that are allocated now.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}
