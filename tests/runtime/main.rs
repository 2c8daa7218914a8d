//! What a runtime promises to those who hold its handles, and what keeps it running. One file for each promise.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod admission;
mod alarms;
mod attempts;
mod batches;
mod blocking;
mod bounds;
mod building;
mod cancelling;
mod carrying;
mod copies;
mod costs;
mod crash;
mod delays;
mod events;
mod executor;
mod foreign;
mod gates;
mod gates_inside;
mod going_away;
mod holds;
mod inbox;
mod kit;
mod large;
mod listing;
mod looping;
#[allow(dead_code, reason = "shared with the tests of load")]
mod machine;
mod messages;
mod moving;
mod named;
mod observers;
mod operations;
mod pairs;
mod panicking;

#[path = "../kit/process.rs"]
mod process;
mod promises;
mod questions;
mod queues;
mod races;
mod reading;
mod recovering;
mod relations;
mod renewing;
mod residency;
mod results;
mod retention;
mod runnable;
mod schedules;
mod services;
mod signals;
mod starting;
mod stop;
mod streams;
mod suspects;
mod telemetry;
mod watching;
