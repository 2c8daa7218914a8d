//! Messages arrive, once each, and in their order.

use everstep::{AnyHandle, Sent};
use futures_util::future::join_all;

use crate::kit::{Word, everyone, machine, open, waits};

/// FAULTS 16.
#[tokio::test(start_paused = true)]
async fn of_a_hundred_sends_with_one_id_one_is_delivered() {
    let runtime = open().await;
    let waits = runtime.start(waits, 2).await.unwrap();
    let sends = (0..100).map(|number| waits.send(Word(number)).id("same").into_future());
    let sent: Vec<_> = join_all(sends).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(sent.iter().filter(|sent| **sent == Sent::Accepted).count(), 1);
    assert_eq!(sent.iter().filter(|sent| **sent == Sent::Duplicate).count(), 99);
    let accepted = sent.iter().position(|sent| *sent == Sent::Accepted).unwrap();
    waits.send(Word(1_000)).await.unwrap();
    assert_eq!(waits.result().await.unwrap(), [accepted as u64, 1_000]);
}

/// FAULTS 17.
#[tokio::test(start_paused = true)]
async fn unknown_finished_and_deleted_are_three_errors() {
    let runtime = open().await;
    let unknown = runtime.handle(waits, "nobody").unwrap();
    assert_eq!(unknown.send(Word(1)).await.unwrap_err().code(), "ES0401");
    let finished = runtime.start(waits, 0).await.unwrap();
    finished.result().await.unwrap();
    assert_eq!(finished.send(Word(1)).await.unwrap_err().code(), "ES0407");
    finished.delete().await.unwrap();
    assert_eq!(finished.send(Word(1)).await.unwrap_err().code(), "ES0408");
    assert_eq!(finished.status().await.unwrap_err().code(), "ES0408");
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
    let again = runtime.start(waits, 0).id(finished.id().as_str()).await.unwrap();
    assert!(!again.existed(), "the id is free");
    assert!(again.result().await.unwrap().is_empty());
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// BEHAVIOUR 16: messages that come before anybody waits are kept, across a restart too.
#[tokio::test(start_paused = true)]
async fn messages_before_listening_are_kept_in_order() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let waiting = runtime.start(waits, 200).id("one").await.unwrap();
    waiting.pause().await.unwrap();
    for number in 0..200 {
        assert_eq!(waiting.send(Word(number)).await.unwrap(), Sent::Accepted);
    }
    runtime.stop().await;
    drop(waiting);
    let runtime = everyone().open_simulated(machine).await.unwrap();
    let waiting = runtime.handle(waits, "one").unwrap();
    assert!(AnyHandle::status(&waiting).await.unwrap().paused);
    waiting.resume().await.unwrap();
    assert_eq!(waiting.result().await.unwrap(), (0..200).collect::<Vec<_>>());
}
