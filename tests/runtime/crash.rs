//! A step that kills its process every time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Attempt, Backoff, Config, Ctx, Result, Runtime, ok, workflow};

#[path = "../kit/process.rs"]
mod process;

const TEST: &str = "crash::a_crash_loop_ends_in_quarantine";

/// How often the process may die.
const LIMIT: u32 = 3;

#[workflow]
async fn deadly(ctx: Ctx<Deadly>) -> Result<u32> {
    let work = |attempt: Attempt| async move {
        process::say(&format!("attempt {} {}", attempt.number(), attempt.idempotency_key()));
        std::process::abort();
        #[allow(unreachable_code, reason = "the type of the step")]
        ok(1)
    };
    ok(ctx
        .step("kill", work)
        .retries(1000)
        .backoff(Backoff::Fixed)
        .delay("1ms")
        .await?)
}

#[workflow]
async fn innocent(ctx: Ctx<Innocent>) -> Result<u32> {
    ctx.sleep("pause", "5ms").await?;
    ok(ctx.step("work", || async { ok(2) }).await?)
}

/// The child: goes on with what there is, until it dies or the deadly one is put aside.
async fn child(store: &str) {
    let config = Config::default().crash_limit(LIMIT);
    let builder = Runtime::builder().workflow(deadly).workflow(innocent).config(config);
    let runtime = builder.open(store).await.unwrap();
    let harmless = runtime.start(innocent, ()).id("innocent").await.unwrap();
    let fatal = runtime.start(deadly, ()).id("deadly").await.unwrap();
    fatal.reached(|status| status == Status::Quarantined).await.unwrap();
    process::say(&format!("quarantined {}", runtime.recovery().quarantined));
    assert_eq!(harmless.result().await.unwrap(), 2);
    process::say("done");
    runtime.stop().await;
}

/// FAULTS 2, 34: an attempt that ends with the process counts as one, with the same key; after so many deaths in which
/// the instance got nowhere it is put aside before it runs again, and the rest goes on.
#[test]
fn a_crash_loop_ends_in_quarantine() {
    if let Some((_, place)) = process::part() {
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        executor.block_on(async {
            let lives = tokio::time::timeout(Duration::from_secs(60), child(place.to_str().unwrap()));
            lives.await.expect("a life is short");
        });
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let mut said = Vec::new();
    for life in 1..=LIMIT + 1 {
        let mut child = process::child(&[], TEST, "live", &store);
        said.extend(process::lines(&mut child).map(|line| format!("{life}: {line}")));
        child.wait().unwrap();
    }
    let expected = [
        "1: attempt 1 deadly/1/kill",
        "2: attempt 2 deadly/1/kill",
        "3: attempt 3 deadly/1/kill",
        "4: quarantined 1",
        "4: done",
    ];
    assert_eq!(said, expected);
}

const AMONG_OTHERS: &str = "crash::those_who_only_were_there_are_not_put_aside";

/// Who is there when the process dies.
const BYSTANDERS: u32 = 8;

/// Which life of the store this process is.
static LIFE: AtomicU32 = AtomicU32::new(0);

/// Bystanders whose step runs.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// In the first two lives its step never ends. Later it ends, if nobody else runs beside it: a suspect runs alone.
#[workflow]
async fn bystander(ctx: Ctx<Bystander>) -> Result<u32> {
    let work = || async {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        yields(1000).await;
        if LIFE.load(Ordering::SeqCst) <= 2 || RUNNING.load(Ordering::SeqCst) > 1 {
            std::future::pending::<()>().await;
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        ok(2)
    };
    ok(ctx.step("work", work).retries(1000).delay("1ms").await?)
}

/// Kills the process, in the first two lives when everybody is there.
#[workflow]
async fn murderer(ctx: Ctx<Murderer>) -> Result<u32> {
    let work = || async {
        while LIFE.load(Ordering::SeqCst) <= 2 && RUNNING.load(Ordering::SeqCst) < BYSTANDERS {
            tokio::task::yield_now().await;
        }
        yields(5000).await;
        process::say("killed");
        std::process::abort();
        #[allow(unreachable_code, reason = "the type of the step")]
        ok(1)
    };
    let step = ctx.step("kill", work).retries(1000).backoff(Backoff::Fixed);
    ok(step.delay("1ms").await?)
}

async fn among_others(store: &str) {
    let config = Config::default().crash_limit(LIMIT);
    let builder = Runtime::builder().workflow(murderer).workflow(bystander).config(config);
    let runtime = builder.open(store).await.unwrap();
    let mut there = Vec::new();
    for number in 0..BYSTANDERS {
        there.push(
            runtime
                .start(bystander, ())
                .id(format!("there-{number}"))
                .await
                .unwrap(),
        );
    }
    let murderer = runtime.start(murderer, ()).id("murderer").await.unwrap();
    murderer.reached(|status| status == Status::Quarantined).await.unwrap();
    for bystander in there {
        assert_eq!(bystander.result().await.unwrap(), 2);
    }
    process::say("the others are done");
    runtime.stop().await;
}

async fn yields(times: u32) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// FAULTS 34: whoever had something running when the process died is charged for it, and nearly all of them are
/// innocent. They go on together at first, and each alone before the death that would put it aside.
#[test]
fn those_who_only_were_there_are_not_put_aside() {
    if let Some((life, place)) = process::part() {
        LIFE.store(life.parse().unwrap(), Ordering::SeqCst);
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        executor.block_on(async {
            let lives = tokio::time::timeout(Duration::from_secs(60), among_others(place.to_str().unwrap()));
            lives.await.expect("a life is short");
        });
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let mut said = Vec::new();
    for life in 1..=LIMIT + 1 {
        let mut child = process::child(&[], AMONG_OTHERS, &life.to_string(), &store);
        said.extend(process::lines(&mut child).map(|line| format!("{life}: {line}")));
        child.wait().unwrap();
    }
    assert_eq!(said, ["1: killed", "2: killed", "3: killed", "4: the others are done"]);
}
