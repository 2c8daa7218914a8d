//! What the executor does for its tasks is no wait of the workflow function: what parts of a function tell each other
//! comes through, and comes through again in replay.

use std::time::Duration;

use everstep::{Config, Ctx, Result, ok, workflow};
use tokio::sync::mpsc::unbounded_channel;

use crate::kit::{Word, everyone, machine, pass};

/// A part that does steps tells another part of each, and both wait for a word at the end.
#[workflow(accepts(Word))]
async fn tells(ctx: Ctx<Tells>, times: u64) -> Result<u64> {
    let (send, mut receive) = unbounded_channel();
    let telling = async move {
        for number in 0..times {
            let done = ctx.step(&format!("step {number}"), move || async move { ok(number) });
            send.send(done.await?).ok();
        }
        ok(ctx.receive::<Word>().await?)
    };
    let hearing = async move {
        let mut heard = 0;
        while receive.recv().await.is_some() {
            heard += 1;
        }
        ok(heard)
    };
    let (_, heard) = futures_util::try_join!(telling, hearing)?;
    ok(heard)
}

/// Found in review: a task of tokio has a budget of 128 operations, and what is awaited past it is not ready at once.
/// Live, each step was a poll with a budget of its own. Replay is one poll: the function seemed to wait for something
/// from outside, and the instance failed for good.
#[tokio::test(start_paused = true)]
async fn parts_may_tell_each_other_more_than_a_task_has_budget_for() {
    for idle in [Duration::from_secs(3600), Duration::ZERO] {
        let config = Config::default().idle(idle);
        let builder = everyone().workflow(tells).config(config);
        let runtime = builder.open_simulated(machine()).await.unwrap();
        let tells = runtime.start(tells, 300).await.unwrap();
        pass(Duration::from_secs(60)).await;
        tells.send(Word(1)).await.unwrap();
        let result = tells.result().timeout("1m").await;
        assert_eq!(result.unwrap(), 300, "idle for {idle:?}");
        runtime.stop().await;
    }
}

#[workflow(accepts(Word))]
async fn yields(ctx: Ctx<Yields>, times: u64) -> Result<u64> {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
    ctx.step("step", || async { ok(()) }).await?;
    tokio::task::yield_now().await;
    ok(ctx.receive::<Word>().await?.0)
}

/// Found in review: what yields is woken after the poll, which was taken for something from outside.
#[tokio::test(start_paused = true)]
async fn a_function_that_waits_for_nothing_else_may_yield() {
    for idle in [Duration::from_secs(3600), Duration::ZERO] {
        let builder = everyone().workflow(yields).config(Config::default().idle(idle));
        let runtime = builder.open_simulated(machine()).await.unwrap();
        let yields = runtime.start(yields, 500).await.unwrap();
        pass(Duration::from_secs(60)).await;
        yields.send(Word(7)).await.unwrap();
        let result = yields.result().timeout("1m").await;
        assert_eq!(result.unwrap(), 7, "idle for {idle:?}");
        runtime.stop().await;
    }
}

#[workflow]
async fn yields_beside(ctx: Ctx<YieldsBeside>) -> Result<u64> {
    let (napped, ()) = tokio::join!(ctx.sleep("nap", "1m"), tokio::task::yield_now());
    napped?;
    ok(1)
}

#[tokio::test(start_paused = true)]
async fn a_function_that_yields_beside_an_operation_is_told_so() {
    let runtime = everyone()
        .workflow(yields_beside)
        .open_simulated(machine())
        .await
        .unwrap();
    let refused = runtime.start(yields_beside, ()).await.unwrap().result().await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("`yield_now` beside an operation"), "{refused}");
    runtime.stop().await;
}
