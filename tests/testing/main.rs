//! The kit that users test with: what it runs, what it finds, and what it says when it finds it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod assertions;
mod crashes;
mod determinism;
#[rustfmt::skip]
mod first_test;
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

/// Found by a user: the first test of the guide did not compile when it was copied. It is now one of ours, word by word.
#[test]
fn the_first_test_of_the_guide_is_one_of_these() {
    let ours = include_str!("first_test.rs");
    let (_, ours) = ours.split_once("\n\n").unwrap();
    let guide = include_str!("../../docs/TESTING.md");
    let (_, guide) = guide.split_once("## The first test").unwrap();
    let (_, guide) = guide.split_once("```rust\n").unwrap();
    assert_eq!(guide.split_once("```").unwrap().0, ours);
}
