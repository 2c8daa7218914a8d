//! Steps that block.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Attempt, Builder, Config, Ctx, Result, Runtime, ok, workflow};
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::machine::{Machine, settle};

/// How many threads are in a blocking step now, and were at most.
static INSIDE: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);

/// Counts itself, and lets others get in if they can.
#[workflow]
async fn crowds(ctx: Ctx<Crowds>) -> Result<bool> {
    let here = std::thread::current().id();
    let elsewhere = ctx.step_blocking("crowd", move || {
        MOST.fetch_max(INSIDE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..1_000 {
            std::thread::yield_now();
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        ok(std::thread::current().id() != here)
    });
    ok(elsewhere.await?)
}

/// Panics once.
#[workflow]
async fn stumbles(ctx: Ctx<Stumbles>) -> Result<u32> {
    let work = |attempt: Attempt| {
        assert!(attempt.number() > 1, "a fault in the step");
        ok(attempt.number())
    };
    ok(ctx.step_blocking("stumble", work).retries(3).delay("1s").await?)
}

/// What a held step tells its test.
#[derive(Default)]
struct Gate {
    begun: Notify,
    let_go: Notify,
    over: Notify,
    free: Mutex<bool>,
    freed: Condvar,
}

static HELD: LazyLock<Mutex<std::collections::HashMap<String, Arc<Gate>>>> = LazyLock::new(Mutex::default);

fn gate(id: &str) -> Arc<Gate> {
    Arc::clone(HELD.lock().unwrap().entry(id.to_owned()).or_default())
}

/// Lets others have its core, and is done.
#[workflow]
async fn brief(ctx: Ctx<Brief>) -> Result<u32> {
    let work = || {
        std::thread::yield_now();
        ok(1)
    };
    ok(ctx.step_blocking("brief", work).timeout("3s").retries(0).await?)
}

/// Blocks until nobody waits for it any more, for at most five seconds.
#[workflow]
async fn holds(ctx: Ctx<Holds>) -> Result<u32> {
    let work = |attempt: Attempt| {
        let gate = gate(attempt.instance().as_str());
        gate.begun.notify_one();
        while !attempt.is_cancelled() {
            std::thread::yield_now();
        }
        gate.let_go.notify_one();
        ok(1)
    };
    ok(ctx.step_blocking("hold", work).timeout("5s").retries(0).await?)
}

/// Runs a test in one thread and virtual time, with so many threads for what blocks.
fn with_threads(threads: usize, test: impl Future<Output = ()>) {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(threads)
        .build()
        .unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    executor
        .block_on(async { tokio::time::timeout(day, test).await })
        .expect("the test ends within a day of virtual time");
}

fn everyone() -> Builder {
    let builder = Runtime::builder().workflow(crowds).workflow(stumbles);
    builder.workflow(holds).workflow(brief)
}

/// A blocking step runs on a thread of its own, and there are no more of them at once than attempts are allowed.
#[test]
fn threads_are_bounded_like_all_attempts() {
    with_threads(8, async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default().attempts_max(2)).await;
        let mut handles = Vec::new();
        for _ in 0..16 {
            handles.push(runtime.start(crowds, ()).await.unwrap());
        }
        for handle in handles {
            assert!(handle.result().await.unwrap(), "it ran where workflows run");
        }
        assert!(MOST.load(Ordering::SeqCst) <= 2, "{MOST:?}");
    });
}

/// FAULTS 31: a panic in a blocking step is a failed attempt.
#[test]
fn a_panic_is_a_failed_attempt() {
    with_threads(8, async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default()).await;
        let handle = runtime.start(stumbles, ()).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 2);
    });
}

/// A blocking step that takes too long has failed, and hears of it; so does one whose instance is cancelled, or, found in
/// review, terminated: it went on for as long as it liked, with its place among the attempts.
#[test]
fn the_code_on_the_thread_hears_that_nobody_waits() {
    with_threads(8, async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default()).await;
        for expected in [Status::Failed, Status::Cancelled, Status::Terminated] {
            let id = expected.to_string();
            let handle = runtime.start(holds, ()).id(&id).await.unwrap();
            gate(&id).begun.notified().await;
            match expected {
                Status::Cancelled => drop(handle.cancel("a test").await.unwrap()),
                Status::Terminated => drop(handle.terminate("a test").await.unwrap()),
                _ => tokio::time::advance(Duration::from_secs(6)).await,
            }
            let end = handle.reached(Status::is_terminal).await.unwrap();
            gate(&id).let_go.notified().await;
            assert_eq!(end, expected);
        }
        while runtime.stats().attempts > 0 {
            tokio::task::yield_now().await;
        }
    });
}

/// Found in review: the time of a blocking attempt began while it waited for a thread, and it was over before the step
/// had begun.
#[test]
fn its_time_begins_when_it_has_a_thread() {
    with_threads(1, async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default()).await;
        let first = runtime.start(holds, ()).id("has it").await.unwrap();
        gate("has it").begun.notified().await;
        let second = runtime.start(brief, ()).await.unwrap();
        settle().await;
        tokio::time::advance(Duration::from_secs(4)).await;
        settle().await;
        first.cancel("a test").await.unwrap();
        assert_eq!(second.result().await.unwrap(), 1, "it had three seconds");
    });
}

