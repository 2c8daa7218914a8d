//! How much runs at once, and in which order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everstep::limits::WAKE_QUEUE_MAX;
use everstep::storage::engines::faulty::{Faulty, Plan, ReadFault};
use everstep::storage::record::Status;
use everstep::{Config, Ctx, Result, Runtime, Simulated, ok, workflow};

use crate::kit;
use crate::machine::{Machine, crowds, in_virtual_time, settle};

thread_local! {
    /// Of one test, which has a thread of its own.
    static RUNNING: AtomicUsize = const { AtomicUsize::new(0) };
    static MOST: AtomicUsize = const { AtomicUsize::new(0) };
}

#[workflow]
async fn busy(ctx: Ctx<Busy>, number: u32) -> Result<u32> {
    let work = move || async move {
        let now = RUNNING.with(|running| running.fetch_add(1, Ordering::SeqCst)) + 1;
        MOST.with(|most| most.fetch_max(now, Ordering::SeqCst));
        let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
        RUNNING.with(|running| running.fetch_sub(1, Ordering::SeqCst));
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
        assert_eq!(MOST.with(|most| most.load(Ordering::SeqCst)), 3);
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
            let runtime = machine
                .open_crowded(Runtime::builder().workflow(busy).workflow(rare))
                .await;
            for number in 0..backlog {
                runtime.start(busy, number).id(format!("busy-{number}")).await.unwrap();
            }
            runtime.start(rare, ()).id("rare").await.unwrap();
        }
        let config = Config::default().residents_max(8).idle(Duration::ZERO);
        let builder = Runtime::builder().workflow(busy).workflow(rare).workflow(crowds);
        let runtime = machine.open(builder, config).await;
        assert_eq!(runtime.recovery().runnable, u64::from(backlog) + 2);
        let rare = runtime.handle(rare, "rare").unwrap();
        assert_eq!(rare.result().await.unwrap(), 7);
        for number in 0..backlog {
            let handle = runtime.handle(busy, &format!("busy-{number}")).unwrap();
            assert_eq!(handle.result().await.unwrap(), number);
            assert!(runtime.stats().residents <= 8);
        }
    });
}

thread_local! {
    /// Who was run, one after the other.
    static ORDER: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

#[workflow]
async fn noted(ctx: Ctx<Noted>) -> Result<()> {
    ORDER.with_borrow_mut(|order| order.push(ctx.id().to_string()));
    ok(())
}

/// FAULTS 63: after a restart those who have to run do so in an order of chance: after a crash the same ones do not go
/// first every time.
#[test]
fn a_backlog_is_run_in_an_order_of_chance() {
    const BACKLOG: usize = 50;

    let run = || {
        in_virtual_time(async {
            let machine = Machine::new();
            {
                let runtime = machine.open_crowded(Runtime::builder().workflow(noted)).await;
                for number in 0..BACKLOG {
                    runtime.start(noted, ()).id(format!("n{number:02}")).await.unwrap();
                }
            }
            let builder = Runtime::builder().workflow(noted).workflow(crowds);
            let runtime = machine.open(builder, Config::default()).await;
            for number in 0..BACKLOG {
                let handle = runtime.handle(noted, &format!("n{number:02}")).unwrap();
                handle.result().await.unwrap();
            }
        });
        ORDER.take()
    };
    let order = run();
    assert_eq!(order.len(), BACKLOG);
    let in_place = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(in_place < BACKLOG * 3 / 4, "{order:?}");
}

/// Which process this is, to `either`.
static LIFE: AtomicUsize = AtomicUsize::new(1);

/// Sleeps for so many seconds; without any it works, and does not get done in the first process.
#[workflow]
async fn either(ctx: Ctx<Either>, seconds: u64) -> Result<u64> {
    if seconds > 0 {
        ctx.sleep("nap", Duration::from_secs(seconds)).await?;
        return ok(seconds);
    }
    let work = || async {
        if LIFE.load(Ordering::SeqCst) == 1 {
            std::future::pending::<()>().await;
        }
        ok(0)
    };
    ok(ctx.step("work", work).await?)
}

/// FAULTS 63: found in review. More than half of the room of a workflow was taken by its alarms when those were read who
/// have something to do. They were left for later, and nobody said when that was.
#[test]
fn a_backlog_is_fed_when_its_lane_was_neither_empty_nor_full() {
    const ALARMS: u32 = WAKE_QUEUE_MAX as u32 / 8;
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        {
            let runtime = machine.open(Runtime::builder().workflow(either), config.clone()).await;
            for number in 0..ALARMS {
                runtime.start(either, 600).id(format!("s{number}")).await.unwrap();
            }
            for number in 0..5 {
                runtime.start(either, 0).id(format!("r{number}")).await.unwrap();
            }
            settle().await;
        }
        LIFE.store(2, Ordering::SeqCst);
        machine.clock.jump(Duration::from_secs(3600), false);
        let config = config.residents_max(1);
        let runtime = machine.open(Runtime::builder().workflow(either), config).await;
        for number in 0..5 {
            let handle = runtime.handle(either, &format!("r{number}")).unwrap();
            let result = tokio::time::timeout(Duration::from_secs(3600), handle.result()).await;
            assert_eq!(result.expect("nobody wakes it").unwrap(), 0);
        }
    });
}

/// Found in review: a store that could not be read once, when those were read who have something to do, was never asked
/// again.
#[test]
fn a_store_that_can_not_be_read_is_asked_again() {
    in_virtual_time(async {
        let machine = kit::machine();
        {
            let runtime = kit::everyone().open_simulated(machine.clone()).await.unwrap();
            // It dies before anything is done.
            runtime.start(kit::echo, 7).id("a").await.unwrap();
        }
        let plan = Plan::new();
        let engine = std::sync::Arc::new(Faulty::new(machine.engine.clone(), plan.clone()));
        let opening = kit::everyone().open_simulated(Simulated { engine, ..machine });
        let runtime = opening.await.unwrap();
        let handle = runtime.handle(kit::echo, "a").unwrap();
        // All of them begin when the runtime is open: the feed, and whoever else has something to read.
        for read in 1..=4 {
            plan.at_read(read, ReadFault::Fail(std::io::ErrorKind::TimedOut));
        }
        kit::pass(Duration::from_secs(60)).await;
        assert_eq!(handle.status().await.unwrap().status, Status::Completed);
    });
}
