//! FAULTS 32: a function that panics is called again behind its history with a back-off, and is then put into quarantine.
//! The process lives, and nobody else notices.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everstep::limits::{PANICS_MAX, RESTART_BACKOFF};
use everstep::storage::record::{FailureKind, Status};
use everstep::{Config, Ctx, Error, Result, Runtime, ok, workflow};

use crate::kit::{echo, everyone, machine, pass};
use crate::machine::{Machine, in_virtual_time};

static CHARGED: AtomicU32 = AtomicU32::new(0);
static PANICS: AtomicU32 = AtomicU32::new(0);
static MENDED: AtomicBool = AtomicBool::new(false);

/// Panics after a step, unless it is mended.
#[workflow]
async fn mistaken(ctx: Ctx<Mistaken>, number: u32) -> Result<u32> {
    let charge = || async {
        CHARGED.fetch_add(1, Ordering::Relaxed);
        ok(())
    };
    ctx.step("charge", charge).await?;
    if !MENDED.load(Ordering::Relaxed) {
        PANICS.fetch_add(1, Ordering::Relaxed);
        panic!("a mistake");
    }
    ok(number)
}

/// What it had done is kept and not done again. It is called again, later and later; then it is kept as it is, across
/// restarts, until somebody has mended the code and lets it go on: then it does, from where it was.
#[test]
fn a_function_that_panics_is_called_again_and_then_kept() {
    in_virtual_time(async {
        let machine = Machine::new();
        let builder = || everyone().workflow(mistaken);
        let runtime = machine.open(builder(), Config::default()).await;
        let begun = monotonic();
        let instance = runtime.start(mistaken, 7).id("m").await.unwrap();
        let held = instance.result().or_held().await.unwrap_err();
        let Error::Held { status, reason, .. } = held else {
            panic!("{held}");
        };
        assert_eq!(status, Status::Quarantined);
        assert!(reason.contains("a mistake"), "{reason}");
        assert_eq!(PANICS.load(Ordering::Relaxed), PANICS_MAX);
        let waits = (0..PANICS_MAX - 1).map(|wait| RESTART_BACKOFF.0 * 2_u32.pow(wait));
        let took = monotonic() - begun;
        assert!(took >= waits.sum(), "later and later: {took:?}");
        assert_eq!(instance.status().await.unwrap().run, 1);
        // Nobody else notices.
        let other = runtime.start(echo, 3).await.unwrap();
        assert_eq!(other.result().await.unwrap(), 3);
        runtime.stop().await;
        drop((runtime, instance, other));
        let runtime = machine.open(builder(), Config::default()).await;
        let instance = runtime.handle(mistaken, "m").unwrap();
        pass(Duration::from_secs(24 * 3_600)).await;
        assert_eq!(
            PANICS.load(Ordering::Relaxed),
            PANICS_MAX,
            "nobody calls it by themselves"
        );
        MENDED.store(true, Ordering::Relaxed);
        instance.release().await.unwrap();
        assert_eq!(instance.result().await.unwrap(), 7);
        assert_eq!(CHARGED.load(Ordering::Relaxed), 1, "its step is recorded");
    });
}

#[expect(clippy::disallowed_methods, reason = "the time of the test is virtual")]
fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// What a workflow says of its failures holds for panics as well.
#[tokio::test(start_paused = true)]
async fn a_strategy_holds_for_panics_too() {
    #[workflow(strategy = "compensate")]
    async fn ends_at_once(_ctx: Ctx<EndsAtOnce>) -> Result<()> {
        panic!("a mistake")
    }

    #[workflow(retries(limit = 1, delay = "1s"))]
    async fn ends_soon(_ctx: Ctx<EndsSoon>) -> Result<()> {
        panic!("a mistake")
    }

    let builder = Runtime::builder().workflow(ends_at_once).workflow(ends_soon);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let once = runtime.start(ends_at_once, ()).await.unwrap();
    let twice = runtime.start(ends_soon, ()).await.unwrap();
    for (instance, runs) in [(once.id(), 1), (twice.id(), 2)] {
        let instance = runtime.instance(instance.as_str()).unwrap();
        let Error::Failed(failure) = instance.result_as::<()>().await.unwrap_err() else {
            panic!("it failed");
        };
        assert_eq!(failure.kind, FailureKind::Panicked);
        assert_eq!(instance.status().await.unwrap().run, runs);
    }
}

/// One that is asked to end meanwhile does not have to be looked at.
#[tokio::test(start_paused = true)]
async fn one_that_panicked_can_be_cancelled() {
    #[workflow]
    async fn hopeless(_ctx: Ctx<Hopeless>) -> Result<()> {
        panic!("a mistake")
    }

    let runtime = Runtime::builder()
        .workflow(hopeless)
        .open_simulated(machine())
        .await
        .unwrap();
    let instance = runtime.start(hopeless, ()).await.unwrap();
    instance.cancel("enough").await.unwrap();
    assert_eq!(instance.reached(Status::is_terminal).await.unwrap(), Status::Cancelled);
}
