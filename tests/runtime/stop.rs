//! Stopping, and what is left afterwards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::{Attempt, Config, Crowded, Ctx, Every, Result, Runtime, Status, ok, workflow};

use crate::kit::{Word, echo, everyone, machine, waits};
use crate::machine::{Machine, in_virtual_time, settle};

static CALLS: AtomicU32 = AtomicU32::new(0);
static FOLLOWED: AtomicU32 = AtomicU32::new(0);

/// A step that takes its time, then another one.
#[workflow]
async fn slow(ctx: Ctx<Slow>, seconds: u64) -> Result<u32> {
    let first = move |attempt: Attempt| async move {
        CALLS.fetch_add(1, Ordering::SeqCst);
        let _ = tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await;
        ok(attempt.number())
    };
    let number = ctx.step("first", first).await?;
    let second = move || async move {
        FOLLOWED.fetch_add(1, Ordering::SeqCst);
        ok(number)
    };
    ok(ctx.step("second", second).await?)
}

/// FAULTS 73, 74: attempts that end within the grace are recorded and not made again; nothing new begins; what does
/// not end is bounded, is no failed attempt, and is made again after the next start.
#[test]
fn running_attempts_have_their_grace() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().grace(Duration::from_secs(30));
        let runtime = machine.open(Runtime::builder().workflow(slow), config.clone()).await;
        runtime.start(slow, 10).id("in-time").await.unwrap();
        runtime.start(slow, 1000).id("too-slow").await.unwrap();
        settle().await;
        assert_eq!((CALLS.load(Ordering::SeqCst), runtime.stats().attempts), (2, 2));
        runtime.stop().await;
        assert_eq!(runtime.stats().residents, 0);
        assert_eq!(
            FOLLOWED.load(Ordering::SeqCst),
            0,
            "what follows does not begin any more"
        );
        drop(runtime);
        let runtime = machine.open(Runtime::builder().workflow(slow), config).await;
        assert_eq!(runtime.recovery().crashed, 0);
        let result = runtime.handle(slow, "in-time").unwrap().result().await.unwrap();
        assert_eq!(result, 1);
        let result = runtime.handle(slow, "too-slow").unwrap().result().await.unwrap();
        assert_eq!(result, 1, "it was not its fault");
        assert_eq!(CALLS.load(Ordering::SeqCst), 3, "only the slow one was made again");
    });
}

/// A step that does not end.
#[workflow]
async fn endless(ctx: Ctx<Endless>) -> Result<()> {
    let forever = || async {
        std::future::pending::<()>().await;
        ok(())
    };
    ok(ctx.step("forever", forever).await?)
}

/// FAULTS 73: a second stop waits for nothing.
#[test]
fn a_second_stop_is_at_once() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().grace(Duration::from_secs(1_000_000));
        let runtime = machine.open(Runtime::builder().workflow(endless), config).await;
        runtime.start(endless, ()).id("for-ever").await.unwrap();
        settle().await;
        let both = async { tokio::join!(runtime.stop(), runtime.stop()) };
        tokio::time::timeout(Duration::from_secs(1), both).await.unwrap();
    });
}

/// Found by the bench: another process that opened a store right after its runtime had been stopped and dropped was told
/// that it was in use, because tasks that had been told to end still held it.
#[tokio::test]
async fn a_store_is_free_when_its_runtime_has_stopped_and_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("fjall:{}", directory.path().join("store").display());
    for life in 0..8 {
        let runtime = Runtime::builder().workflow(waits).open(&url).await.unwrap();
        for number in 0..64 {
            runtime.start(waits, 1).id(format!("{life}-{number}")).await.unwrap();
        }
        runtime.stop().await;
        drop(runtime);
        // As another process would: it does not wait for whoever has it.
        everstep::storage::OpenOptions::new()
            .open(&url)
            .unwrap()
            .close()
            .unwrap();
    }
}

