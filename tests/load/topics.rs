//! A topic with ten thousand who wait for it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::bystander::{SERVED, serve, served};
use crate::ground::{carries, each, pass, size, small};

/// What the topic keeps of each who waits, in memory while it works.
const WAITER_BYTES: usize = 1024;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang(u64);

#[workflow]
async fn waits(ctx: Ctx<Waits>) -> Result<u64> {
    let Rang(number) = ctx.wait_event::<Rang>().await?;
    ctx.step("serve", serve).await?;
    ok(number)
}

#[test]
fn ten_thousand_hear_of_one_event() {
    carries(
        "waiters, one event",
        size(1_000, 10_000),
        WAITER_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let runtime = ground.open(Runtime::builder().workflow(waits), small()).await;
            each(many, async |_| drop(runtime.start(waits, ()).await.unwrap())).await;
            pass(Duration::from_secs(60)).await;
            assert_eq!(served(), 0);
            runtime.publish(Rang(7)).await.unwrap();
            pass(Duration::from_secs(60)).await;
            assert_eq!(served(), many);
        },
    );
}

#[test]
fn ten_thousand_get_an_event_each() {
    carries(
        "waiters, an event for each",
        size(1_000, 10_000),
        WAITER_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let runtime = ground.open(Runtime::builder().workflow(waits), small()).await;
            each(many, async |number| {
                drop(runtime.start(waits, ()).id(format!("w{number}")).await.unwrap());
            })
            .await;
            pass(Duration::from_secs(60)).await;
            each(many, async |number| {
                runtime.publish(Rang(number)).to_one().await.unwrap();
            })
            .await;
            pass(Duration::from_secs(60)).await;
            assert_eq!(served(), many);
            let mut sum = 0;
            for number in 0..many {
                let waits = runtime.handle(waits, &format!("w{number}")).unwrap();
                sum += waits.result().await.unwrap();
            }
            assert_eq!(sum, many * (many - 1) / 2, "each another one");
        },
    );
}
