//! Operations on many: everyone who matches, once, whatever ends in the middle.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{BatchStart, Config, List, Runtime};

use crate::kit::{Word, after, echo, everyone, machine, naps, open, pass, waits};

/// More than two pages, with an odd one at the end.
const MANY: u64 = 217;

/// So many that wait for a word.
async fn waiting(runtime: &Runtime, word_count: usize) {
    waiting_some(runtime, MANY, word_count).await;
}

async fn waiting_some(runtime: &Runtime, many: u64, word_count: usize) {
    for number in 0..many {
        let start = runtime.start(waits, word_count).id(format!("w{number:03}"));
        start.tag("parity", (number % 2).to_string()).await.unwrap();
    }
}

async fn count(runtime: &Runtime, status: Status) -> u64 {
    runtime.list().status(status).count().await.unwrap()
}

/// Lets it finish, and says what was done, left and failed.
async fn finish(batch: BatchStart, id: &str) -> (u64, u64, u64) {
    let progress = batch.start(id).await.unwrap().finished().timeout("1d").await.unwrap();
    assert!(progress.is_over);
    assert_eq!(progress.matched, progress.done + progress.unchanged + progress.failed);
    (progress.done, progress.unchanged, progress.failed)
}

#[tokio::test(start_paused = true)]
async fn each_operation_is_done_for_everyone_who_matches() {
    let runtime = open().await;
    waiting(&runtime, 1).await;
    let all = || runtime.batch(runtime.list().workflow("waits"));
    let odd = || runtime.batch(runtime.list().tag("parity", "1"));
    let (evens, odds) = (MANY.div_ceil(2), MANY / 2);
    assert_eq!(finish(odd().pause(), "pause").await, (odds, 0, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(count(&runtime, Status::Paused).await, odds);
    assert_eq!(finish(all().pause(), "pause the rest").await, (evens, odds, 0));
    assert_eq!(finish(all().resume(), "resume").await, (MANY, 0, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(count(&runtime, Status::Waiting).await, MANY);
    assert_eq!(
        finish(odd().delete(), "too early").await,
        (0, odds, 0),
        "none has ended"
    );
    assert_eq!(finish(odd().cancel("odd"), "cancel").await, (odds, 0, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(count(&runtime, Status::Cancelled).await, odds);
    assert_eq!(finish(all().cancel("all"), "cancel all").await, (evens, odds, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(
        finish(odd().retry(), "retry what failed").await,
        (0, odds, 0),
        "who was cancelled did not fail"
    );
    let cancelled = |list: List| list.status(Status::Cancelled);
    let odd_ones = runtime.batch(cancelled(runtime.list().tag("parity", "1")));
    assert_eq!(finish(odd_ones.retry(), "retry").await, (odds, 0, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(count(&runtime, Status::Waiting).await, odds);
    assert_eq!(finish(all().send(&Word(7)), "send").await, (odds, evens, 0));
    pass(Duration::from_secs(1)).await;
    assert_eq!(count(&runtime, Status::Completed).await, odds);
    let ended = cancelled(runtime.list().workflow("waits")).status(Status::Completed);
    assert_eq!(
        finish(runtime.batch(ended).retry(), "retry all").await,
        (evens, odds, 0),
        "a result is kept"
    );
    assert_eq!(finish(all().terminate("enough"), "terminate").await, (evens, odds, 0));
    assert_eq!(finish(odd().delete(), "delete").await, (odds, 0, 0));
    assert_eq!(runtime.list().count().await.unwrap(), evens);
    assert!(runtime.store().verify().unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_and_changes_nothing() {
    let runtime = open().await;
    waiting(&runtime, 1).await;
    runtime.start(echo, 1).id("e").await.unwrap().result().await.unwrap();
    pass(Duration::from_secs(1)).await;
    let all = || runtime.batch(runtime.list());
    for (batch, applicable) in [
        (all().cancel("x"), MANY),
        (all().terminate("x"), MANY),
        (all().pause(), MANY),
        (all().send(&Word(1)), MANY),
        (all().resume(), 0),
        (all().retry(), 0),
        (all().delete(), 1),
    ] {
        let counted = batch.dry_run().await.unwrap();
        assert_eq!((counted.matched, counted.applicable), (MANY + 1, applicable));
    }
    assert_eq!(count(&runtime, Status::Waiting).await, MANY);
    assert_eq!(runtime.list().workflow("__batch").count().await.unwrap(), 0);
    // Nor does it count what the runtime itself is made of.
    finish(all().pause(), "one").await;
    assert_eq!(all().delete().dry_run().await.unwrap().matched, MANY + 1);
    let own = runtime.batch(runtime.list().workflow("__batch")).delete();
    assert_eq!(own.dry_run().await.unwrap().matched, 0);
}

/// Who is started after the batch began is not included, and who ends before their turn comes is left as they are.
#[tokio::test(start_paused = true)]
async fn who_comes_later_is_not_included() {
    let runtime = open().await;
    waiting(&runtime, 1).await;
    let later = runtime.start(naps, 60).id("later").at(after(Duration::from_secs(600)));
    later.await.unwrap();
    let batch = runtime.batch(runtime.list()).cancel("now").start("b").await.unwrap();
    pass(Duration::from_millis(2)).await;
    runtime.start(waits, 1).id("new").await.unwrap();
    let progress = batch.finished().await.unwrap();
    assert_eq!((progress.done, progress.matched), (MANY + 1, MANY + 1));
    pass(Duration::from_secs(1)).await;
    let status = async |id: &str| runtime.instance(id).unwrap().status().await.unwrap().status;
    assert_eq!(status("new").await, Status::Waiting);
    assert_eq!(
        status("later").await,
        Status::Cancelled,
        "it was there, and had not begun"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_id_is_the_same_batch() {
    let runtime = open().await;
    waiting(&runtime, 2).await;
    let all = || runtime.batch(runtime.list().workflow("waits"));
    for _ in 0..2 {
        assert_eq!(finish(all().send(&Word(1)), "words").await, (MANY, 0, 0));
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(count(&runtime, Status::Waiting).await, MANY, "each got one word of two");
    let other = all().send(&Word(2)).start("words").await.unwrap_err();
    assert_eq!(other.code(), "ES0404");
    assert_eq!(all().send(&Word(2)).start("__no").await.unwrap_err().code(), "ES0101");
    let handle = runtime.batch_handle("words").unwrap();
    assert_eq!(handle.progress().await.unwrap().done, MANY);
    handle.delete().await.unwrap();
    let unknown = runtime.batch_handle("never").unwrap().progress().await.unwrap_err();
    assert_eq!(unknown.code(), "ES0401");
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_done_is_counted_and_told() {
    let runtime = open().await;
    for number in 0..40 {
        runtime.start(naps, 600).id(format!("n{number:02}")).await.unwrap();
    }
    waiting(&runtime, 1).await;
    let batch = runtime
        .batch(runtime.list())
        .send(&Word(1))
        .start("words")
        .await
        .unwrap();
    let progress = batch.finished().await.unwrap();
    assert_eq!((progress.done, progress.failed), (MANY, 40));
    assert_eq!(progress.failures.len(), 32);
    assert_eq!(
        (progress.failures[0].id.as_str(), progress.failures[0].code.as_str()),
        ("n00", "ES0417")
    );
    let value = serde_json::json!("no number");
    let batch = runtime.batch(runtime.list().workflow("naps")).send_named("Word", value);
    assert_eq!(finish(batch, "wrong").await, (0, 0, 40));
}

/// A batch is a resident itself. With room for one, it must not wait for what others do in memory.
#[tokio::test(start_paused = true)]
async fn a_batch_needs_no_place_but_its_own() {
    let config = Config::default().residents_max(1).attempts_max(1).idle(Duration::ZERO);
    let runtime = everyone().config(config).open_simulated(machine()).await.unwrap();
    waiting(&runtime, 1).await;
    let all = || runtime.batch(runtime.list().workflow("waits"));
    assert_eq!(finish(all().pause(), "pause").await, (MANY, 0, 0));
    pass(Duration::from_secs(60)).await;
    assert_eq!(finish(all().resume(), "resume").await, (MANY, 0, 0));
    pass(Duration::from_secs(60)).await;
    assert_eq!(finish(all().cancel("enough"), "cancel").await, (MANY, 0, 0));
    pass(Duration::from_secs(60)).await;
    assert_eq!(count(&runtime, Status::Cancelled).await, MANY);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_held_goes_on_when_it_is_let_go_and_leaves_off_when_it_is_cancelled() {
    let runtime = open().await;
    waiting(&runtime, 1).await;
    let batch = runtime.batch(runtime.list()).cancel("now").start("b").await.unwrap();
    batch.pause().await.unwrap();
    pass(Duration::from_secs(60)).await;
    assert!(!batch.progress().await.unwrap().is_over);
    batch.resume().await.unwrap();
    assert_eq!(batch.finished().await.unwrap().done, MANY);
    let batch = runtime.batch(runtime.list()).delete().start("c").await.unwrap();
    batch.pause().await.unwrap();
    batch.cancel("changed my mind").await.unwrap();
    batch.resume().await.unwrap();
    assert_eq!(batch.reached(Status::is_terminal).await.unwrap(), Status::Cancelled);
    assert!(batch.progress().await.unwrap().done < MANY);
}

/// A runtime that is gone at any moment leaves a batch that the next one carries on with. What was done is not done again:
/// everyone has one more run, though all of them fail again, and one word, though it is sent again.
#[tokio::test(start_paused = true)]
async fn a_batch_goes_on_after_a_crash_and_does_nothing_twice() {
    // A page and a half.
    const MANY: u64 = 150;
    for moments in [0, 5, 30, 120, 400, 1_000] {
        let machine = machine();
        let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
        for number in 0..MANY {
            let id = format!("f{number:03}");
            runtime.start(crate::kit::fails, ()).id(id).await.unwrap();
        }
        waiting_some(&runtime, MANY, 2).await;
        pass(Duration::from_secs(60)).await;
        let retry = |runtime: &Runtime| runtime.batch(runtime.list().workflow("fails")).retry();
        let send = |runtime: &Runtime| runtime.batch(runtime.list().workflow("waits")).send(&Word(5));
        drop(retry(&runtime).start("retry").await.unwrap());
        drop(send(&runtime).start("send").await.unwrap());
        for _ in 0..moments {
            tokio::task::yield_now().await;
        }
        drop(runtime);
        let runtime = everyone().open_simulated(machine).await.unwrap();
        assert_eq!(finish(retry(&runtime), "retry").await, (MANY, 0, 0), "{moments}");
        assert_eq!(finish(send(&runtime), "send").await, (MANY, 0, 0), "{moments}");
        pass(Duration::from_secs(60)).await;
        for number in 0..MANY {
            let failed = runtime
                .instance(&format!("f{number:03}"))
                .unwrap()
                .status()
                .await
                .unwrap();
            assert_eq!(
                (failed.run, failed.status),
                (2, Status::Failed),
                "{} {moments}",
                failed.id
            );
            let waits = runtime.handle(waits, &format!("w{number:03}")).unwrap();
            assert_eq!(waits.status().await.unwrap().status, Status::Waiting);
            waits.send(Word(6)).await.unwrap();
            assert_eq!(waits.result().await.unwrap(), [5, 6]);
        }
    }
}
