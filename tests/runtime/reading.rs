//! BEHAVIOUR 42: status and history say what an instance is doing, without waking it.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Attempt, Config, Ctx, Happened, Result, Runtime, Watched, branch, ok, workflow};

use crate::kit::{Word, everyone, fails, machine, naps, open, waits};
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

/// Found in an audit: while its first step ran, an instance was running for those who asked for its status and pending for
/// those who waited for it, watched it or listed it. `reached` waited for the end of the step.
#[tokio::test(start_paused = true)]
async fn everybody_is_told_the_same_of_an_instance_that_has_just_begun() {
    let runtime = Runtime::builder().workflow(crowds);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let mut all = runtime.watch();
    let later = runtime.start(crowds, ()).after("1h").await.unwrap();
    let now = runtime.start(crowds, ()).await.unwrap();
    let running = now.reached(|status| status == Status::Running);
    let running = tokio::time::timeout(Duration::from_secs(1), running).await;
    assert_eq!(running.expect("it runs").unwrap(), Status::Running);
    assert_eq!(now.status().await.unwrap().status, Status::Running);
    assert_eq!(now.watch().next().await.unwrap().unwrap().status, Some(Status::Running));
    let told = async {
        loop {
            match all.next().await.unwrap() {
                Some(Watched::Changed(change)) if change.status == Some(Status::Running) => return change.id,
                told => assert!(told.is_some(), "it goes on"),
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(1), told).await;
    assert_eq!(told.expect("it is told"), *now.id());
    let listed = runtime.list().status(Status::Running).await.unwrap();
    let listed: Vec<_> = listed.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(listed, [now.id().as_str()]);
    assert_eq!(later.status().await.unwrap().status, Status::Pending);
    assert_eq!(runtime.list().status(Status::Pending).count().await.unwrap(), 1);
}

/// One that begins later is brought into memory by a message, to be told that it is not its turn: it does not run then.
#[tokio::test(start_paused = true)]
async fn who_begins_later_does_not_run_before() {
    let runtime = open().await;
    let later = runtime.start(waits, 1).after("1h").await.unwrap();
    let mut was_resident = false;
    for number in 0..50 {
        if number == 10 {
            later.send(Word(1)).await.unwrap();
        }
        was_resident |= runtime.stats().residents > 0;
        assert_eq!(later.status().await.unwrap().status, Status::Pending);
        tokio::task::yield_now().await;
    }
    assert!(was_resident, "it was looked at");
    assert_eq!(later.result().await.unwrap(), [1]);
}

#[workflow]
async fn takes_a_minute(ctx: Ctx<TakesAMinute>) -> Result<()> {
    let work = || async {
        crate::kit::pass(Duration::from_secs(60)).await;
        ok(())
    };
    ok(ctx.step("work", work).await?)
}

/// Whoever waits until an instance runs is told when it is let in, although nothing is stored of that.
#[tokio::test(start_paused = true)]
async fn who_waits_until_it_runs_is_told_when_it_is_let_in() {
    let builder = Runtime::builder().workflow(crowds).workflow(takes_a_minute);
    let builder = builder.config(Config::default().residents_max(1));
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let first = runtime.start(takes_a_minute, ()).await.unwrap();
    settle().await;
    let second = runtime.start(crowds, ()).await.unwrap();
    let runs = async {
        tokio::time::timeout(
            Duration::from_secs(600),
            second.reached(|status| status == Status::Running),
        )
        .await
    };
    let (ended, running) = tokio::join!(first.result().into_future(), runs);
    ended.unwrap();
    assert_eq!(running.expect("it is told").unwrap(), Status::Running);
}

/// BEHAVIOUR 42, found in an audit: a plain wait for a message and a step that ran for the first time were nowhere, as
/// nothing is recorded of them. Whoever has the instance in memory knows.
#[tokio::test(start_paused = true)]
async fn what_is_not_recorded_is_told_while_it_is_in_memory() {
    let runtime = everyone().workflow(crowds);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let current = async |id: &str| {
        let seen = runtime.instance(id).unwrap().status().await.unwrap();
        let current = seen.current.into_iter();
        current
            .map(|current| (current.path, current.kind, current.until_ms))
            .collect::<Vec<_>>()
    };
    runtime.start(crowds, ()).id("works").await.unwrap();
    let listens = runtime.start(waits, 2).id("listens").await.unwrap();
    runtime.start(naps, 60).id("nap").await.unwrap();
    settle().await;
    assert_eq!(current("works").await, [("for ever".to_owned(), "step", None)]);
    assert_eq!(current("listens").await, [("Word~0".to_owned(), "receive", None)]);
    let naps = current("nap").await;
    assert_eq!(naps.len(), 1, "what is recorded is told once: {naps:?}");
    assert!(naps[0].2.is_some(), "with its time: {naps:?}");
    listens.send(Word(1)).await.unwrap();
    settle().await;
    assert_eq!(current("listens").await, [("Word~1".to_owned(), "receive", None)]);
    // Nothing was written for it: once it has left memory only what is recorded is known.
    crate::kit::pass(Duration::from_secs(30)).await;
    assert_eq!(current("listens").await, []);
    let seen = listens.status().await.unwrap();
    assert_eq!((seen.status, seen.last.as_deref()), (Status::Waiting, Some("Word~0")));
    listens.send(Word(2)).await.unwrap();
    listens.result().await.unwrap();
    assert_eq!(current("listens").await, []);
}

/// Fails twice, and sleeps then.
#[workflow]
async fn at_last(ctx: Ctx<AtLast>) -> Result<()> {
    let work = |attempt: Attempt| async move {
        everstep::ensure!(attempt.number() > 2, "not yet");
        ok(())
    };
    ctx.step("work", work).delay("10s").await?;
    ctx.sleep("nap", "1m").await?;
    ctx.sleep("another", "1m").await?;
    ok(())
}

/// Found in an audit: of a life that was over, the waits for the first attempts and all sleeps were gone, and what was
/// waited for had begun at the time of whatever had been told before it.
#[tokio::test(start_paused = true)]
async fn a_life_that_is_over_is_told_with_its_waits() {
    let runtime = Runtime::builder().workflow(at_last);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let instance = runtime.start(at_last, ()).await.unwrap();
    instance.result().await.unwrap();
    let begun = instance.status().await.unwrap().created_at_ms;
    let history = instance.history().await.unwrap();
    let worked = history.at("work").unwrap().completed.unwrap().at_ms;
    let failed = &history.at("work").unwrap().attempts.as_ref().unwrap().failed;
    assert_eq!((failed.len(), failed[0].started_at_ms), (2, begun));
    let told: Vec<_> = history.events();
    let waits: Vec<_> = told
        .iter()
        .filter_map(|event| match event.what {
            Happened::Retrying { at_ms } => Some((event.at_ms, event.path.as_str(), at_ms)),
            Happened::Sleeping { until_ms } => Some((event.at_ms, event.path.as_str(), until_ms)),
            _ => None,
        })
        .collect();
    let expected = [
        (begun, "work", failed[1].started_at_ms),
        (failed[1].started_at_ms, "work", worked),
        (worked, "nap", worked + 60_000),
        (worked + 60_000, "another", worked + 120_000),
    ];
    assert_eq!(waits, expected);
}
