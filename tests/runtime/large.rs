//! Futures that are two megabytes large fit on the threads of a runtime. A stack that overflows ends the process: these
//! tests then end with a signal.

use std::hint::black_box;

use everstep::{Activity, Attempt, Ctx, Error, Result, Runtime, Workflow, WorkflowError, activity, ok, workflow};

const LARGE: usize = 2 * 1024 * 1024;

/// Keeps that much in its future.
async fn holds() -> Result<usize> {
    let held = black_box([1_u8; LARGE]);
    tokio::task::yield_now().await;
    ok(black_box(&held).len())
}

#[workflow]
async fn holds_itself(ctx: Ctx<HoldsItself>) -> Result<usize> {
    let held = black_box([1_u8; LARGE]);
    ctx.sleep("nap", "1ms").await?;
    ok(black_box(&held).len())
}

struct ByHand;

impl Workflow for ByHand {
    const NAME: &'static str = "by hand";
    type Input = ();
    type Output = usize;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<usize> {
        let held = black_box([1_u8; LARGE]);
        ctx.sleep("nap", "1ms").await?;
        ok(black_box(&held).len())
    }
}

#[activity]
async fn holding() -> Result<usize> {
    let held = black_box([1_u8; LARGE]);
    tokio::task::yield_now().await;
    ok(black_box(&held).len())
}

struct HoldingByHand;

impl Activity for HoldingByHand {
    const NAME: &'static str = "holding by hand";
    type Input = ();
    type Output = usize;

    async fn run(_: Attempt, (): ()) -> Result<usize> {
        let held = black_box([1_u8; LARGE]);
        tokio::task::yield_now().await;
        ok(black_box(&held).len())
    }
}

#[workflow]
async fn steps_that_hold(ctx: Ctx<StepsThatHold>) -> Result<usize> {
    let sum = ctx.step("plain", holds).await?
        + ctx.step("with an attempt", |_: Attempt| holds()).await?
        + ctx.run(holding, ()).await?
        + ctx.run(HoldingByHand, ()).await?;
    let undone = ctx.step("undone", || async { ok(()) });
    undone.rollback(|(): ()| holds()).await?;
    Err(WorkflowError::msg(sum.to_string()))
}

/// Found in review: futures were handed from function to function by value before they had a place of their own, a copy
/// on the stack for each. A workflow of 500 KB ended the process, as did a step of 300 KB.
#[tokio::test]
async fn a_large_workflow_does_not_overflow_the_stack() {
    let builder = Runtime::builder().workflow(holds_itself).workflow(ByHand);
    let runtime = builder.open("memory:").await.unwrap();
    assert_eq!(
        runtime.start(holds_itself, ()).await.unwrap().result().await.unwrap(),
        LARGE
    );
    assert_eq!(runtime.start(ByHand, ()).await.unwrap().result().await.unwrap(), LARGE);
}

#[tokio::test]
async fn a_large_attempt_does_not_overflow_the_stack() {
    let builder = Runtime::builder()
        .workflow(steps_that_hold)
        .activity(holding)
        .activity(HoldingByHand);
    let runtime = builder.open("memory:").await.unwrap();
    let failed = runtime.start(steps_that_hold, ()).await.unwrap().result().await;
    let Err(Error::Failed(failure)) = failed else {
        panic!("it fails with what its steps hold: {failed:?}");
    };
    assert_eq!(failure.message, (4 * LARGE).to_string());
}
