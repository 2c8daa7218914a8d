//! Events in a real runtime: what a topic leaves in the store, and who has an event for one. BEHAVIOUR 37.

use std::ops::ControlFlow;
use std::time::Duration;

use everstep::storage::engine::{Direction, Scan};
use everstep::storage::key::Key;
use everstep::{Config, Ctx, Message, Result, Runtime, Sent, Shard, Simulated, ok, workflow};
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};

use crate::kit::{everyone, machine, pass};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang(u64);

/// Looks an hour after it began at what came meanwhile.
#[workflow]
async fn looks_late(ctx: Ctx<LooksLate>) -> Result<u64> {
    let mut wait = Box::pin(ctx.wait_event::<Rang>());
    let tick = select(wait.as_mut(), ctx.sleep("tick", "1s")).await;
    assert!(matches!(tick, Either::Right(_)));
    ctx.sleep("work", "1h").await?;
    ok(wait.await?.0)
}

#[workflow]
async fn listens(ctx: Ctx<Listens>) -> Result<u64> {
    ok(ctx.wait_event::<Rang>().await?.0)
}

/// An instance and its topic lie in different ones, mostly.
const SHARDS: u16 = 4;

async fn open(machine: Simulated) -> Runtime {
    let builder = everyone().workflow(looks_late).workflow(listens);
    let builder = builder.config(Config::default().shards(SHARDS));
    builder.open_simulated(machine).await.unwrap()
}

/// An event that its holder never looked at goes to the next one when the holder is terminated. If that one goes on
/// afterwards, it does not have it.
#[tokio::test(start_paused = true)]
async fn who_is_terminated_and_goes_on_has_not_what_went_to_another() {
    let runtime = open(machine()).await;
    let first = runtime.start(looks_late, ()).id("first").await.unwrap();
    pass(Duration::from_secs(10)).await;
    runtime.publish(Rang(1)).to_one().await.unwrap();
    pass(Duration::from_secs(10)).await;
    let second = runtime.start(listens, ()).id("second").await.unwrap();
    first.terminate("enough").await.unwrap();
    assert_eq!(second.result().await.unwrap(), 1);
    assert!(first.retry().await.unwrap().is_done());
    pass(Duration::from_secs(10)).await;
    runtime.publish(Rang(2)).to_one().await.unwrap();
    assert_eq!(first.result().await.unwrap(), 2);
}

/// One that is paused has its event all the same when it goes on.
#[tokio::test(start_paused = true)]
async fn who_is_paused_has_its_event_afterwards() {
    let runtime = open(machine()).await;
    let first = runtime.start(looks_late, ()).id("first").await.unwrap();
    pass(Duration::from_secs(10)).await;
    first.pause().await.unwrap();
    pass(Duration::from_secs(10)).await;
    runtime.publish(Rang(1)).to_one().keep("1m").await.unwrap();
    pass(Duration::from_secs(10 * 3600)).await;
    first.resume().await.unwrap();
    assert_eq!(first.result().await.unwrap(), 1);
}

/// Rows by which the topic knows what it was told before.
fn remembered(machine: &Simulated) -> usize {
    let scan = Scan {
        start: &[],
        end: &[0xff; 8],
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    let mut found = 0;
    for shard in (0..SHARDS).map(Shard) {
        let counting = machine.engine.snapshot(shard).unwrap().scan(&scan, &mut |key, _| {
            if let Ok(Key::Dedup(at, instance, _)) = Key::unpack(key) {
                found += usize::from(at == shard && instance.starts_with("__topic"));
            }
            ControlFlow::Continue(())
        });
        counting.unwrap();
    }
    found
}

/// Found in review: a topic never ends, and each event left rows in it for ever.
#[tokio::test(start_paused = true)]
async fn a_topic_is_as_small_after_many_events_as_after_few() {
    let machine = machine();
    let runtime = open(machine.clone()).await;
    for number in 0..100 {
        let listens = runtime.start(listens, ()).id(format!("l{number}")).await.unwrap();
        runtime.publish(Rang(number)).to_one().await.unwrap();
        assert_eq!(listens.result().await.unwrap(), number);
    }
    pass(Duration::from_secs(60)).await;
    assert_eq!(remembered(&machine), 0);
    // An event that can come again is known again.
    for sent in [Sent::Accepted, Sent::Duplicate] {
        assert_eq!(runtime.publish(Rang(7)).id("seven").await.unwrap(), sent);
    }
    assert_eq!(remembered(&machine), 1);
}
