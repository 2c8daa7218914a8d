//! Stopping, and what is left afterwards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::{Attempt, Config, Ctx, Result, Runtime, ok, workflow};

use crate::machine::{Machine, in_virtual_time, settle};

static CALLS: AtomicU32 = AtomicU32::new(0);

/// A step that takes its time, then another one.
#[workflow]
async fn slow(ctx: Ctx<Slow>, seconds: u64) -> Result<u32> {
    let first = move |attempt: Attempt| async move {
        CALLS.fetch_add(1, Ordering::SeqCst);
        let _ = tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>()).await;
        ok(attempt.number())
    };
    let number = ctx.step("first", first).await?;
    ok(ctx.step("second", move || async move { ok(number) }).await?)
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

/// FAULTS 73: a second stop waits for nothing.
#[test]
fn a_second_stop_is_at_once() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().grace(Duration::from_secs(1_000_000));
        let runtime = machine.open(Runtime::builder().workflow(slow), config).await;
        runtime.start(slow, 500_000).id("for-ever").await.unwrap();
        settle().await;
        let both = async { tokio::join!(runtime.stop(), runtime.stop()) };
        tokio::time::timeout(Duration::from_secs(1), both).await.unwrap();
    });
}
