//! The simulation: random decisions, random faults, one seed, and a simple model that knows what must be there.
//!
//! `storage` simulates the storage room, `runtime` everything: runtime, actors, alarms, engine and store in one
//! thread, on a simulated clock, over a disk that fails. FAULTS 21, 55.
//!
//! `cargo xtask sim --seeds N` runs seeds 0 to N - 1 of both, `--seed S` runs one. Without either, a fixed number.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::result_large_err,
    reason = "a test says what it expects by unwrapping it"
)]

mod chance;
mod runtime;
mod seeds;
mod storage;
