//! FAULTS 73: a process that is told to end stops its runtime, in time and with nothing lost; told again, it ends at once.

use std::path::Path;
use std::process::{Child, Command};

use everstep::storage::record::Status;
use everstep::{Config, Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::process;

/// Tells the step of the child that it may end: the process has been told to.
static TOLD: Notify = Notify::const_new();

#[derive(Message, Serialize, Deserialize)]
struct Word(u64);

/// A step that ends when the process is told to end, and another one.
#[workflow]
async fn works(ctx: Ctx<Works>) -> Result<u32> {
    let first = || async {
        process::say("works");
        TOLD.notified().await;
        ok(1)
    };
    let first = ctx.step("first", first).await?;
    let second = || async {
        process::say("works on");
        ok(1)
    };
    ok(first + ctx.step("second", second).await?)
}

/// Takes a word after a day.
#[workflow(accepts(Word))]
async fn dozes(ctx: Ctx<Dozes>) -> Result<u64> {
    ctx.sleep("a day", "1d").await?;
    ok(ctx.receive::<Word>().await?.0)
}

async fn open(store: &Path) -> Runtime {
    // Longer than a test may take: who waits for its end waits for ever.
    let config = Config::default().grace("1d");
    let builder = Runtime::builder().workflow(works).workflow(dozes).config(config);
    builder.open(store.to_str().unwrap()).await.unwrap()
}

/// The child: does what the guide says a program should do.
async fn serve(store: &Path, mut terminated: Signal, settles: bool) {
    let runtime = open(store).await;
    let dozing = runtime.start(dozes, ()).id("dozes").await.unwrap();
    dozing.reached(|status| status == Status::Sleeping).await.unwrap();
    dozing.send(Word(7)).await.unwrap();
    runtime.start(works, ()).id("works").await.unwrap();
    terminated.recv().await;
    process::say("told to end");
    let stopping = async {
        // The runtime is told to stop before the step may end.
        let stop = runtime.stop();
        tokio::pin!(stop);
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::task::yield_now() => {}
        }
        if settles {
            TOLD.notify_one();
        }
        process::say("stopping");
        stop.await;
    };
    tokio::select! {
        () = stopping => process::say("stopped"),
        _ = terminated.recv() => process::say("told again"),
    }
}

/// Plays the child's part, if this process is one.
fn is_child() -> bool {
    let Some((part, store)) = process::part() else {
        return false;
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let executor = builder.worker_threads(1).enable_all().build().unwrap();
    executor.block_on(async {
        let terminated = signal(SignalKind::terminate()).unwrap();
        serve(&store, terminated, part == "settles").await;
    });
    true
}

fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// What a child says until it ends, when it is told to at these words.
fn told_at(test: &str, part: &str, store: &Path, words: &[&str]) -> Vec<String> {
    let mut child = process::child(&[], test, part, store);
    let mut said = Vec::new();
    for line in process::lines(&mut child) {
        if words.contains(&line.as_str()) {
            terminate(&child);
        }
        said.push(line);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said:?}");
    said
}

/// What the next process finds: everything that was acknowledged, and nothing done twice.
async fn carries_on(store: &Path, first_was_done: bool) {
    let runtime = open(store).await;
    assert_eq!(runtime.recovery().crashed, 0, "a stop is no crash");
    let dozing = runtime.handle(dozes, "dozes").unwrap();
    let seen = dozing.status().await.unwrap();
    assert_eq!(seen.status, Status::Sleeping);
    assert_eq!(runtime.resting().await.unwrap().later, 1, "its alarm is there");
    let works = runtime.handle(works, "works").unwrap();
    let history = works.history().await.unwrap();
    let done = history.at("first").is_some_and(|first| first.completed.is_some());
    assert_eq!(done, first_was_done);
    TOLD.notify_one();
    assert_eq!(works.result().await.unwrap(), 2);
    runtime.stop().await;
}

/// The attempt that runs may end, and is recorded; what follows it is left to the next process.
#[test]
fn a_signal_stops_in_time_and_loses_nothing() {
    if is_child() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let test = "signals::a_signal_stops_in_time_and_loses_nothing";
    let said = told_at(test, "settles", &store, &["works"]);
    assert_eq!(said, ["works", "told to end", "stopping", "stopped"]);
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(carries_on(&store, true));
}

/// The attempt that runs never ends, and the grace is a day. Whoever says it twice does not wait.
#[test]
fn a_second_signal_ends_it_at_once() {
    if is_child() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let test = "signals::a_second_signal_ends_it_at_once";
    let said = told_at(test, "stays", &store, &["works", "stopping"]);
    assert_eq!(said, ["works", "told to end", "stopping", "told again"]);
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(carries_on(&store, false));
}
