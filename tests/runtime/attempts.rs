//! BEHAVIOUR 3: the number, the beginning and the length of every attempt are recorded, of the one that succeeded as well,
//! and are there after a restart.

use std::time::Duration;

use everstep::storage::record::Ran;
use everstep::{AnyHandle, Attempt, Backoff, Config, Ctx, Result, Retry, Runtime, branch, ensure, ok, workflow};

use crate::kit::{machine, pass};
use crate::machine::{Machine, in_virtual_time};

const SECOND: u64 = 1_000;

/// Works for so many seconds.
async fn work(seconds: u64) -> Result<()> {
    pass(Duration::from_secs(seconds)).await;
    ok(())
}

/// Two seconds that lead to nothing, and ten seconds later three that do. Then it fails, and undoes that in four.
#[workflow(strategy = "compensate")]
async fn labours(ctx: Ctx<Labours>) -> Result<()> {
    let labour = |attempt: Attempt| async move {
        work(1 + u64::from(attempt.number())).await?;
        ensure!(attempt.number() > 1, "not yet");
        ok(())
    };
    let retry = Retry::default().delay("10s").backoff(Backoff::Fixed).without_jitter();
    ctx.step("labour", labour).retry(retry).rollback(|()| work(4)).await?;
    ctx.step("glance", || work(0)).ephemeral().await?;
    ctx.compensate("tidy", (), |()| work(5));
    ensure!(false, "all in vain");
    ok(())
}

async fn ran(handle: &AnyHandle, path: &str) -> Ran {
    let history = handle.history().await.unwrap();
    let entry = history
        .at(path)
        .unwrap_or_else(|| panic!("nothing is recorded at {path}"));
    entry.ran.unwrap_or_else(|| panic!("{path} has no attempt: {entry:?}"))
}

/// Found in an audit: of an attempt that succeeded nothing was recorded but when its result was stored.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_succeeded_is_told_after_a_restart() {
    let machine = machine();
    let builder = || Runtime::builder().workflow(labours);
    let runtime = builder().open_simulated(machine.clone()).await.unwrap();
    let labouring = runtime.start(labours, ()).id("labours").await.unwrap();
    labouring.result().await.unwrap_err();
    let begun = labouring.status().await.unwrap().created_at_ms;
    runtime.stop().await;
    drop((runtime, labouring));
    let runtime = builder().open_simulated(machine).await.unwrap();
    let handle = runtime.instance("labours").unwrap();
    let expected = [
        ("labour", 2, begun + 12 * SECOND, 3 * SECOND),
        ("glance", 1, begun + 15 * SECOND, 0),
        // What is undone is undone in reverse order.
        ("tidy", 1, begun + 15 * SECOND, 5 * SECOND),
        ("labour/rollback", 1, begun + 20 * SECOND, 4 * SECOND),
    ];
    for (path, number, started_at_ms, duration_ms) in expected {
        let ran = ran(&handle, path).await;
        assert_eq!(
            ran,
            Ran {
                number,
                started_at_ms,
                duration_ms
            },
            "{path}"
        );
    }
    let history = handle.history().await.unwrap();
    let failed = &history.at("labour").unwrap().attempts.as_ref().unwrap().failed;
    assert_eq!((failed[0].started_at_ms, failed[0].duration_ms), (begun, 2 * SECOND));
}

/// Two at once, and one may run.
#[workflow]
async fn queues(ctx: Ctx<Queues>) -> Result<()> {
    let one = |ctx: Ctx<Queues>| async move { ok(ctx.step("work", || work(2)).queue("narrow").await?) };
    ctx.join("both", (branch("first", one), branch("second", one))).await?;
    ok(())
}

/// Found in an audit: an attempt that waited for its turn in a queue had begun when the wait did.
#[tokio::test(start_paused = true)]
async fn an_attempt_begins_when_its_turn_has_come() {
    let config = Config::default().queue_attempts_max("narrow", 1);
    let runtime = Runtime::builder().workflow(queues).config(config);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let queueing = runtime.start(queues, ()).await.unwrap();
    queueing.result().await.unwrap();
    let begun = queueing.status().await.unwrap().created_at_ms;
    let (first, second) = (
        ran(&queueing, "both/first/work").await,
        ran(&queueing, "both/second/work").await,
    );
    assert_eq!((first.started_at_ms, first.duration_ms), (begun, 2 * SECOND));
    assert_eq!(
        (second.started_at_ms, second.duration_ms),
        (begun + 2 * SECOND, 2 * SECOND)
    );
}

/// Works for an hour.
#[workflow]
async fn toils(ctx: Ctx<Toils>) -> Result<()> {
    ok(ctx.step("toil", || work(3_600)).await?)
}

/// Found in an audit: an attempt in which the clock was set back by a day had taken no time, and one in which it was set
/// forward had taken a day.
#[test]
fn a_clock_that_is_set_makes_no_attempt_shorter_or_longer() {
    for back in [true, false] {
        in_virtual_time(async {
            let machine = Machine::new();
            let runtime = machine
                .open(Runtime::builder().workflow(toils), Config::default())
                .await;
            let toiling = runtime.start(toils, ()).await.unwrap();
            let begun = toiling.status().await.unwrap().created_at_ms;
            pass(Duration::from_secs(60)).await;
            machine.clock.jump(Duration::from_secs(24 * 3_600), back);
            toiling.result().await.unwrap();
            let ran = ran(&toiling, "toil").await;
            assert_eq!(
                (ran.started_at_ms, ran.duration_ms),
                (begun, 3_600 * SECOND),
                "back: {back}"
            );
        });
    }
}
