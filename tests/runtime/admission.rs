//! How much runs at once, and in which order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everstep::limits::WAKE_QUEUE_MAX;
use everstep::{Config, Ctx, Result, Runtime, ok, workflow};

use crate::machine::{Machine, in_virtual_time};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[workflow]
async fn busy(ctx: Ctx<Busy>, number: u32) -> Result<u32> {
    let work = move || async move {
        let now = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
        MOST.fetch_max(now, Ordering::SeqCst);
        let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        ok(number)
    };
    ok(ctx.step("work", work).await?)
}

#[workflow]
async fn rare(ctx: Ctx<Rare>) -> Result<u32> {
    ok(ctx.step("work", || async { ok(7) }).await?)
}

/// Attempts that wait for their turn do not run out of time meanwhile: it begins when they do.
#[workflow]
async fn patient(ctx: Ctx<Patient>) -> Result<u32> {
    let work = || async {
        let _ = tokio::time::timeout(Duration::from_secs(6), std::future::pending::<()>()).await;
        ok(1)
    };
    ok(ctx.step("work", work).timeout("10s").await?)
}

/// FAULTS 43: running attempts are bounded; the rest wait.
#[test]
fn attempts_are_bounded() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().attempts_max(3);
        let builder = Runtime::builder().workflow(busy).workflow(patient);
        let runtime = machine.open(builder, config.clone()).await;
        let mut handles = Vec::new();
        for number in 0..200 {
            handles.push(runtime.start(busy, number).await.unwrap());
        }
        for handle in &handles {
            handle.result().await.unwrap();
        }
        assert_eq!(MOST.load(Ordering::SeqCst), 3);
        let mut handles = Vec::new();
        for _ in 0..12 {
            handles.push(runtime.start(patient, ()).await.unwrap());
        }
        for handle in &handles {
            assert_eq!(handle.result().await.unwrap(), 1);
        }
    });
}

/// FAULTS 63, 67: a restart with more to run than the queue holds, nearly all of one workflow. All of it is run, within
/// the bounds, and the other workflow does not wait behind it.
#[test]
fn a_backlog_is_fed_through() {
    in_virtual_time(async {
        let machine = Machine::new();
        let backlog = WAKE_QUEUE_MAX as u32 + 100;
        {
            // Nobody is let in: what is started waits in the store.
            let builder = Runtime::builder().workflow(busy).workflow(rare);
            let runtime = machine.open(builder, Config::default()).await;
            runtime.stop().await;
            for number in 0..backlog {
                runtime.start(busy, number).id(format!("busy-{number}")).await.unwrap();
            }
            runtime.start(rare, ()).id("rare").await.unwrap();
        }
        let config = Config::default().residents_max(8).idle(Duration::ZERO);
        let builder = Runtime::builder().workflow(busy).workflow(rare);
        let runtime = machine.open(builder, config).await;
        assert_eq!(runtime.recovery().runnable, u64::from(backlog) + 1);
        let rare = runtime.handle(rare, "rare").unwrap();
        assert_eq!(rare.result().await.unwrap(), 7);
        for number in 0..backlog {
            let handle = runtime.handle(busy, &format!("busy-{number}")).unwrap();
            assert_eq!(handle.result().await.unwrap(), number);
            assert!(runtime.stats().residents <= 8);
        }
    });
}
