//! FAULTS 43: ten thousand steps at once are as many as there are permits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::ground::{carries, pass, size, small};

/// What a step takes while it waits and when it is over: its entry, its closure, its future.
const STEP_BYTES: usize = 6 * 1024;

const PERMITS: usize = 32;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

async fn work(number: u64) -> Result<u64> {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    pass(Duration::from_millis(10)).await;
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    ok(number)
}

#[workflow]
async fn fans_out(ctx: Ctx<FansOut>, many: u64) -> Result<u64> {
    let branch = |ctx: Ctx<FansOut>, number| async move { ok(ctx.step("work", move || work(number)).await?) };
    let numbers: Vec<u64> = ctx.map("all", 0..many, usize::MAX, branch).await?;
    ok(numbers.iter().sum())
}

#[test]
fn ten_thousand_steps_at_once_are_bounded_by_permits() {
    carries(
        "steps at once",
        size(1_000, 10_000),
        STEP_BYTES,
        async |ground, many| {
            let config = small().attempts_max(PERMITS);
            let runtime = ground.open(Runtime::builder().workflow(fans_out), config).await;
            let fan = runtime.start(fans_out, many).await.unwrap();
            assert_eq!(fan.result().await.unwrap(), many * (many - 1) / 2);
            assert_eq!(MOST.load(Ordering::Relaxed), PERMITS);
        },
    );
}
