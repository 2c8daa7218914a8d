//! Functions that can't be workflows.

use everstep::{Ctx, Result, ok, workflow};

#[workflow]
async fn generic<T>(ctx: Ctx<Generic>, input: T) -> Result<()> {
    ok(())
}

#[workflow]
async fn returns_nothing(ctx: Ctx<ReturnsNothing>) {}

#[workflow]
async fn returns_no_result(ctx: Ctx<ReturnsNoResult>) -> u32 {
    1
}

#[workflow]
async extern "C" fn foreign(ctx: Ctx<Foreign>) -> Result<()> {
    ok(())
}

#[workflow]
async fn Shouting(ctx: Ctx<Shouting>) -> Result<()> {
    ok(())
}

#[workflow]
struct NoFunction;

fn main() {}
