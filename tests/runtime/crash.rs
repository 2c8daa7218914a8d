//! A step that kills its process every time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Attempt, Backoff, Config, Ctx, Result, Runtime, ok, workflow};

use crate::process;

const TEST: &str = "crash::a_crash_loop_ends_in_quarantine";

/// How often the process may die.
const LIMIT: u32 = 3;

#[workflow]
async fn deadly(ctx: Ctx<Deadly>) -> Result<u32> {
    let work = |attempt: Attempt| async move {
        process::say(&format!(
            "attempt {} {}",
            attempt.number(),
            attempt.idempotency_key().split('#').next().unwrap()
        ));
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

const IN_TURN: &str = "crash::who_only_waited_for_its_turn_is_not_charged";

/// Whether one attempt runs and the other waits for its turn.
static BOTH_THERE: AtomicBool = AtomicBool::new(false);

/// Two steps, of which only one may run. The one that does kills the process when the other one waits, in the first life.
#[workflow]
async fn pair(ctx: Ctx<Pair>) -> Result<u32> {
    let kill = || async {
        while LIFE.load(Ordering::SeqCst) == 1 {
            if BOTH_THERE.load(Ordering::SeqCst) {
                process::say("killed");
                std::process::abort();
            }
            tokio::task::yield_now().await;
        }
        ok(1)
    };
    let kill = ctx
        .step("kill", kill)
        .retries(1000)
        .backoff(Backoff::Fixed)
        .delay("1ms");
    let other = ctx.step("other", || async { ok(2) }).retries(0);
    let (killed, other) = futures_util::future::join(kill, other).await;
    ok(killed? + other?)
}

/// BEHAVIOUR 3: found in review. A step that waited for its turn when the process died was charged with an attempt that it
/// had not made.
#[test]
fn who_only_waited_for_its_turn_is_not_charged() {
    if let Some((life, place)) = process::part() {
        LIFE.store(life.parse().unwrap(), Ordering::SeqCst);
        in_a_life(async {
            let config = Config::default().crash_limit(100).attempts_max(1);
            let builder = Runtime::builder().workflow(pair).config(config);
            let runtime = builder.open(place.to_str().unwrap()).await.unwrap();
            let handle = runtime.start(pair, ()).id("pair").await.unwrap();
            let both = async {
                while LIFE.load(Ordering::SeqCst) == 1 {
                    let stats = runtime.stats();
                    BOTH_THERE.store(stats.attempts == 1 && stats.attempts_waiting == 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            };
            let (result, ()) = tokio::join!(handle.result(), both);
            process::say(&format!("{result:?}"));
            runtime.stop().await;
        });
        return;
    }
    assert_eq!(lives(IN_TURN, 2), ["1: killed", "2: Ok(3)"]);
}

const AT_ONCE: &str = "crash::an_attempt_counts_though_the_process_dies_again_at_once";

/// BEHAVIOUR 3: found in review. Attempts that a process took along were counted in memory only until their instance had
/// run. If the next process died before that, they had never been.
#[test]
fn an_attempt_counts_though_the_process_dies_again_at_once() {
    if let Some((life, place)) = process::part() {
        let life: u32 = life.parse().unwrap();
        in_a_life(async {
            let config = Config::default().crash_limit(100);
            let builder = Runtime::builder().workflow(deadly).config(config);
            let runtime = builder.open(place.to_str().unwrap()).await.unwrap();
            if !life.is_multiple_of(2) {
                let handle = runtime.start(deadly, ()).id("deadly").await.unwrap();
                let _ = handle.result().await;
            }
            std::process::abort();
        });
    }
    let said = lives(AT_ONCE, 5);
    let said: Vec<_> = said.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    // It may have come to one in a life that was over at once.
    let expected: Vec<_> = (1..=said.len())
        .map(|number| format!("attempt {number} deadly/1/kill"))
        .collect();
    assert_eq!(said, expected);
    assert!(said.len() >= 3);
}

/// What a process does in one of its lives.
fn in_a_life(body: impl Future<Output = ()>) {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    executor.block_on(async {
        let lives = tokio::time::timeout(Duration::from_secs(60), body);
        lives.await.expect("a life is short");
    });
}

/// What the lives of a store have said.
fn lives(test: &str, count: u32) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let mut said = Vec::new();
    for life in 1..=count {
        let mut child = process::child(&[], test, &life.to_string(), &store);
        said.extend(process::lines(&mut child).map(|line| format!("{life}: {line}")));
        child.wait().unwrap();
    }
    said
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
