//! BEHAVIOUR 44 and 45: operators' verbs do what they say, say what was so before, and are harmless twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::{Ctx, Effect, Error, Result, ok, workflow};

use crate::kit::{Word, echo, everyone, machine, naps, open, pass, waits};

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
    pass(Duration::from_secs(90)).await;
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

/// Takes its time to undo what it did, and to begin again.
#[workflow(retries(limit = 3, delay = "1h"))]
async fn regrets(ctx: Ctx<Regrets>, undoes: bool) -> Result<()> {
    if undoes {
        let undo = |(): ()| async {
            pass(Duration::from_secs(3_600)).await;
            ok(())
        };
        ctx.step("done", || async { ok(()) }).rollback(undo).await?;
    }
    Err(everstep::WorkflowError::msg("it failed"))
}

async fn cancelled(undoes: bool, while_it_is: Status) {
    let runtime = everyone().workflow(regrets).open_simulated(machine()).await.unwrap();
    let regrets = runtime.start(regrets, undoes).await.unwrap();
    regrets.reached(|status| status == while_it_is).await.unwrap();
    let cancelling = tokio::time::timeout(Duration::from_secs(60), regrets.cancel("enough"));
    let cancelled = cancelling.await.expect("it is answered at once").unwrap();
    assert_eq!((cancelled.effect, cancelled.before), (Effect::Done, while_it_is));
    let end = regrets.reached(Status::is_terminal).await.unwrap();
    assert_eq!(
        (end, regrets.status().await.unwrap().run),
        (Status::Cancelled, 1 + u32::from(!undoes))
    );
    let Error::Failed(failure) = regrets.result().await.unwrap_err() else {
        panic!("it was cancelled");
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Cancelled, "enough")
    );
}

/// Found in review: whoever cancelled an instance between two runs was told that it had ended by itself.
#[tokio::test(start_paused = true)]
async fn a_cancel_between_two_runs_is_done() {
    cancelled(false, Status::BackingOff).await;
}

/// Found in review: whoever cancelled an instance that undid what it had done was kept waiting for all of it.
#[tokio::test(start_paused = true)]
async fn a_cancel_during_an_undoing_is_recorded_and_keeps_the_next_run_from_beginning() {
    cancelled(true, Status::Compensating).await;
}

/// How often the step of [`charges`] was called.
static CHARGED: AtomicU32 = AtomicU32::new(0);

/// A step of a minute.
#[workflow]
async fn charges(ctx: Ctx<Charges>) -> Result<u32> {
    let charge = || async {
        CHARGED.fetch_add(1, Ordering::Relaxed);
        pass(Duration::from_secs(60)).await;
        ok(1)
    };
    ok(ctx.step("charge", charge).await?)
}

/// Found in review: whatever an operation came to, the instance had to leave memory for it first. A running step was
/// cancelled and made again for a retry of what runs, for a deletion that was refused, for a reset to nowhere; and a batch
/// did that to everyone who matched.
#[tokio::test(start_paused = true)]
async fn what_changes_nothing_disturbs_nobody() {
    let runtime = everyone().workflow(charges).open_simulated(machine()).await.unwrap();
    let handle = runtime.start(charges, ()).await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(handle.retry().await.unwrap().effect, Effect::Already);
    pass(Duration::from_secs(1)).await;
    assert_eq!(handle.release().await.unwrap().effect, Effect::Already);
    pass(Duration::from_secs(1)).await;
    assert_eq!(handle.delete().await.unwrap_err().code(), "ES0411");
    pass(Duration::from_secs(1)).await;
    assert_eq!(handle.reset("nowhere").await.unwrap_err().code(), "ES0413");
    pass(Duration::from_secs(1)).await;
    let everyone = || runtime.batch(runtime.list().workflow("charges"));
    for (id, batch) in [("retry", everyone().retry()), ("delete", everyone().delete())] {
        let progress = batch.start(id).await.unwrap().finished().await.unwrap();
        assert_eq!((progress.matched, progress.unchanged), (1, 1), "{id}");
    }
    assert_eq!(handle.result().await.unwrap(), 1);
    assert_eq!(
        CHARGED.load(Ordering::Relaxed),
        1,
        "its step was cancelled and made again"
    );
}

/// Found by the simulation, which had two traces for one seed: whoever waits for the places of what is cancelled comes in
/// the order in which these become free.
#[tokio::test(start_paused = true)]
async fn what_is_cancelled_is_so_in_the_order_in_which_it_began() {
    static CANCELLED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

    struct Cancelled(u32);

    impl Drop for Cancelled {
        fn drop(&mut self) {
            CANCELLED.lock().unwrap().push(self.0);
        }
    }

    #[workflow]
    async fn holds_many(ctx: Ctx<HoldsMany>) -> Result<()> {
        let hold = |ctx: Ctx<HoldsMany>, number| async move {
            let hold = move || async move {
                let _held = Cancelled(number);
                std::future::pending::<Result<()>>().await
            };
            ok(ctx.step("hold", hold).await?)
        };
        ctx.map("all", 0..12, 12, hold).await?;
        ok(())
    }

    let runtime = everyone().workflow(holds_many).open_simulated(machine()).await.unwrap();
    let holds = runtime.start(holds_many, ()).await.unwrap();
    pass(Duration::from_secs(1)).await;
    holds.terminate("enough").await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(*CANCELLED.lock().unwrap(), (0..12).collect::<Vec<_>>());
}
