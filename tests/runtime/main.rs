//! What a runtime promises to those who hold its handles, and what keeps it running. One file for each promise.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod admission;
mod alarms;
mod batches;
mod blocking;
mod bounds;
mod costs;
mod crash;
mod delays;
mod gates;
mod holds;
mod inbox;
mod kit;
mod listing;
mod looping;
mod machine;
mod messages;
mod named;
mod observers;
mod operations;
mod pairs;
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
mod starting;
mod stop;
mod streams;
mod telemetry;
mod watching;
mod year_of_slots;
