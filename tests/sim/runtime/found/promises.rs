//! Bugs of promises that are decided at the last moment.

use std::time::Duration;

use everstep::clock::Clock;
use everstep::storage::record::Status;
use everstep::{Ctx, Error, Handle, Result, Runtime, Sent, Workflow, ok};

use super::{COMMIT, play, slow};

/// Waits for a promise, and not for ever.
struct Impatient;

impl Workflow for Impatient {
    const NAME: &'static str = "impatient";
    type Input = ();
    type Output = String;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<String> {
        let promise = ctx.promise::<String>("word")?;
        ctx.emit(promise.token())?;
        ok(promise.timeout("10s").await?)
    }
}

/// An instance that gives its promise up so many milliseconds from now, and the token.
async fn waiting(runtime: &Runtime, clock: &dyn Clock) -> (Handle<Impatient>, String, u64) {
    let impatient = runtime.start(Impatient, ()).await.unwrap().into_handle();
    let token = impatient.stream::<String>().next().await.unwrap().unwrap().value;
    let waits = impatient.reached(|status| status == Status::Waiting).await;
    assert_eq!(waits.unwrap(), Status::Waiting);
    let until = impatient.status().await.unwrap().wakes_at_ms.unwrap();
    (impatient, token, until - clock.now_ms())
}

/// A decision was accepted while the instance, which had not seen it yet, gave the promise up: whoever decided was told
/// that it counts, and it did not. BEHAVIOUR 17.
#[test]
fn a_promise_whose_decision_was_accepted_is_not_given_up() {
    play(|machine| async {
        let machine = slow(machine);
        let clock = std::sync::Arc::clone(&machine.clock);
        let opening = Runtime::builder().workflow(Impatient).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let (impatient, token, left) = waiting(&runtime, &*clock).await;
        // On its way when the time is over, and not durable.
        tokio::time::sleep(Duration::from_millis(left) - COMMIT / 2).await;
        assert_eq!(runtime.resolve(&token, &"yes").await.unwrap(), Sent::Accepted);
        assert_eq!(impatient.result().await.unwrap(), "yes");
    });
}

/// The other way round: the instance gave the promise up while a decision was on its way, which was accepted and lost.
#[test]
fn a_decision_that_comes_too_late_is_told_so() {
    play(|machine| async {
        let machine = slow(machine);
        let clock = std::sync::Arc::clone(&machine.clock);
        let opening = Runtime::builder().workflow(Impatient).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let (impatient, token, left) = waiting(&runtime, &*clock).await;
        tokio::time::sleep(Duration::from_millis(left) + COMMIT / 2).await;
        let late = runtime.resolve(&token, &"yes").await;
        assert!(matches!(late, Err(Error::TooLate(_))), "{late:?}");
        assert!(impatient.result().await.is_err());
        // Taken back, it waits again, and the token that it has told decides it.
        impatient.reset("word").await.unwrap();
        assert_eq!(runtime.resolve(&token, &"now").await.unwrap(), Sent::Accepted);
        assert_eq!(impatient.result().await.unwrap(), "now");
    });
}
