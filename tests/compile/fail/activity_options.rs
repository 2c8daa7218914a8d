//! Options of an activity that can't be meant.

use everstep::{Result, activity, ok};

#[activity(timeout = "half an hour")]
async fn no_number() -> Result<()> {
    ok(())
}

#[activity(delay = "5 parsecs")]
async fn no_unit() -> Result<()> {
    ok(())
}

#[activity(timeout = "200000w")]
async fn too_long() -> Result<()> {
    ok(())
}

#[activity(timeout = 30)]
async fn not_text() -> Result<()> {
    ok(())
}

#[activity(retries = -1)]
async fn negative() -> Result<()> {
    ok(())
}

#[activity(retries = 5000000000)]
async fn too_many() -> Result<()> {
    ok(())
}

#[activity(retry_on_timeout = true)]
async fn flag_with_value() -> Result<()> {
    ok(())
}

#[activity(backoff = "5s")]
async fn unknown() -> Result<()> {
    ok(())
}

fn main() {}