/// Found in review: with the feature `testing`, a blocking step that began in one thread of a real runtime and ended in
/// another panicked, and its step waited for ever.
#[test]
fn an_attempt_may_end_in_another_thread_than_it_began_in() {
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    executor.block_on(async {
        let builder = everyone().config(Config::default().workers(4));
        let runtime = builder.open("memory:").await.unwrap();
        let mut handles = Vec::new();
        for _ in 0..100 {
            handles.push(runtime.start(brief, ()).await.unwrap());
        }
        for handle in handles {
            assert_eq!(handle.result().await.unwrap(), 1);
        }
        runtime.stop().await;
    });
}

/// An attempt that is cancelled while it waits for a thread does not begin.
#[test]
fn what_is_cancelled_before_it_has_a_thread_does_not_begin() {
    with_threads(1, async {
        let machine = Machine::new();
        let runtime = machine.open(everyone(), Config::default()).await;
        let first = runtime.start(holds, ()).id("first").await.unwrap();
        gate("first").begun.notified().await;
        let second = runtime.start(holds, ()).id("second").await.unwrap();
        settle().await;
        second.cancel("a test").await.unwrap();
        assert_eq!(second.reached(Status::is_terminal).await.unwrap(), Status::Cancelled);
        first.cancel("a test").await.unwrap();
        // The one thread takes what waits in its order: this one comes behind the second.
        let third = runtime.start(stumbles, ()).await.unwrap();
        third.result().await.unwrap();
        let begun = gate("second").begun.notified().now_or_never();
        assert!(begun.is_none(), "the second began");
    });
}

/// Blocks until the test lets it go, whoever waits for it.
#[workflow]
async fn clings(ctx: Ctx<Clings>) -> Result<u32> {
    let work = |attempt: Attempt| {
        let gate = gate(attempt.instance().as_str());
        gate.begun.notify_one();
        // A test that fails ends too.
        let free = gate.free.lock().unwrap();
        drop(
            gate.freed
                .wait_timeout_while(free, Duration::from_secs(30), |free| !*free),
        );
        gate.over.notify_one();
        ok(1)
    };
    ok(ctx.step_blocking("cling", work).timeout("5s").retries(0).await?)
}

/// FAULTS 38. Found by reading: an attempt that timed out gave its place back while its thread went on, so there were as many
/// threads as attempts had ever timed out.
#[test]
fn a_thread_that_goes_on_keeps_its_place() {
    with_threads(8, async {
        let machine = Machine::new();
        let builder = everyone().workflow(clings);
        let runtime = machine.open(builder, Config::default().attempts_max(1)).await;
        let first = runtime.start(clings, ()).id("clings").await.unwrap();
        gate("clings").begun.notified().await;
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(first.reached(Status::is_terminal).await.unwrap(), Status::Failed);
        assert_eq!(runtime.stats().attempts, 1, "its thread is still there");
        let second = runtime.start(holds, ()).id("behind").await.unwrap();
        settle().await;
        let begun = gate("behind").begun.notified().now_or_never();
        assert!(begun.is_none(), "the second began beside the first");
        *gate("clings").free.lock().unwrap() = true;
        gate("clings").freed.notify_all();
        gate("clings").over.notified().await;
        gate("behind").begun.notified().await;
        second.cancel("a test").await.unwrap();
        assert_eq!(second.reached(Status::is_terminal).await.unwrap(), Status::Cancelled);
    });
}

static LET_GO: Mutex<bool> = Mutex::new(false);
static WAS_LET_GO: Condvar = Condvar::new();
static LOGGED: AtomicBool = AtomicBool::new(false);

/// Takes more time than it has.
#[workflow]
async fn late(ctx: Ctx<Late>) -> Result<()> {
    let blocks = || {
        let held = LET_GO.lock().unwrap();
        drop(WAS_LET_GO.wait_timeout_while(held, Duration::from_secs(30), |go| !*go));
        ok(())
    };
    ok(ctx.step_blocking("blocks", blocks).timeout("5ms").retries(0).await?)
}

/// Hears what is logged in all threads.
struct Listens;

impl tracing::field::Visit for Listens {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        LOGGED.fetch_or(format!("{value:?}").contains("too late"), Ordering::SeqCst);
    }
}

impl tracing::Subscriber for Listens {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("everstep")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Self);
    }

    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// FAULTS 38: what comes too late is dropped, and that is logged.
#[tokio::test]
async fn what_a_blocking_step_comes_to_too_late_is_logged() {
    // Its thread is none of the test's.
    tracing::subscriber::set_global_default(Listens).unwrap();
    let runtime = Runtime::builder().workflow(late).open("memory:").await.unwrap();
    let late = runtime.start(late, ()).await.unwrap();
    let failed = late.result().await.unwrap_err();
    assert_eq!(failed.code(), "ES0402", "{failed}");
    assert!(!LOGGED.load(Ordering::SeqCst), "it has not ended");
    *LET_GO.lock().unwrap() = true;
    WAS_LET_GO.notify_all();
    // Which waits for the threads to end.
    runtime.stop().await;
    assert!(LOGGED.load(Ordering::SeqCst));
    assert_eq!(late.history().await.unwrap().entries.len(), 1, "and changes nothing");
}
