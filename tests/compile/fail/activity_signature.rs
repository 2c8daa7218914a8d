//! Functions that can't be activities.

use everstep::{Attempt, Result, activity, ok};

#[activity]
async fn no_result(amount: u32) -> u32 {
    amount
}

#[activity]
fn not_async(amount: u32) -> Result<u32> {
    ok(amount)
}

#[activity]
async fn two_inputs(attempt: Attempt, amount: u32, tip: u32) -> Result<u32> {
    ok(amount + tip)
}

#[activity]
async fn attempt_last(amount: u32, attempt: Attempt) -> Result<u32> {
    ok(amount)
}

#[activity]
async fn any_input(amount: impl Into<u32>) -> Result<u32> {
    ok(amount.into())
}

fn main() {}
