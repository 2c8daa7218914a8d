//! BEHAVIOUR 43: a result can be waited for as long as asked, by anybody, in any lifetime of the process.

use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::{Builder, Config, Ctx, Error, Result, Runtime, ok, workflow};
use futures_util::future::join_all;

use crate::kit::{Word, echo, everyone, fails, machine, naps, open, pass, waits};
use crate::machine::{Machine, in_virtual_time};

#[tokio::test(start_paused = true)]
async fn several_waiters_all_get_it() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    let waiters = (0..10).map(|_| naps.result().into_future());
    for result in join_all(waiters).await {
        assert_eq!(result.unwrap(), 60);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_when_it_said_and_the_instance_goes_on() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    assert_eq!(naps.result().timeout("59s").await.unwrap_err().code(), "ES0410");
    assert_eq!(naps.result().timeout("soon").await.unwrap_err().code(), "ES0104");
    assert_eq!(naps.result().timeout("2s").await.unwrap(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_with_its_kind() {
    let runtime = open().await;
    let failed = runtime.start(fails, ()).await.unwrap();
    let Error::Failed(failure) = failed.result().await.unwrap_err() else {
        panic!("it failed");
    };
    assert_eq!(
        (failure.kind, failure.attempts, failure.path.as_str()),
        (FailureKind::Exhausted, 2, "charge")
    );
}

/// Opens a store as soon as the runtime before has let go of it.
async fn reopen(url: &str, builder: fn() -> Builder) -> Runtime {
    loop {
        match builder().open(url).await {
            Err(error) if error.code() == "ES0205" => tokio::task::yield_now().await,
            opened => return opened.unwrap(),
        }
    }
}

/// On the disk, with the process' own clock: the runtime is dropped and opened again between the start, the message
/// and the result.
#[tokio::test]
async fn a_result_is_there_after_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let url = path.to_str().unwrap();
    let runtime = reopen(url, everyone).await;
    runtime.start(waits, 1).id("one").await.unwrap();
    runtime.start(echo, 4).id("two").await.unwrap().result().await.unwrap();
    runtime.stop().await;
    drop(runtime);
    let runtime = reopen(url, everyone).await;
    runtime.handle(waits, "one").unwrap().send(Word(3)).await.unwrap();
    runtime.stop().await;
    drop(runtime);
    let runtime = reopen(url, everyone).await;
    assert_eq!(runtime.handle(waits, "one").unwrap().result().await.unwrap(), [3]);
    runtime.stop().await;
    drop(runtime);
    // A process that knows no workflow can read it all the same.
    let runtime = reopen(url, Runtime::builder).await;
    let four: u64 = runtime.instance("two").unwrap().result_as().await.unwrap();
    assert_eq!(four, 4);
    assert_eq!(
        runtime.instance("one").unwrap().status().await.unwrap().workflow,
        "waits"
    );
    runtime.stop().await;
    drop(runtime);
}

/// Adds up words, each in a run of its own, until one says nothing.
#[workflow(accepts(Word))]
async fn renews(ctx: Ctx<Renews>, sum: u64) -> Result<u64> {
    let Word(number) = ctx.receive().await?;
    if number > 0 {
        return ctx.continue_as_new(sum + number);
    }
    ok(sum)
}

#[workflow]
async fn raises(ctx: Ctx<Raises>) -> Result<u64> {
    ok(ctx.child(renews, 0).id("child").await?)
}

/// BEHAVIOUR 39: whoever waits since the first run gets what the last one came to, and whose it is and how it is called
/// stays with it.
#[tokio::test(start_paused = true)]
async fn the_last_run_is_what_callers_and_parents_get() {
    let builder = everyone().workflow(renews).workflow(raises);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let top = runtime.start(renews, 0).id("top").tag("team", "blue").await.unwrap();
    let parent = runtime.start(raises, ()).id("parent").await.unwrap();
    pass(Duration::from_secs(1)).await;
    let child = runtime.handle(renews, "child").unwrap();
    let speaks = async {
        for number in [1, 2, 3, 0] {
            top.send(Word(number)).await.unwrap();
            child.send(Word(number * 10)).await.unwrap();
            pass(Duration::from_secs(1)).await;
        }
    };
    let (on_top, again, below, above, ()) = futures_util::join!(
        top.result().timeout("1h").into_future(),
        top.result().timeout("1h").into_future(),
        child.result().timeout("1h").into_future(),
        parent.result().timeout("1h").into_future(),
        speaks
    );
    let sums = [on_top, again, below, above].map(Result::unwrap);
    assert_eq!(sums, [6, 6, 60, 60]);
    let (top, child) = (top.status().await.unwrap(), child.status().await.unwrap());
    assert_eq!((top.run, child.run), (4, 4));
    assert_eq!(top.tags.get("team").map(String::as_str), Some("blue"));
    assert_eq!(child.parent.as_deref(), Some("parent"));
    let tagged = runtime.list().tag("team", "blue").count().await.unwrap();
    let children = runtime.list().parent("parent").count().await.unwrap();
    assert_eq!((tagged, children), (1, 1));
}

/// Found in an audit: whoever waits was timed by the wall clock. With that set back by an hour, a wait for ten seconds gave
/// up after 3,610; set forward, at once.
#[test]
fn a_wait_is_as_long_as_it_was_to_be_whatever_the_clock_does() {
    const HOUR: Duration = Duration::from_secs(3_600);

    in_virtual_time(async {
        for back in [true, false] {
            let machine = Machine::new();
            let runtime = machine.open(everyone(), Config::default()).await;
            let waits = runtime.start(waits, 1).id("waits").await.unwrap();
            waits.reached(|status| status == Status::Waiting).await.unwrap();
            let begun = monotonic();
            let waiting = waits.result().timeout("10s").into_future();
            let jumping = async {
                pass(Duration::from_secs(5)).await;
                machine.clock.jump(HOUR, back);
            };
            let (given_up, ()) = tokio::join!(waiting, jumping);
            assert_eq!(given_up.unwrap_err().code(), "ES0410");
            assert_eq!((monotonic() - begun).as_secs(), 10, "set back: {back}");
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "the time of the test is virtual")]
fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
