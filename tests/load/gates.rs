//! Ten thousand at a hundred gates, one of each at a time.

use std::sync::atomic::Ordering;

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::bystander::{SERVED, serve, served};
use crate::ground::{carries, each, size, small, until};

const GATES: u64 = 100;

/// What may be kept in memory of each who waits at a gate: nothing, but for what a table of those who come and go grows by.
const WAITER_BYTES: usize = 256;

/// What a parent may hold for a child: its entry in the history, its future, its outcome.
const CHILD_BYTES: usize = 4 * 1024;

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

/// Starts as many children as there are, each with one of the keys, and waits for all of them.
#[workflow]
async fn fans_out(ctx: Ctx<FansOut>, many: u64) -> Result<u64> {
    let mut children = Vec::new();
    for number in 0..many {
        let child = ctx.child(takes_its_turn, ());
        children.push(child.at_most(1, format!("gate-{}", number % GATES)).start().await?);
    }
    for child in children {
        child.await?;
    }
    ok(many)
}

#[test]
fn ten_thousand_children_wait_at_a_hundred_gates() {
    carries(
        "children at gates",
        size(1_000, 10_000),
        CHILD_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let builder = Runtime::builder().workflow(takes_its_turn).workflow(fans_out);
            let runtime = ground.open(builder, small().shards(4)).await;
            let parent = runtime.start(fans_out, many).await.unwrap();
            assert_eq!(parent.result().await.unwrap(), many);
            assert_eq!(served(), many);
        },
    );
}
