//! What begins later: after a while, or when nobody has wanted something else for so long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Ctx, Existing, Result, Runtime, ok, workflow};
use futures_util::future::join_all;

use crate::kit::{after, echo, everyone, machine, naps, open, pass};
use crate::machine::{Machine, in_virtual_time};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_start_begins_after_a_while_and_not_before() {
    let runtime = open().await;
    let later = runtime.start(echo, 7).after("10m").await.unwrap();
    let at = runtime.start(echo, 8).at(after(MINUTE * 10)).await.unwrap();
    pass(MINUTE * 9).await;
    for started in [&later, &at] {
        assert_eq!(started.status().await.unwrap().status, Status::Pending);
    }
    pass(MINUTE * 2).await;
    assert_eq!(later.status().await.unwrap().status, Status::Completed);
    assert_eq!((later.result().await.unwrap(), at.result().await.unwrap()), (7, 8));
    let wrong = runtime.start(echo, 7).after("5 parsecs").await;
    assert_eq!(wrong.unwrap_err().code(), "ES0104");
    let soon = runtime.start(echo, 9).after("1d").at(after(MINUTE * 30)).await.unwrap();
    pass(MINUTE * 30).await;
    assert_eq!(
        soon.status().await.unwrap().status,
        Status::Completed,
        "said twice, the last holds"
    );
}

/// What it reads as the time, before it has seen anything.
#[workflow]
async fn reads(ctx: Ctx<Reads>) -> Result<u64> {
    let read = ctx.now().duration_since(after(Duration::ZERO))?.as_secs();
    ctx.step("a moment", || async { ok(()) }).await?;
    ok(read)
}

