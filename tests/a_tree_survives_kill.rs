//! A tree of workflows is killed with SIGKILL in the middle, again and again: every child is started once, every result
//! and message reaches whom it is for once. FAULTS 1, 58 and 59.
//!
//! The test starts itself as a child process that says how far the tree is; the parent kills it there and lets the next
//! process carry on in the same directory.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it expects by unwrapping it"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use everstep::storage::OpenOptions;
use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

const STORE: &str = "EVERSTEP_TEST_TREE";

/// The line at which a process stops.
const HALT: &str = "EVERSTEP_TEST_TREE_HALT";

#[derive(Debug, Message, Serialize, Deserialize)]
struct Leaf(u32);

/// Counts the leaves that report to it.
#[workflow(accepts(Leaf))]
async fn counter(ctx: Ctx<Counter>, leaves: usize) -> Result<Vec<u32>> {
    let mut seen = Vec::new();
    while seen.len() < leaves {
        let Leaf(number) = ctx.receive().await?;
        seen.push(number);
    }
    seen.sort_unstable();
    ok(seen)
}

/// Two subtrees, or a leaf that reports itself.
#[workflow]
async fn tree(ctx: Ctx<Tree>, (depth, number): (u32, u32)) -> Result<u32> {
    say(&format!("node {depth} {number}"));
    if depth == 0 {
        ctx.send(counter, "counter", Leaf(number)).await?;
        return ok(number);
    }
    let left = ctx.child(tree, (depth - 1, number * 2)).start().await?;
    let right = ctx.child(tree, (depth - 1, number * 2 + 1)).start().await?;
    let sum = left.await? + right.await?;
    say(&format!("sum {depth} {number}"));
    ok(sum)
}

async fn run(store: &Path) {
    let builder = Runtime::builder().workflow(counter).workflow(tree);
    let runtime = builder.open(store.to_str().unwrap()).await.unwrap();
    let counter = runtime.start(counter, 16).id("counter").await.unwrap();
    let tree = runtime.start(tree, (4, 1)).id("root").await.unwrap();
    let (sum, seen) = (tree.result().await.unwrap(), counter.result().await.unwrap());
    say(&format!("result {sum} {seen:?}"));
}

/// Says how far it is. Where this process is to be killed, the code that says so goes no further: so nothing above it in
/// the tree ends.
fn say(line: &str) {
    println!("\nEVERSTEP {line}");
    std::io::stdout().flush().unwrap();
    if std::env::var(HALT).is_ok_and(|halt| line.starts_with(&halt)) {
        loop {
            std::thread::park();
        }
    }
}

/// Starts a process that stops at a place, if it is given one.
fn spawn(store: &Path, halt: Option<&str>) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_tree_grows_on", "--nocapture"])
        .env(STORE, store)
        .envs(halt.map(|halt| (HALT, halt)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(std::result::Result::unwrap);
    (
        child,
        lines.filter_map(|line| line.strip_prefix("EVERSTEP ").map(str::to_owned)),
    )
}

#[test]
fn a_killed_tree_grows_on() {
    if let Ok(store) = std::env::var(STORE) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(Path::new(&store)));
        return;
    }
    let leaves: Vec<u32> = (16..32).collect();
    let expected = format!("result {} {leaves:?}", leaves.iter().sum::<u32>());
    for kills in [
        &["node 3"][..],
        &["node 1", "node 0"],
        &["sum 1"],
        &["node 2", "node 0", "sum 1", "sum 2", "sum 3"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        for milestone in kills {
            let (mut child, mut lines) = spawn(&store, Some(milestone));
            // Found in review: a life that came to its end counted as one that was killed.
            let reached = lines.any(|line| line.starts_with(milestone));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(reached, "the child never got to {milestone:?} of {kills:?}");
            let report = OpenOptions::new().verify(store.to_str().unwrap()).unwrap();
            assert!(report.is_clean(), "{report}");
        }
        let (mut child, mut lines) = spawn(&store, None);
        let result = lines.find(|line| line.starts_with("result"));
        assert_eq!(result.as_ref(), Some(&expected), "after {kills:?}");
        assert!(child.wait().unwrap().success());
        let report = OpenOptions::new().verify(store.to_str().unwrap()).unwrap();
        assert!(report.is_clean(), "{report}");
    }
}