/// Found in a review: whoever waited when the runtime stopped or was dropped waited for ever.
#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_the_runtime_has_stopped() {
    for drops in [false, true] {
        let machine = machine();
        let runtime = everyone().open_simulated(machine).await.unwrap();
        let waiter = runtime.start(waits, 1).id("waiter").await.unwrap().into_handle();
        waiter.reached(|status| status == Status::Waiting).await.unwrap();
        let (mut all, mut one, mut items) = (runtime.watch(), waiter.watch(), waiter.stream::<u64>());
        assert_eq!(one.next().await.unwrap().unwrap().status, Some(Status::Waiting));
        let pending = tokio::join!(
            waiter.result().into_future(),
            waiter.reached(Status::is_terminal),
            all.next(),
            one.next(),
            items.next(),
            async {
                settle().await;
                if drops {
                    drop(runtime);
                } else {
                    runtime.stop().await;
                }
            },
        );
        let (result, reached, all, one, items, ()) = pending;
        assert_eq!(all.unwrap(), None);
        let told = [
            result.unwrap_err(),
            reached.unwrap_err(),
            one.unwrap_err(),
            items.unwrap_err(),
        ];
        assert!(told.iter().all(|error| error.code() == "ES0420"), "{told:?}");
    }
}

/// Found in a review: a message that was sent after the stop was accepted, and a cancellation or a pause waited for ever.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_has_stopped_takes_nothing_and_can_be_looked_at() {
    let runtime = everyone().open_simulated(machine()).await.unwrap();
    let waiter = runtime.start(waits, 2).id("waiter").await.unwrap();
    waiter.send(Word(1)).await.unwrap();
    let done = runtime.start(echo, 7).await.unwrap();
    done.result().await.unwrap();
    let mut watch = runtime.watch();
    runtime.stop().await;
    let refused = [
        waiter.send(Word(2)).await.unwrap_err(),
        waiter.cancel("stop").await.unwrap_err(),
        waiter.pause().await.unwrap_err(),
        waiter.terminate("stop").await.unwrap_err(),
        waiter.reset("Word~0").await.unwrap_err(),
        runtime.start(echo, 8).await.unwrap_err(),
        runtime
            .start(echo, 8)
            .id("waiting")
            .if_crowded(1, Crowded::Wait)
            .await
            .unwrap_err(),
        runtime
            .schedule("hourly", Every::new("1h"))
            .starts(echo, 1)
            .await
            .unwrap_err(),
        runtime.debounce("key", "1h").starts(echo, 1).await.unwrap_err(),
        waiter.result().await.unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.code() == "ES0420"), "{refused:?}");
    assert_eq!(watch.next().await.unwrap(), None);
    assert_eq!(done.result().await.unwrap(), 7, "what there is to see is seen");
    assert_eq!(waiter.status().await.unwrap().status, Status::Waiting);
    assert_eq!(runtime.list().count().await.unwrap(), 2);
}

/// Found in a review: a start that waited because too many did waited for ever when the runtime stopped.
#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_room_is_told_that_the_runtime_has_stopped() {
    let config = Config::default().residents_max(1);
    let runtime = everyone()
        .workflow(endless)
        .config(config)
        .open_simulated(machine())
        .await;
    let runtime = runtime.unwrap();
    let start = |id: &str| runtime.start(endless, ()).id(id);
    start("runs").await.unwrap();
    settle().await;
    start("waits").await.unwrap();
    let crowded = start("third").if_crowded(1, Crowded::Wait).into_future();
    let gate = |id: &str| start(id).at_most(1, "key").if_crowded(1, Crowded::Wait).into_future();
    let (_in, _waits) = (gate("in").await.unwrap(), gate("second").await.unwrap());
    let (crowded, at_gate, ()) = tokio::join!(crowded, gate("fourth"), async {
        settle().await;
        runtime.stop().await;
    });
    assert_eq!(crowded.unwrap_err().code(), "ES0420");
    assert_eq!(at_gate.unwrap_err().code(), "ES0420");
}
