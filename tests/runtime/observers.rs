//! Who hears of failures.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep::{Builder, Config, Consequence, Every, Existing, Moment, Runtime, Status};

use crate::kit::{echo, everyone, fails, machine, naps, pass};
use crate::machine::{Machine, in_virtual_time, settle};

type Heard = Arc<Mutex<Vec<(String, u32, Consequence)>>>;

/// A runtime whose failures are written down.
fn heard(heard: &Heard) -> Builder {
    let heard = Arc::clone(heard);
    Runtime::builder()
        .workflow(fails)
        .workflow(naps)
        .on_error(|_| panic!("an observer with a fault"))
        .on_error(move |incident| {
            let instance = incident.instance.to_string();
            heard
                .lock()
                .unwrap()
                .push((instance, incident.run, incident.consequence));
        })
}

/// BEHAVIOUR 12: an observer hears of each retryable failure, of the final one and of the failure of the workflow, each
/// exactly once: not again when the instance is replayed, and not again by the next process. An observer that panics
/// harms neither the instance nor the next observer.
#[test]
fn each_failure_is_told_once() {
    in_virtual_time(async {
        // Zero: the instance leaves memory between its attempts, and is replayed for the second.
        for idle in [Duration::ZERO, Duration::from_secs(3600)] {
            let (machine, told) = (Machine::new(), Heard::default());
            let config = Config::default().idle(idle);
            {
                let runtime = machine.open(heard(&told), config.clone()).await;
                runtime.start(fails, ()).id("f").await.unwrap();
                settle().await;
                assert_eq!(told.lock().unwrap().len(), 1, "{told:?}");
            }
            let runtime = machine.open(heard(&told), config.clone()).await;
            let handle = runtime.handle(fails, "f").unwrap();
            handle.result().await.unwrap_err();
            drop(runtime);
            let runtime = machine.open(heard(&told), config).await;
            runtime.start(naps, 1).id("n").await.unwrap().result().await.unwrap();
            let told = told.lock().unwrap().clone();
            assert!(
                matches!(
                    &told[..],
                    [
                        (_, 1, Consequence::Retry { .. }),
                        (_, 1, Consequence::StepFailed),
                        (_, 1, Consequence::WorkflowFailed),
                    ]
                ),
                "idle {idle:?}: {told:?}"
            );
            assert!(told.iter().all(|(instance, ..)| instance == "f"), "{told:?}");
        }
    });
}

/// Found in a review: an instance that was retried ended twice and began once, a start that found an instance told that
/// it had begun, and what the runtime itself is made of was told of as well.
#[tokio::test(start_paused = true)]
async fn every_life_begins_and_ends_once() {
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let telling = Arc::clone(&told);
    let builder = everyone().on_lifecycle(move |lifecycle| {
        let instance = lifecycle.instance.to_string();
        telling.lock().unwrap().push((instance, lifecycle.moment));
    });
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let schedule = runtime
        .schedule("hourly", Every::new("1h"))
        .starts(echo, 7)
        .await
        .unwrap();
    schedule.delete().await.unwrap();
    let failed = runtime.start(fails, ()).id("f").await.unwrap();
    failed.result().await.unwrap_err();
    failed.retry().await.unwrap();
    failed.result().await.unwrap_err();
    failed.reset("charge").await.unwrap();
    failed.result().await.unwrap_err();
    let slept = runtime.start(naps, 60).id("n").await.unwrap();
    let again = runtime
        .start(naps, 60)
        .id("n")
        .if_exists(Existing::NewRun)
        .await
        .unwrap();
    assert!(again.existed());
    slept.result().await.unwrap();
    pass(Duration::from_secs(1)).await;
    let (began, failed) = (Moment::Started, Moment::Ended(Status::Failed));
    let expected = [
        ("f", began),
        ("f", failed),
        ("f", began),
        ("f", failed),
        ("f", began),
        ("f", failed),
        ("n", began),
        ("n", Moment::Ended(Status::Completed)),
    ];
    assert_eq!(
        *told.lock().unwrap(),
        expected.map(|(instance, moment)| (instance.to_owned(), moment))
    );
}
