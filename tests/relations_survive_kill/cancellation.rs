//! A tree of a thousand is cancelled, and the process dies in the middle of that: everyone hears of it.

use std::future::IntoFuture;
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Ctx, Message, Result, Runtime, ok, workflow};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::day;
use crate::life::{self, Life};

const TEST: &str = "cancellation::a_killed_cancellation_reaches_everyone";

/// Leaves of the root itself: more than one row of its outbox tells of. And limbs of the root, with leaves of their own.
const OWN: usize = 500;
const LIMBS: usize = 5;
const EACH: usize = 100;
const EVERYONE: usize = 1 + OWN + LIMBS + LIMBS * EACH;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Go;

/// Waits for what never comes.
#[workflow(accepts(Go))]
async fn leaf(ctx: Ctx<Leaf>) -> Result<()> {
    let waited = ctx.receive::<Go>().await;
    if waited.is_err() {
        life::pass("heard");
    }
    waited?;
    ok(())
}

#[workflow]
async fn limb(ctx: Ctx<Limb>, (limbs, leaves): (usize, usize)) -> Result<()> {
    let limbs = (0..limbs).map(|_| ctx.child(limb, (0, EACH)).into_future());
    let limbs: Vec<_> = limbs.collect();
    let leaves = (0..leaves).map(|_| ctx.child(leaf, ()).into_future());
    let (limbs, leaves) = (try_join_all(limbs), try_join_all(leaves));
    futures_util::try_join!(limbs, leaves)?;
    ok(())
}

async fn count(runtime: &Runtime, status: Status) -> usize {
    let count = runtime.list().status(status).count().await.unwrap();
    usize::try_from(count).unwrap()
}

async fn live(life: Life) {
    let first = life.number == 0;
    if !first {
        life.arm();
    }
    let builder = Runtime::builder().workflow(limb).workflow(leaf);
    // Few at once, so that they end in many commits.
    let config = Config::default().residents_max(50);
    let runtime = life.open(builder, config, |_| true).await;
    crate::process::say(&count(&runtime, Status::Cancelled).await.to_string());
    life::is_sound(&runtime);
    let root = runtime.start(limb, (LIMBS, OWN)).id("root").await.unwrap();
    if first {
        while count(&runtime, Status::Waiting).await < EVERYONE {
            day::pass(Duration::from_secs(600)).await;
        }
        life.arm();
    }
    root.cancel("enough").await.unwrap();
    root.result().await.unwrap_err();
    while count(&runtime, Status::Cancelled).await < EVERYONE {
        day::pass(Duration::from_secs(600)).await;
    }
    life::is_sound(&runtime);
    crate::process::say(&count(&runtime, Status::Cancelled).await.to_string());
}

/// FAULTS 58.
#[test]
fn a_killed_cancellation_reaches_everyone() {
    if Life::play(live) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // When the root was asked and has not looked; around its end; while those below it are told, and while they end.
    let places = [
        "after 1",
        "before 1",
        "after 1",
        "before 2",
        "after 2",
        "heard 1",
        "heard 200",
        "before 3",
        "heard 300",
        "after 4",
    ];
    let said = life::lives(TEST, &directory.path().join("store"), &places);
    let said: Vec<usize> = said.concat().iter().map(|line| line.parse().unwrap()).collect();
    assert!(said.is_sorted(), "nobody comes back: {said:?}");
    let among = said.iter().filter(|cancelled| (1..EVERYONE).contains(*cancelled));
    assert!(among.count() >= 4, "it died in the middle: {said:?}");
    assert_eq!(said.last(), Some(&EVERYONE));
}
