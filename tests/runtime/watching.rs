//! Changes are seen as they happen; who is too slow is told.

use everstep::Watched;
use everstep::limits::WATCH_CHANGES_MAX;
use everstep::storage::record::Status;

use crate::kit::{echo, naps, open};

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_an_instance_through_to_its_end() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    let (mut watch, mut seen) = (naps.watch(), Vec::new());
    while let Some(change) = watch.next().await.unwrap() {
        seen.push((change.revision, change.status.unwrap()));
    }
    assert!(seen.is_sorted_by(|one, two| one.0 < two.0), "{seen:?}");
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
