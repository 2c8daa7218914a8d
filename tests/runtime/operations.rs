//! BEHAVIOUR 44 and 45: operators' verbs do what they say, say what was so before, and are harmless twice.

use everstep::storage::record::{FailureKind, Status};
use everstep::{Effect, Error};

use crate::kit::{Word, echo, everyone, machine, naps, open, waits};

#[tokio::test(start_paused = true)]
async fn a_paused_sleeper_wakes_when_it_is_resumed() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    assert_eq!(naps.resume().await.unwrap().effect, Effect::Already);
    assert_eq!(naps.pause().await.unwrap().effect, Effect::Done);
    let again = naps.pause().await.unwrap();
    assert_eq!((again.effect, again.now), (Effect::Already, Status::Paused));
    assert_eq!(naps.result().timeout("2m").await.unwrap_err().code(), "ES0410");
    let resumed = naps.resume().await.unwrap();
    assert_eq!((resumed.effect, resumed.before), (Effect::Done, Status::Paused));
    assert_eq!(naps.result().timeout("1s").await.unwrap(), 60);
    assert_eq!(naps.pause().await.unwrap().effect, Effect::Ended);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_recorded_once_and_ends_the_wait() {
    let runtime = open().await;
    let waits = runtime.start(waits, 1).await.unwrap();
    waits.reached(|status| status == Status::Waiting).await.unwrap();
    let cancelled = waits.cancel("changed my mind").await.unwrap();
    assert_eq!((cancelled.effect, cancelled.before), (Effect::Done, Status::Waiting));
    let Error::Failed(failure) = waits.result().await.unwrap_err() else {
        panic!("it was cancelled");
    };
    assert_eq!(failure.kind, FailureKind::Cancelled);
    let late = waits.cancel("again").await.unwrap();
    assert_eq!((late.effect, late.now), (Effect::Ended, Status::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_paused_instance_is_cancelled_when_it_is_resumed() {
    let runtime = open().await;
    let waits = runtime.start(waits, 1).await.unwrap();
    waits.pause().await.unwrap();
    assert_eq!(waits.cancel("one").await.unwrap().effect, Effect::Asked);
    assert_eq!(waits.cancel("two").await.unwrap().effect, Effect::Already);
    waits.resume().await.unwrap();
    let end = waits.reached(Status::is_terminal).await.unwrap();
    assert_eq!(end, Status::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_terminated_instance_is_over_at_once() {
    let runtime = open().await;
    let naps = runtime.start(naps, 60).await.unwrap();
    let ended = naps.terminate("enough").await.unwrap();
    assert_eq!((ended.effect, ended.now), (Effect::Done, Status::Terminated));
    let Error::Failed(failure) = naps.result().await.unwrap_err() else {
        panic!("it was terminated");
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Terminated, "enough")
    );
    for again in [
        naps.terminate("again").await,
        naps.cancel("again").await,
        naps.pause().await,
    ] {
        let again = again.unwrap();
        assert_eq!((again.effect, again.now), (Effect::Ended, Status::Terminated));
    }
    crate::kit::pass(std::time::Duration::from_secs(90)).await;
    assert_eq!(
        naps.status().await.unwrap().status,
        Status::Terminated,
        "no alarm is left"
    );
}

#[tokio::test(start_paused = true)]
async fn only_what_has_ended_is_deleted_unless_forced() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let waiting = runtime.start(waits, 1).id("one").await.unwrap();
    assert_eq!(waiting.delete().await.unwrap_err().code(), "ES0411");
    waiting.send(Word(1)).await.unwrap();
    waiting.result().await.unwrap();
    waiting.delete().await.unwrap();
    assert_eq!(waiting.delete().await.unwrap_err().code(), "ES0408");
    let napping = runtime.start(naps, 60).id("two").await.unwrap();
    napping.delete_anyway("no longer wanted").await.unwrap();
    assert_eq!(napping.result().await.unwrap_err().code(), "ES0408");
    runtime.stop().await;
    let runtime = everyone().open_simulated(machine).await.unwrap();
    assert_eq!(
        runtime.instance("two").unwrap().status().await.unwrap_err().code(),
        "ES0408"
    );
    assert!(!runtime.start(echo, 1).id("one").await.unwrap().existed());
}
