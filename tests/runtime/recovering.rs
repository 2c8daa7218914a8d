//! BEHAVIOUR 49: a start says what it found. BEHAVIOUR 3: attempts and what became of them outlive the process.

use std::sync::Arc;
use std::time::Duration;

use everstep::limits::PAGE_ROWS_MAX;
use everstep::storage::engines::faulty::{Faulty, Plan};
use everstep::storage::record::Status;
use everstep::{Ctx, Result, Runtime, critical, workflow};
use futures_util::future::join_all;

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
    assert_eq!(found.due, 1);
    assert_eq!(
        (found.runnable, found.unknown, found.crashed, found.quarantined),
        (0, 0, 0, 0)
    );
    let resting = runtime.resting().await.unwrap();
    assert_eq!((resting.later, resting.waiting), (2, 1));
    assert_eq!(
        (resting.paused, resting.stuck, resting.parked, resting.quarantined),
        (0, 0, 0, 0)
    );
}

/// BEHAVIOUR 49: whoever is held is counted too, by what holds them.
#[tokio::test(start_paused = true)]
async fn those_who_are_held_are_counted() {
    #[workflow(strategy = "quarantine")]
    async fn kept(_ctx: Ctx<Kept>) -> Result<()> {
        Err(critical(std::io::Error::other("no money")))
    }

    let machine = machine();
    let builder = || everyone().workflow(kept);
    let runtime = builder().open_simulated(machine.clone()).await.unwrap();
    let paused = runtime.start(waits, 1).await.unwrap();
    paused.pause().await.unwrap();
    let kept = runtime.start(kept, ()).await.unwrap();
    kept.reached(|status| status == Status::Quarantined).await.unwrap();
    let unknown = runtime.start(naps, 60).id("unknown").await.unwrap();
    unknown.reached(|status| status == Status::Sleeping).await.unwrap();
    runtime.stop().await;
    drop((runtime, paused, kept, unknown));
    pass(Duration::from_secs(60)).await;
    let runtime = Runtime::builder()
        .workflow(waits)
        .open_simulated(machine)
        .await
        .unwrap();
    let unknown = runtime.instance("unknown").unwrap();
    unknown.reached(|status| status == Status::Parked).await.unwrap();
    let resting = runtime.resting().await.unwrap();
    assert_eq!((resting.paused, resting.quarantined, resting.parked), (1, 1, 1));
}

/// BEHAVIOUR 49, found in an audit: a start read every alarm there was, only to count them. With a million sleepers it was
/// slow, and nobody waited for the number.
#[tokio::test(start_paused = true)]
async fn a_start_reads_no_more_with_many_sleepers() {
    let reads_at_start = async |sleepers: u64| {
        let machine = machine();
        let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
        let starts = (0..sleepers).map(|_| runtime.start(naps, 86_400).into_future());
        let started: Vec<_> = join_all(starts)
            .await
            .into_iter()
            .map(std::result::Result::unwrap)
            .collect();
        for sleeper in &started {
            sleeper.reached(|status| status == Status::Sleeping).await.unwrap();
        }
        runtime.stop().await;
        drop((runtime, started));
        let plan = Plan::new();
        let engine = Faulty::new(Arc::clone(&machine.engine), plan.clone());
        let machine = everstep::Simulated {
            engine: Arc::new(engine),
            ..machine
        };
        let runtime = everyone().open_simulated(machine).await.unwrap();
        let reads = plan.counts().2;
        assert_eq!(runtime.resting().await.unwrap().later, sleepers);
        reads
    };
    let few = reads_at_start(1).await;
    assert_eq!(reads_at_start(4 * PAGE_ROWS_MAX as u64).await, few);
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
