//! What goes on between instances is killed with SIGKILL in the middle, again and again, and carried on: the cancellation
//! of a tree, messages from shard to shard, the line at a gate, the undoing of a saga. FAULTS 1, 57, 58, 59 and 67.
//!
//! Each test starts itself as a child process that runs in one thread, on a store on disk and with a clock of its own. At
//! a given place (a commit, or a line of a workflow) that thread stops, and with it everything; there the parent kills
//! it. So where it dies does not depend on time.

#![cfg(all(feature = "testing", feature = "fjall"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[path = "../kit/day.rs"]
mod day;
#[path = "../kit/process.rs"]
mod process;

mod cancellation;
mod gates;
mod life;
mod messages;
mod sagas;
