//! Ten thousand at a hundred gates, one of each at a time.

use std::sync::atomic::Ordering;

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::bystander::{SERVED, serve, served};
use crate::ground::{carries, each, size, small, until};

const GATES: u64 = 100;

/// What may be kept in memory of each who waits at a gate: nothing, but for what a table of those who come and go grows by.
const WAITER_BYTES: usize = 256;

#[workflow]
async fn takes_its_turn(ctx: Ctx<TakesItsTurn>) -> Result<()> {
    ctx.step("serve", serve).await?;
    ok(())
}

#[test]
fn ten_thousand_wait_at_a_hundred_gates_and_cost_no_memory() {
    carries(
        "instances at gates",
        size(1_000, 10_000),
        WAITER_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let runtime = ground.open(Runtime::builder().workflow(takes_its_turn), small()).await;
            each(many, async |number| {
                let starting = runtime.start(takes_its_turn, ()).id(format!("t{number}"));
                drop(starting.at_most(1, format!("gate-{}", number % GATES)).await.unwrap());
            })
            .await;
            until(|| served() == many).await;
        },
    );
}
