//! BEHAVIOUR 41: one id is one instance, and a start says what it found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::limits::PAYLOAD_BYTES_MAX;
use everstep::storage::record::Status;
use everstep::{Ctx, Existing, Moment, Result, ok, workflow};
use futures_util::future::join_all;

use crate::kit::{after, echo, everyone, machine, naps, open, pass};

/// FAULTS 52.
#[tokio::test(start_paused = true)]
async fn a_thousand_starts_of_one_id_are_one_instance() {
    let runtime = open().await;
    let starts = (0..1_000).map(|number| runtime.start(echo, number % 2).id("one").into_future());
    let started: Vec<_> = join_all(starts).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(started.iter().filter(|started| !started.existed()).count(), 1);
    let winner = started[0].result().await.unwrap();
    for (number, started) in (0..).zip(&started) {
        assert_eq!(started.input_differs(), number % 2 != winner, "start {number}");
        assert_eq!(started.result().await.unwrap(), winner);
    }
    assert_eq!(started[0].status().await.unwrap().run, 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_to_be_refused_is() {
    let runtime = open().await;
    runtime.start(echo, 1).id("one").await.unwrap();
    let refused = runtime.start(echo, 1).id("one").if_exists(Existing::Refuse).await;
    assert_eq!(refused.unwrap_err().code(), "ES0404");
}

#[tokio::test(start_paused = true)]
async fn one_that_has_ended_begins_another_run_if_asked() {
    let runtime = open().await;
    let first = runtime.start(naps, 5).id("one").await.unwrap();
    let early = runtime
        .start(naps, 6)
        .id("one")
        .if_exists(Existing::NewRun)
        .await
        .unwrap();
    assert!(early.existed(), "it has not ended");
    assert_eq!(first.result().await.unwrap(), 5);
    let renewals = (0..10).map(|_| {
        let start = runtime.start(naps, 7).id("one").if_exists(Existing::NewRun);
        start.tag("round", "two").into_future()
    });
    let renewed = join_all(renewals).await.into_iter().map(Result::unwrap);
    assert_eq!(renewed.filter(|started| !started.existed()).count(), 1, "one of ten");
    assert_eq!(first.result().await.unwrap(), 7);
    let description = first.status().await.unwrap();
    assert_eq!((description.run, description.tags["round"].as_str()), (2, "two"));
    assert_eq!(first.history().await.unwrap().entries.len(), 1, "only of this run");
}

#[workflow(name = "a/name\nthat is no id")]
async fn oddly_named(_ctx: Ctx<OddlyNamed>) -> Result<()> {
    ok(())
}

#[tokio::test(start_paused = true)]
async fn an_id_is_made_of_the_type_and_a_ulid() {
    let runtime = everyone()
        .workflow(oddly_named)
        .open_simulated(machine())
        .await
        .unwrap();
    let (one, two) = (
        runtime.start(echo, 1).await.unwrap(),
        runtime.start(echo, 1).await.unwrap(),
    );
    assert_ne!(one.id(), two.id());
    let (kind, ulid) = one.id().as_str().rsplit_once('-').unwrap();
    assert_eq!((kind, ulid.len()), ("echo", 26));
    let odd = runtime.start(oddly_named, ()).await.unwrap();
    assert!(odd.id().as_str().starts_with("a_name_that is no id-"), "{}", odd.id());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_registered_is_not_started() {
    let runtime = open().await;
    assert_eq!(runtime.start(oddly_named, ()).await.unwrap_err().code(), "ES0405");
    runtime.start(echo, 1).id("one").await.unwrap();
    assert_eq!(runtime.start(naps, 1).id("one").await.unwrap_err().code(), "ES0406");
    assert_eq!(runtime.handle(naps, "one").unwrap_err().code(), "ES0406");
    let many = (0..33).fold(runtime.start(echo, 1), |start, tag| start.tag(tag.to_string(), ""));
    assert_eq!(many.await.unwrap_err().code(), "ES0409");
    assert_eq!(
        runtime.start(echo, 1).deadline("soon").await.unwrap_err().code(),
        "ES0104"
    );
    assert_eq!(runtime.start(echo, 1).id("a/b").await.unwrap_err().code(), "ES0101");
}

#[tokio::test(start_paused = true)]
async fn a_start_for_later_waits_for_its_time() {
    let runtime = open().await;
    let later = runtime.start(echo, 1).at(after(Duration::from_secs(60))).await.unwrap();
    // News before the time does not begin it.
    runtime.nudge(later.id().as_str()).unwrap();
    pass(Duration::from_secs(59)).await;
    assert_eq!(later.status().await.unwrap().status, Status::Pending);
    assert_eq!(later.result().await.unwrap(), 1);
    let ended = later.status().await.unwrap();
    assert_eq!(ended.updated_at_ms - ended.created_at_ms, 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_start_for_later_can_be_cancelled_before_it_begins() {
    let runtime = open().await;
    let later = runtime.start(echo, 1).at(after(Duration::from_secs(60))).await.unwrap();
    assert!(later.cancel("not needed").await.unwrap().is_done());
    pass(Duration::from_secs(90)).await;
    assert_eq!(later.status().await.unwrap().status, Status::Cancelled);
}

/// Found in review: of two starts that found an instance at its end, and wanted it to begin again, the second was told as a
/// start as well, although there was nothing left for it to do.
#[tokio::test(start_paused = true)]
async fn of_two_starts_that_begin_another_run_one_does() {
    let started = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&started);
    let builder = everyone().on_lifecycle(move |life| {
        counting.fetch_add(u32::from(life.moment == Moment::Started), Ordering::Relaxed);
    });
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let start = || {
        runtime
            .start(naps, 60)
            .id("again")
            .if_exists(Existing::NewRun)
            .into_future()
    };
    start().await.unwrap().result().await.unwrap();
    let (one, two) = futures_util::join!(start(), start());
    let existed = [one.unwrap().existed(), two.unwrap().existed()];
    assert_eq!(existed.iter().filter(|existed| **existed).count(), 1);
    assert_eq!(started.load(Ordering::Relaxed), 2);
}

/// Takes texts, of any length.
#[workflow(accepts(Text), version = 2)]
async fn reads(ctx: Ctx<Reads>, text: String) -> Result<usize> {
    ok(text.len() + ctx.receive::<Text>().await?.0.len())
}

#[derive(everstep::Message, serde::Serialize, serde::Deserialize)]
struct Text(String);

/// Found in a review: values that were too large to be of any use were stored, and a version that nobody has was taken.
#[tokio::test(start_paused = true)]
async fn what_is_too_large_or_too_new_is_refused_at_the_door() {
    let runtime = everyone().workflow(reads).open_simulated(machine()).await.unwrap();
    let large = "x".repeat(PAYLOAD_BYTES_MAX + 1);
    let started = runtime.start(reads, String::new()).version(1).await.unwrap();
    assert_eq!(started.status().await.unwrap().version, 1);
    let refused = [
        runtime.start(reads, large.clone()).await.unwrap_err(),
        runtime
            .start_named("reads", serde_json::json!(large))
            .await
            .unwrap_err(),
        runtime
            .debounce("k", "1m")
            .starts(reads, large.clone())
            .await
            .unwrap_err(),
        started.send(Text(large.clone())).await.unwrap_err(),
        started.send_named("Text", serde_json::json!(large)).await.unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.code() == "ES0301"), "{refused:?}");
    let new = String::new;
    let refused = [
        runtime.start(reads, new()).version(3).await.unwrap_err(),
        runtime
            .start_named("reads", serde_json::json!(""))
            .version(3)
            .await
            .unwrap_err(),
        runtime
            .debounce("k", "1m")
            .starts(reads, new())
            .version(3)
            .await
            .unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.code() == "ES0422"), "{refused:?}");
    assert_eq!(runtime.list().count().await.unwrap(), 1, "nothing was stored");
}

static REPLAYS: AtomicU32 = AtomicU32::new(0);

/// Sleeps for a day, and counts how often it is called.
#[workflow]
async fn counted(ctx: Ctx<Counted>) -> Result<()> {
    REPLAYS.fetch_add(1, Ordering::Relaxed);
    ok(ctx.sleep("a day", "1d").await?)
}

/// Found in an audit: ten duplicates of the start of an instance that slept brought it into memory eleven times.
#[tokio::test(start_paused = true)]
async fn a_duplicate_start_wakes_nobody_who_has_nothing_to_do() {
    let runtime = everyone().workflow(counted).open_simulated(machine()).await.unwrap();
    let slept = runtime.start(counted, ()).id("one").await.unwrap();
    for _ in 0..10 {
        pass(Duration::from_secs(60)).await;
        assert!(runtime.start(counted, ()).id("one").await.unwrap().existed());
    }
    assert_eq!(REPLAYS.load(Ordering::Relaxed), 1);
    slept.result().await.unwrap();
    assert_eq!(REPLAYS.load(Ordering::Relaxed), 2, "its alarm still rings");
}
