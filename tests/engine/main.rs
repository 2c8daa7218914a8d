//! What the engine promises, through the public API, in virtual time: one file for each promise, one program for all.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[macro_use]
mod kit;

mod branches;
mod cancellation;
mod catching_up;
mod changed_loops;
mod children;
mod combined;
mod commits_are_few;
mod commits_fit;
mod destructors;
mod divergence;
mod dropped_futures;
mod endings;
mod events;
mod events_for_one;
mod families;
mod floods;
mod loops;
mod macros;
mod messages;
mod misuse;
mod native_combinators;
mod numbered;
mod once;
mod outputs;
mod pausing;
mod promises;
mod questions;
mod random_programs;
mod random_sagas;
mod recorded_histories;
mod recorded_verbs;
mod room;
mod sagas;
mod schedules;
mod sending;
mod steps;
mod strategies;
mod time;
mod types;
mod unread;
mod verbs;
mod versions;
mod waits;
