//! As much of everything as the design promises: it comes to its end, nobody is starved, and memory does not grow.
//!
//! Everything runs in one thread and in virtual time, on a store in memory that is weighed, so that what the runtime
//! holds beside it is known to the byte and is the same in every run. Fairness is counted: how many others had their
//! turn before somebody was served.
//!
//! `cargo xtask test` runs a small part of each, which is enough to fill every bounded queue. `cargo xtask load` runs
//! all of it, in a release build.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod alarms;
mod backlog;
mod bystander;
mod children;
mod floods;
mod gates;
mod ground;
mod loops;
#[path = "../runtime/machine.rs"]
#[allow(dead_code, reason = "shared with the tests of the runtime, which use all of it")]
mod machine;
mod restarts;
mod sleepers;
mod slots;
mod steps;
mod topics;
mod weighed;
