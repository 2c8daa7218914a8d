//! The kit that users test with: what it runs, what it finds, and what it says when it finds it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod assertions;
mod crashes;
mod determinism;
mod mocks;
mod order_saga;
mod recorded;
mod relations;
mod time;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What something says when it panics.
fn report<T>(fails: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(fails)) else {
        panic!("it was to panic");
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap()
}

/// Expects a report to say all of these.
fn assert_says(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "it does not say {part:?}:\n{report}");
    }
}
