//! A batch is killed with SIGKILL in the middle of a page, again and again: the next process carries on, and everyone
//! gets what was sent to all of them, once.
//!
//! The test starts itself as a child process. The message is one whose reading stops the whole process at a given place,
//! which is inside the operation of the batch; there the parent kills it. So where it dies does not depend on time.

#![cfg(feature = "fjall")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::sync::atomic::{AtomicU64, Ordering};

use everstep::storage::OpenOptions;
use everstep::{Config, Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

#[path = "kit/process.rs"]
mod process;

const TEST: &str = "a_killed_batch_carries_on_and_does_nothing_twice";

/// Two pages and a half.
const MANY: u64 = 250;

/// Gifts that may still be read before this process stops.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

#[derive(Debug, Message, Serialize)]
struct Gift(u64);

impl<'de> Deserialize<'de> for Gift {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            process::say("stopped");
            loop {
                std::thread::park();
            }
        }
        u64::deserialize(deserializer).map(Self)
    }
}

#[derive(Debug, Message, Serialize, Deserialize)]
struct Count;

/// Reads no gift before it is told to count them.
#[workflow(accepts(Gift, Count))]
async fn receiver(ctx: Ctx<Receiver>) -> Result<Vec<u64>> {
    ctx.receive::<Count>().await?;
    let mut gifts = Vec::new();
    while let Some(Gift(gift)) = ctx.receive().within("0s").await? {
        gifts.push(gift);
    }
    ok(gifts)
}

/// One life of the process: starts what is not there yet, and lets the batch go on.
async fn live(store: &str) {
    // One receiver too many in memory would change nothing, and take longer.
    let config = Config::default().residents_max(50).crash_limit(100);
    let builder = Runtime::builder().workflow(receiver).config(config);
    let runtime = builder.open(store).await.unwrap();
    for number in 0..MANY {
        runtime.start(receiver, ()).id(format!("r{number}")).await.unwrap();
    }
    let batch = runtime.batch(runtime.list().workflow("receiver")).send(&Gift(7));
    let progress = batch.start("gifts").await.unwrap().finished().await.unwrap();
    process::say(&format!(
        "done {} unchanged {} failed {}",
        progress.done, progress.unchanged, progress.failed
    ));
    let mut wrong = 0;
    for number in 0..MANY {
        let receiver = runtime.handle(receiver, &format!("r{number}")).unwrap();
        receiver.send(Count).id("count").await.unwrap();
        wrong += u64::from(receiver.result().await.unwrap() != [7]);
    }
    process::say(&format!("wrong {wrong}"));
    runtime.stop().await;
}

#[test]
fn a_killed_batch_carries_on_and_does_nothing_twice() {
    if let Some((part, place)) = process::part() {
        LEFT.store(part.parse().unwrap(), Ordering::SeqCst);
        let executor = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        executor.block_on(live(place.to_str().unwrap()));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    // At the first of all; in the middle of a page; again before that page is done; in the last page.
    for left in [0, 40, 70, 230] {
        let mut child = process::child(&[], TEST, &left.to_string(), &store);
        let mut lines = process::lines(&mut child);
        let said = lines.next();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(said.as_deref(), Some("stopped"), "after {left} of them");
        let report = OpenOptions::new().verify(store.to_str().unwrap()).unwrap();
        assert!(report.is_clean(), "{report}");
    }
    let mut child = process::child(&[], TEST, &u64::MAX.to_string(), &store);
    let said: Vec<_> = process::lines(&mut child).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        said,
        [format!("done {MANY} unchanged 0 failed 0"), "wrong 0".to_owned()]
    );
}
