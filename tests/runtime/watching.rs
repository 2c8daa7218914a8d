//! Changes are seen as they happen; who is too slow is told.

use everstep::limits::WATCH_CHANGES_MAX;
use everstep::storage::record::Status;
use everstep::{Every, Watched};
use futures_util::StreamExt as _;

use crate::kit::{echo, naps, open};

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_an_instance_through_to_its_end() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    let (mut watch, mut seen) = (naps.watch(), Vec::new());
    while let Some(change) = watch.next().await.unwrap() {
        seen.push((change.revision, change.status.unwrap()));
    }
    // That it was begun with has no revision of its own.
    assert!(seen.is_sorted_by(|one, two| one.0 <= two.0 && one != two), "{seen:?}");
    assert!(seen.iter().any(|(_, status)| *status == Status::Sleeping), "{seen:?}");
    assert_eq!(seen.last().map(|(_, status)| *status), Some(Status::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_everybody_hears_of_everybody_or_is_told_that_it_did_not() {
    let runtime = open().await;
    let mut watch = runtime.watch();
    let one = runtime.start(echo, 1).await.unwrap();
    loop {
        let Some(Watched::Changed(change)) = watch.next().await.unwrap() else {
            panic!("nobody was too slow");
        };
        assert_eq!(change.id, *one.id());
        if change.status == Some(Status::Completed) {
            break;
        }
    }
    for number in 0..WATCH_CHANGES_MAX as u64 {
        runtime.start(echo, number).await.unwrap().result().await.unwrap();
    }
    let Some(Watched::Lagged(missed)) = watch.next().await.unwrap() else {
        panic!("it was too slow");
    };
    assert!(missed > 0);
    assert!(
        matches!(watch.next().await.unwrap(), Some(Watched::Changed(_))),
        "it goes on from there"
    );
}

/// Found in a review: four times the same was told of one commit, and what the runtime itself is made of was shown.
#[tokio::test(start_paused = true)]
async fn a_watcher_of_everybody_is_told_nothing_twice_and_nothing_of_the_runtime_itself() {
    let runtime = open().await;
    let mut watch = runtime.watch();
    runtime
        .schedule("hourly", Every::new("1h"))
        .starts(echo, 7)
        .await
        .unwrap();
    runtime.debounce("key", "1s").starts(echo, 1).await.unwrap();
    let slept = runtime.start(naps, 5).await.unwrap();
    slept.result().await.unwrap();
    slept.delete().await.unwrap();
    runtime.stop().await;
    let mut seen = Vec::new();
    while let Some(watched) = watch.next().await.unwrap() {
        let Watched::Changed(change) = watched else {
            panic!("nobody was too slow");
        };
        assert!(!change.id.as_str().starts_with("__"), "{change:?}");
        seen.push(change);
    }
    let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
    assert!(
        seen.iter()
            .any(|change| change.id == *slept.id() && change.status.is_none())
    );
}

/// Found in a review: an instance that never was was told to be deleted.
#[tokio::test(start_paused = true)]
async fn an_instance_that_never_was_can_not_be_watched() {
    let runtime = open().await;
    let mut nobody = runtime.instance("nobody").unwrap().watch();
    assert_eq!(nobody.next().await.unwrap_err().code(), "ES0401");
    let echo = runtime.start(echo, 1).await.unwrap();
    echo.result().await.unwrap();
    let mut watch = echo.watch();
    assert_eq!(watch.next().await.unwrap().unwrap().status, Some(Status::Completed));
    echo.delete().await.unwrap();
    assert_eq!(
        watch.next().await.unwrap().unwrap().status,
        None,
        "it went away meanwhile"
    );
    assert_eq!(watch.next().await.unwrap(), None);
    assert_eq!(echo.watch().next().await.unwrap_err().code(), "ES0408");
}

/// Watches and streams are streams like any other.
#[tokio::test(start_paused = true)]
async fn changes_are_a_stream() {
    let runtime = open().await;
    let slept = runtime.start(naps, 5).await.unwrap();
    let statuses: Vec<_> = slept
        .watch()
        .map(|change| change.unwrap().status.unwrap())
        .collect()
        .await;
    assert_eq!(statuses.last(), Some(&Status::Completed));
    let (all, stream) = (runtime.watch(), slept.stream::<u64>());
    runtime.stop().await;
    assert_eq!(all.collect::<Vec<_>>().await.len(), 0);
    assert_eq!(stream.collect::<Vec<_>>().await.len(), 0);
}
