//! FAULTS 32: a function that panics fails its run, is run again with a back-off, and is then put into quarantine. The
//! process lives, and nobody else notices.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everstep::limits::PANICS_MAX;
use everstep::storage::record::{FailureKind, Status};
use everstep::{Config, Ctx, Error, Result, Runtime, ok, workflow};

use crate::kit::{echo, everyone, machine, pass};
use crate::machine::{Machine, in_virtual_time};

static RUNS: AtomicU32 = AtomicU32::new(0);
static MENDED: AtomicBool = AtomicBool::new(false);

/// Panics after a step, unless it is mended.
#[workflow]
async fn mistaken(ctx: Ctx<Mistaken>, number: u32) -> Result<u32> {
    let charge = || async {
        RUNS.fetch_add(1, Ordering::Relaxed);
        ok(())
    };
    ctx.step("charge", charge).await?;
    assert!(MENDED.load(Ordering::Relaxed), "a mistake");
    ok(number)
}

/// A mistake that goes away costs a retry; one that stays is kept as it is, across restarts, until somebody has mended
/// the code and lets it go on: then it does, from where it was.
#[test]
fn a_function_that_panics_is_run_again_and_then_kept() {
    in_virtual_time(async {
        let machine = Machine::new();
        let builder = || everyone().workflow(mistaken);
        let runtime = machine.open(builder(), Config::default()).await;
        let instance = runtime.start(mistaken, 7).id("m").await.unwrap();
        instance.reached(|status| status == Status::BackingOff).await.unwrap();
        let waits_until = instance.status().await.unwrap().wakes_at_ms.unwrap();
        assert!(
            waits_until > instance.status().await.unwrap().updated_at_ms,
            "with a back-off"
        );
        // Nobody else notices.
        let other = runtime.start(echo, 3).await.unwrap();
        assert_eq!(other.result().await.unwrap(), 3);
        runtime.stop().await;
        drop((runtime, instance, other));
        let runtime = machine.open(builder(), Config::default()).await;
        let instance = runtime.handle(mistaken, "m").unwrap();
        let held = instance.result().or_held().await.unwrap_err();
        let Error::Held { status, reason, .. } = held else {
            panic!("{held}");
        };
        assert_eq!(status, Status::Quarantined);
        assert!(reason.contains("a mistake"), "{reason}");
        assert_eq!(RUNS.load(Ordering::Relaxed), PANICS_MAX);
        assert_eq!(instance.status().await.unwrap().run, PANICS_MAX);
        pass(Duration::from_secs(24 * 3_600)).await;
        assert_eq!(RUNS.load(Ordering::Relaxed), PANICS_MAX, "nobody runs it by themselves");
        MENDED.store(true, Ordering::Relaxed);
        instance.release().await.unwrap();
        assert_eq!(instance.result().await.unwrap(), 7);
        assert_eq!(RUNS.load(Ordering::Relaxed), PANICS_MAX, "its step is recorded");
    });
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

/// One that is asked to end between two runs does not have to be looked at.
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
    instance.reached(|status| status == Status::BackingOff).await.unwrap();
    instance.cancel("enough").await.unwrap();
    assert_eq!(instance.reached(Status::is_terminal).await.unwrap(), Status::Cancelled);
}
