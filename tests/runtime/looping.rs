//! FAULTS 36: code that runs without awaiting anything keeps the threads of user code, and nothing else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, SystemTime};

use everstep::{AnyHandle, Config, Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::telemetry::Kept;

static KEPT: AtomicU32 = AtomicU32::new(0);
static ENOUGH: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

/// Keeps its thread until the test has seen enough; a test that does not get anywhere ends too, and fails.
fn keep_the_thread() -> bool {
    KEPT.fetch_add(1, Ordering::SeqCst);
    let wait = CHANGED.wait_timeout_while(ENOUGH.lock().unwrap(), Duration::from_secs(30), |enough| !*enough);
    *wait.unwrap().0
}

#[workflow]
async fn keeps(_ctx: Ctx<Keeps>) -> Result<bool> {
    ok(keep_the_thread())
}

#[workflow]
async fn keeps_in_a_step(ctx: Ctx<KeepsInAStep>) -> Result<bool> {
    ok(ctx.step("keep", || async { ok(keep_the_thread()) }).await?)
}

#[derive(Debug, Message, Serialize, Deserialize)]
struct Word(u32);

#[workflow(accepts(Word))]
async fn listens(ctx: Ctx<Listens>) -> Result<u32> {
    ok(ctx.receive::<Word>().await?.0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runtime under test has the clock of the machine"
)]
fn soon() -> SystemTime {
    SystemTime::now() + Duration::from_millis(50)
}

/// How often something of an instance was recorded: once until its code has come to rest for the first time.
async fn recorded(instance: &AnyHandle) -> u64 {
    instance.watch().next().await.unwrap().unwrap().revision
}

/// Every thread of user code is kept by code that never awaits. Callers are answered, messages are accepted and
/// durable, alarms ring; and when the code comes to its senses, everything goes on.
///
/// The program's own executor has one thread. Were user code on it, nothing below would be polled meanwhile.
#[tokio::test]
async fn callers_commits_and_alarms_go_on() {
    let config = Config::default().workers(2);
    let builder = Runtime::builder().workflow(keeps).workflow(keeps_in_a_step);
    let runtime = builder.workflow(listens).config(config).open("memory:").await.unwrap();
    let function = runtime.start(keeps, ()).await.unwrap();
    let step = runtime.start(keeps_in_a_step, ()).await.unwrap();
    while KEPT.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let listener = runtime.start(listens, ()).await.unwrap();
    assert_eq!(recorded(&listener).await, 1);
    listener.send(Word(7)).await.unwrap();
    let later = runtime.start(listens, ()).at(soon()).await.unwrap();
    // Whoever begins later is brought into memory by its alarm, and by nobody else.
    while runtime.stats().residents < 4 {
        tokio::task::yield_now().await;
        let now = recorded(&function).await;
        assert_eq!(now, 1, "it gave its thread back before the alarm rang");
    }
    assert_eq!(recorded(&later).await, 1);
    *ENOUGH.lock().unwrap() = true;
    CHANGED.notify_all();
    assert!(function.result().await.unwrap(), "the test came to its end before it");
    assert!(step.result().await.unwrap());
    assert_eq!(listener.result().await.unwrap(), 7);
    later.send(Word(8)).await.unwrap();
    assert_eq!(later.result().await.unwrap(), 8);
    runtime.stop().await;
}

/// Whether the watchdog has said so.
static REPORTED: Mutex<bool> = Mutex::new(false);
static WAS_REPORTED: Condvar = Condvar::new();
static GAVE_UP: AtomicU32 = AtomicU32::new(0);

/// Keeps its thread until that was reported; a test that does not get anywhere ends too, and fails.
#[workflow]
async fn hogs(_ctx: Ctx<Hogs>) -> Result<()> {
    let patience = Duration::from_secs(30);
    let reported = REPORTED.lock().unwrap();
    let (reported, _) = WAS_REPORTED
        .wait_timeout_while(reported, patience, |reported| !*reported)
        .unwrap();
    GAVE_UP.fetch_add(u32::from(!*reported), Ordering::SeqCst);
    ok(())
}

/// FAULTS 36: a runtime has a watchdog, which reports code that never awaits, while it runs.
#[tokio::test]
async fn the_watchdog_is_there() {
    // It has a thread of its own, and so a recorder for all of them.
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone()).unwrap();
    let config = Config::default().workers(1).poll_warn("5ms");
    let runtime = Runtime::builder().workflow(hogs).config(config);
    let runtime = runtime.open("memory:").await.unwrap();
    let hogs = runtime.start(hogs, ()).await.unwrap();
    while kept.sum("everstep_long_polls_total") == 0.0 {
        assert_eq!(GAVE_UP.load(Ordering::SeqCst), 0, "nobody has reported it");
        tokio::task::yield_now().await;
    }
    *REPORTED.lock().unwrap() = true;
    WAS_REPORTED.notify_all();
    hogs.result().await.unwrap();
    runtime.stop().await;
}
