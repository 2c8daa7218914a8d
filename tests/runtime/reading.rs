//! BEHAVIOUR 42: status and history say what an instance is doing, without waking it.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Ctx, Happened, Result, Runtime, branch, ok, workflow};

use crate::kit::{everyone, fails, machine, naps, open};
use crate::machine::{crowds, settle};

#[tokio::test(start_paused = true)]
async fn a_description_says_what_is_waited_for_until_when() {
    let runtime = open().await;
    let start = runtime
        .start(naps, 60)
        .id("nap")
        .tag("room", "7")
        .version(2)
        .deadline("1h");
    let naps = start.await.unwrap();
    naps.reached(|status| status == Status::Sleeping).await.unwrap();
    let seen = naps.status().await.unwrap();
    assert_eq!((seen.workflow.as_str(), seen.version, seen.run), ("naps", 2, 1));
    assert_eq!((seen.status, seen.paused), (Status::Sleeping, false));
    assert_eq!(seen.deadline_at_ms, Some(seen.created_at_ms + 3_600_000));
    assert_eq!(seen.tags["room"], "7");
    let [current] = &seen.current[..] else {
        panic!("one thing is under way: {:?}", seen.current);
    };
    assert_eq!((current.path.as_str(), current.kind), ("nap", "sleep"));
    assert_eq!(current.until_ms, Some(seen.created_at_ms + 60_000));
    naps.result().await.unwrap();
    let seen = naps.status().await.unwrap();
    assert_eq!((seen.status, seen.last.as_deref()), (Status::Completed, Some("nap")));
    assert!(seen.current.is_empty());
}

#[workflow]
async fn busy(ctx: Ctx<Busy>) -> Result<u32> {
    let nap = |ctx: Ctx<Busy>| async move { ok(ctx.sleep("nap", "1s").await?) };
    ctx.join("joined", (branch("a", nap), branch("b", nap))).await?;
    let long = |ctx: Ctx<Busy>| async move { ok(ctx.sleep("long", "10d").await?) };
    ctx.race("raced", (branch("a", nap), branch("b", long))).await?;
    let rest = |ctx: Ctx<Busy>| async move { ok(ctx.sleep("rest", "1h").await?) };
    ctx.join("at last", (branch("a", nap), branch("b", rest))).await?;
    ok(1)
}

/// Found in review: a join that was over, a race that was won and what its losers waited for were listed as under way.
#[tokio::test(start_paused = true)]
async fn only_what_is_under_way_is_current() {
    let runtime = Runtime::builder()
        .workflow(busy)
        .open_simulated(machine())
        .await
        .unwrap();
    let started = runtime.start(busy, ()).await.unwrap();
    for _ in 0..10 {
        settle().await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    settle().await;
    let status = started.status().await.unwrap();
    let mut paths: Vec<_> = status.current.iter().map(|current| current.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["at last", "at last/b/rest"]);
}

/// Found in a review: an instance was pending for as long as its first step ran.
#[tokio::test(start_paused = true)]
async fn an_instance_runs_from_the_moment_it_is_begun_with() {
    let runtime = Runtime::builder().workflow(crowds);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let later = runtime.start(crowds, ()).after("1h").await.unwrap();
    let now = runtime.start(crowds, ()).await.unwrap();
    settle().await;
    assert_eq!(now.status().await.unwrap().status, Status::Running);
    assert_eq!(later.status().await.unwrap().status, Status::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_history_tells_the_attempts_and_the_life() {
    let runtime = open().await;
    let failed = runtime.start(fails, ()).await.unwrap();
    failed.reached(|status| status == Status::BackingOff).await.unwrap();
    assert_eq!(failed.status().await.unwrap().attempts, 1);
    failed.reached(Status::is_terminal).await.unwrap();
    let history = failed.history().await.unwrap();
    let attempts = history.at("charge").unwrap().attempts.as_ref();
    assert_eq!(
        attempts.map(|attempts| attempts.count),
        Some(1),
        "the last one is the step's own failure"
    );
    let told: Vec<_> = history.events().into_iter().map(|event| event.what).collect();
    let [
        Happened::Started,
        Happened::AttemptFailed { number: 1, .. },
        Happened::Retrying { .. },
        Happened::AttemptFailed { number: 2, .. },
        Happened::Failed(_),
        Happened::Ended(Status::Failed),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
}

/// A process that could not even run the instance reads it.
#[tokio::test(start_paused = true)]
async fn reading_activates_nothing() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let napping = runtime.start(naps, 60).id("nap").await.unwrap();
    napping.reached(|status| status == Status::Sleeping).await.unwrap();
    let before = napping.status().await.unwrap();
    runtime.stop().await;
    drop(napping);
    let runtime = Runtime::builder().open_simulated(machine).await.unwrap();
    let reader = runtime.instance("nap").unwrap();
    assert_eq!(reader.status().await.unwrap(), before);
    assert_eq!(reader.history().await.unwrap().entries.len(), 1);
    assert!(reader.query::<u32>("progress").await.unwrap().is_none());
    crate::kit::pass(Duration::from_secs(1)).await;
    assert_eq!(reader.status().await.unwrap(), before, "nothing of it was written");
}