/// Found in review: every run read the time at which the instance had been created.
#[tokio::test(start_paused = true)]
async fn what_begins_later_reads_the_time_at_which_it_begins() {
    let runtime = everyone().workflow(reads).open_simulated(machine()).await.unwrap();
    let later = runtime.start(reads, ()).after("10m").id("later").await.unwrap();
    assert_eq!(later.result().await.unwrap(), 600);
    let late = runtime.start(reads, ()).at(after(MINUTE)).await.unwrap();
    assert_eq!(
        late.result().await.unwrap(),
        600,
        "a time that is over is as good as now"
    );
    pass(MINUTE * 10).await;
    let again = runtime.start(reads, ()).id("later").if_exists(Existing::NewRun);
    assert_eq!(again.await.unwrap().result().await.unwrap(), 1200);
    pass(MINUTE * 10).await;
    later.reset("a moment").await.unwrap();
    assert_eq!(
        later.result().await.unwrap(),
        1800,
        "nothing is left of what it had seen"
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_start_with_a_key_replaces_the_one_that_waits() {
    let runtime = open().await;
    let wanted = |number| runtime.debounce("document", "10m").starts(echo, number);
    let first = wanted(1).await.unwrap();
    assert!(!first.replaced());
    pass(MINUTE * 9).await;
    let second = wanted(2).await.unwrap();
    assert!(second.replaced() && second.id() == first.id());
    pass(MINUTE * 9).await;
    assert_eq!(
        runtime.list().count().await.unwrap(),
        0,
        "the time begins anew with each"
    );
    pass(MINUTE * 2).await;
    assert_eq!(
        second.begun().await.unwrap().result().await.unwrap(),
        2,
        "the input of the last"
    );
    let third = wanted(3).await.unwrap();
    assert!(
        !third.replaced() && third.id() != first.id(),
        "what has begun is not replaced"
    );
    assert_eq!(third.begun().await.unwrap().result().await.unwrap(), 3);
    assert_eq!(runtime.list().count().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_many_starts_at_once_one_becomes_an_instance() {
    let runtime = open().await;
    let starts = (0..100).map(|number| runtime.debounce("k", "1m").starts(echo, number).into_future());
    let started: Vec<_> = join_all(starts)
        .await
        .into_iter()
        .map(std::result::Result::unwrap)
        .collect();
    assert_eq!(started.iter().filter(|one| !one.replaced()).count(), 1);
    assert!(started.iter().all(|one| one.id() == started[0].id()));
    let other = runtime.debounce("k", "1m").starts(naps, 1).await.unwrap();
    assert!(!other.replaced(), "a key is one of its workflow");
    pass(MINUTE * 2).await;
    assert_eq!(runtime.list().workflow("echo").count().await.unwrap(), 1);
    assert_eq!(runtime.list().workflow("naps").count().await.unwrap(), 1);
}

/// Somebody who never stops wanting does not put it off for ever.
#[tokio::test(start_paused = true)]
async fn a_start_can_be_put_off_only_for_so_long() {
    let runtime = open().await;
    let mut last = None;
    for number in 0..12 {
        let wanted = runtime.debounce("k", "10m").starts(echo, number).within("30m");
        last = Some(wanted.await.unwrap());
        pass(MINUTE * 5).await;
    }
    assert!(
        runtime.list().count().await.unwrap() >= 1,
        "an hour is more than half of one"
    );
    let first = runtime.list().oldest_first().await.unwrap().rows[0].clone();
    assert!(first.created_at_ms <= 1_893_456_000_000 + 30 * 60_000 + 1000);
    last.unwrap().begun().await.unwrap().result().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_can_be_taken_back() {
    let runtime = open().await;
    let wanted = runtime.debounce("k", "10m").starts(echo, 1).await.unwrap();
    assert!(wanted.cancel("not any more").await.unwrap().is_done());
    pass(MINUTE * 20).await;
    assert_eq!(runtime.list().count().await.unwrap(), 0);
    let again = runtime.debounce("k", "10m").starts(echo, 2).await.unwrap();
    assert!(!again.replaced());
    assert_eq!(again.begun().await.unwrap().result().await.unwrap(), 2);
}

/// Found in a review: whoever waited for a start that was taken back waited for ever.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_start_is_told_that_it_was_taken_back() {
    let runtime = open().await;
    let wanted = runtime.debounce("k", "10m").starts(echo, 1).await.unwrap();
    let late = wanted.begun().timeout("1m").await.unwrap_err();
    assert_eq!(late.code(), "ES0410");
    let (begun, cancelled) = tokio::join!(
        wanted.begun().into_future(),
        wanted.cancel("not any more").into_future()
    );
    assert!(cancelled.unwrap().is_done());
    assert_eq!(
        begun.unwrap_err().to_string(),
        "the instance was cancelled: not any more"
    );
    // Also when another one waits by now.
    let next = runtime.debounce("k", "10m").starts(echo, 2).await.unwrap();
    let taken_back = wanted.begun().await.unwrap_err();
    assert_eq!(taken_back.code(), "ES0402");
    assert_eq!(next.begun().await.unwrap().result().await.unwrap(), 2);
    runtime.debounce("k", "10m").starts(echo, 3).await.unwrap();
    assert_eq!(next.begun().await.unwrap().result().await.unwrap(), 2, "it has begun");
}

#[tokio::test(start_paused = true)]
async fn what_waits_survives_a_restart() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let before = runtime.debounce("k", "10m").starts(echo, 1).await.unwrap().id().clone();
    runtime
        .debounce("k", "10m")
        .starts(echo, 2)
        .tag("shop", "paris")
        .await
        .unwrap();
    runtime.stop().await;
    drop(runtime);
    let runtime = everyone().open_simulated(machine).await.unwrap();
    pass(MINUTE).await;
    let third = runtime
        .debounce("k", "10m")
        .starts(echo, 3)
        .tag("shop", "rome")
        .await
        .unwrap();
    assert!(third.replaced() && *third.id() == before);
    pass(MINUTE * 11).await;
    let handle = runtime.handle(echo, before.as_str()).unwrap();
    assert_eq!(handle.result().await.unwrap(), 3);
    assert_eq!(handle.status().await.unwrap().tags["shop"], "rome");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_start_is_said_before_anything_is_written() {
    let runtime = open().await;
    let debounced = runtime.debounce("k", "5 parsecs").starts(echo, 1).await;
    assert_eq!(debounced.unwrap_err().code(), "ES0104");
    let debounced = runtime.debounce("k", "5m").starts(stranger, ()).await;
    assert_eq!(debounced.unwrap_err().code(), "ES0405");
    assert_eq!(runtime.list().workflow("__debounce").count().await.unwrap(), 0);
}

#[workflow]
async fn stranger(_ctx: Ctx<Stranger>) -> Result<()> {
    ok(())
}

/// FAULTS 23 to 25 for what begins later: the clock is set, the process is gone, and it begins once.
#[test]
fn a_start_that_came_due_meanwhile_begins_once() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default()).await;
        runtime.start(naps, 5).id("a").after("10m").await.unwrap();
        let wanted = runtime.debounce("k", "10m").starts(naps, 6).await.unwrap().id().clone();
        drop(runtime);
        machine.clock.jump(MINUTE * 60, false);
        let runtime: Runtime = machine.open(everyone(), Config::default()).await;
        pass(MINUTE).await;
        machine.clock.jump(MINUTE * 60, true);
        pass(MINUTE * 120).await;
        for (id, seconds) in [("a", 5), (wanted.as_str(), 6)] {
            let handle = runtime.handle(naps, id).unwrap();
            assert_eq!(handle.result().await.unwrap(), seconds);
            assert_eq!(handle.status().await.unwrap().run, 1);
        }
        let again = runtime
            .start(naps, 5)
            .id("a")
            .if_exists(Existing::Return)
            .await
            .unwrap();
        assert!(again.existed());
        assert_eq!(runtime.list().count().await.unwrap(), 2);
    });
}

/// A step that never comes to its end when it is made first.
#[workflow]
async fn stalls(ctx: Ctx<Stalls>) -> Result<u32> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let work = || async {
        let before = MADE.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            std::future::pending::<()>().await;
        }
        ok(before)
    };
    ok(ctx.step("work", work).await?)
}

/// FAULTS 2: the process dies in the first step of an instance that began later than it was started. Found by the
/// simulation: what has to run after a restart has a row that says so. What is to begin later has none, as its alarm wakes
/// it, and it was given none when it began either: nobody ever made its step again.
#[test]
fn what_began_later_goes_on_after_a_restart() {
    in_virtual_time(async {
        let machine = Machine::new();
        let builder = || everyone().workflow(stalls);
        let runtime = machine.open(builder(), Config::default()).await;
        runtime.start(stalls, ()).id("a").after("10m").await.unwrap();
        pass(MINUTE * 11).await;
        drop(runtime);
        let runtime: Runtime = machine.open(builder(), Config::default()).await;
        pass(MINUTE).await;
        let handle = runtime.handle(stalls, "a").unwrap();
        assert_eq!(handle.status().await.unwrap().status, Status::Completed);
        assert_eq!(handle.result().await.unwrap(), 1);
    });
}
