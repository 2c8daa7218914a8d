//! Whoever sleeps is in the store and nowhere else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::ground::{carries, each, pass, size, small};

const DAY_S: u64 = 24 * 60 * 60;

static WOKEN: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU64 = AtomicU64::new(0);

#[workflow]
async fn sleeps(ctx: Ctx<Sleeps>, seconds: u64) -> Result<()> {
    let until = ctx.now() + Duration::from_secs(seconds);
    ctx.sleep("nap", Duration::from_secs(seconds)).await?;
    let early = ctx.now() < until;
    let wake = move || async move {
        WOKEN.fetch_add(1, Ordering::Relaxed);
        EARLY.fetch_add(u64::from(early), Ordering::Relaxed);
        ok(())
    };
    ok(ctx.step("wake", wake).await?)
}

/// Each wakes once and not early, over a month in which the machine is restarted.
#[test]
fn a_million_sleep_and_each_wakes_once() {
    carries("sleepers", size(6_000, 1_000_000), 0, async |ground, many| {
        WOKEN.store(0, Ordering::Relaxed);
        let open = || ground.open(Runtime::builder().workflow(sleeps), small());
        let runtime = open().await;
        each(many, async |number| {
            let seconds = DAY_S + number * 7_919 % (30 * DAY_S);
            runtime.start(sleeps, seconds).id(format!("s{number}")).await.unwrap();
        })
        .await;
        assert_eq!(WOKEN.load(Ordering::Relaxed), 0);
        pass(Duration::from_secs(15 * DAY_S)).await;
        drop(runtime);
        let before = WOKEN.load(Ordering::Relaxed);
        assert!(0 < before && before < many, "{before} of {many}");
        let runtime = open().await;
        pass(Duration::from_secs(17 * DAY_S)).await;
        assert_eq!(WOKEN.load(Ordering::Relaxed), many);
        assert_eq!(EARLY.load(Ordering::Relaxed), 0);
        let stats = runtime.stats();
        assert_eq!((stats.residents, stats.alarms_due), (0, 0), "{stats:?}");
    });
}
