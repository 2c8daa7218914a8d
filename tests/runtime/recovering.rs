//! BEHAVIOUR 49: a start says what it found. BEHAVIOUR 3: attempts and what became of them outlive the process.

use std::time::Duration;

use everstep::Runtime;
use everstep::storage::record::Status;

use crate::kit::{everyone, fails, machine, naps, pass, waits};

#[tokio::test(start_paused = true)]
async fn a_report_tells_who_has_something_to_do() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    for (id, seconds) in [("soon", 60), ("later", 7_200), ("much later", 86_400)] {
        let handle = runtime.start(naps, seconds).id(id).await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
    }
    let waiting = runtime.start(waits, 1).id("waits").await.unwrap();
    waiting.reached(|status| status == Status::Waiting).await.unwrap();
    runtime.stop().await;
    drop((runtime, waiting));
    pass(Duration::from_secs(3_600)).await;
    let runtime = everyone().open_simulated(machine).await.unwrap();
    let found = runtime.recovery();
    assert_eq!((found.due, found.later), (1, 2));
    assert_eq!(
        (found.runnable, found.unknown, found.crashed, found.quarantined),
        (0, 0, 0, 0)
    );
}

/// The number, the error, the beginning and the length of a failed attempt are there after a restart, and the wait for
/// the next one goes on.
#[tokio::test(start_paused = true)]
async fn attempts_are_told_after_a_restart() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let failing = runtime.start(fails, ()).id("fails").await.unwrap();
    failing.reached(|status| status == Status::BackingOff).await.unwrap();
    let began = failing.status().await.unwrap().created_at_ms;
    runtime.stop().await;
    drop((runtime, failing));
    let runtime = Runtime::builder()
        .workflow(fails)
        .open_simulated(machine)
        .await
        .unwrap();
    let failing = runtime.handle(fails, "fails").unwrap();
    assert_eq!(failing.reached(Status::is_terminal).await.unwrap(), Status::Failed);
    let history = failing.history().await.unwrap();
    let attempts = history.at("charge").unwrap().attempts.as_ref().unwrap();
    // Found in review: of the last attempt nothing was kept but its error.
    let [first, last] = &attempts.failed[..] else {
        panic!("{attempts:?}");
    };
    assert_eq!((first.number, first.failure.message.as_str()), (1, "no money"));
    assert_eq!((first.started_at_ms, first.duration_ms), (began, 0));
    assert_eq!((last.number, last.failure.message.as_str()), (2, "no money"));
    assert_eq!((Some(last.started_at_ms), last.duration_ms), (attempts.next_at_ms, 0));
    assert_eq!(failing.result().await.unwrap_err().code(), "ES0402");
}
