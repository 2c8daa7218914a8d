//! Bugs of taking an instance back.

use std::time::Duration;

use everstep::{ClosePolicy, Ctx, Handle, Policy, Result, Runtime, Sent, Workflow, ok};

use super::play;
use crate::runtime::ledger;

/// Gives the token of a promise away, and waits for what becomes of it.
struct Pledge;

impl Workflow for Pledge {
    const NAME: &'static str = "pledge";
    type Input = ();
    type Output = String;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<String> {
        let promise = ctx.promise::<String>("word")?;
        let token = promise.token();
        let give = move || {
            ledger::with(|ledger| ledger.note(format!("token {token}")));
            async { ok(()) }
        };
        ctx.step("give", give).await?;
        let word = promise.await?;
        ctx.sleep("later", "1h").await?;
        ok(word)
    }
}

/// What was noted behind this word, each time.
fn noted(word: &str) -> Vec<String> {
    let part = |line: &String| line.split_once(word).map(|(_, rest)| rest.trim().to_owned());
    ledger::with(|ledger| ledger.trace.iter().filter_map(part).collect())
}

async fn pledge(runtime: &Runtime) -> (Handle<Pledge>, String) {
    let pledge = runtime.start(Pledge, ()).await.unwrap().into_handle();
    while noted("token").is_empty() {
        tokio::task::yield_now().await;
    }
    (pledge, noted("token")[0].clone())
}

/// An instance was taken back to a promise. The step that had given its token away was not done again, and the token
/// decided nothing any more: nobody could decide the promise. BEHAVIOUR 46.
#[test]
fn a_token_that_was_given_away_decides_its_promise_after_a_reset_too() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Pledge).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let (pledge, token) = pledge(&runtime).await;
        pledge.reset("word").await.unwrap();
        assert_eq!(runtime.resolve(&token, &"yes").await.unwrap(), Sent::Accepted);
        // Decided, and taken back once more: it is there to be decided anew.
        pledge
            .reached(|status| status == everstep::storage::record::Status::Sleeping)
            .await
            .unwrap();
        pledge.reset("word").await.unwrap();
        assert_eq!(runtime.resolve(&token, &"no").await.unwrap(), Sent::Accepted);
        assert_eq!(pledge.result().await.unwrap(), "no");
        assert_eq!(noted("token"), [token]);
    });
}

/// A decision had been accepted and lay in the inbox of an instance that was paused. A reset threw it away as something
/// of the run before, and a second decision was a duplicate of it: the promise was open for good. BEHAVIOUR 46, FAULTS 1.
#[test]
fn a_decision_that_was_accepted_outlives_a_reset() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Pledge).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let (pledge, token) = pledge(&runtime).await;
        pledge.pause().await.unwrap();
        assert_eq!(runtime.resolve(&token, &"yes").await.unwrap(), Sent::Accepted);
        pledge.reset("word").await.unwrap();
        pledge.resume().await.unwrap();
        assert_eq!(pledge.result().await.unwrap(), "yes");
    });
}

/// Passes a gate, and does what is behind it.
struct Gated;

impl Workflow for Gated {
    const NAME: &'static str = "gated";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let version = ctx.version("gate", 2)?;
        ctx.step(&format!("way {version}"), || async { ok(()) }).await?;
        ctx.sleep("nap", "1h").await?;
        ok(version)
    }
}

/// An instance was taken back to a gate. What it had done behind the gate stayed, and which version it had followed did
/// not: its code took the oldest way, history had the other one, and it was stuck for good. BEHAVIOUR 29, 46.
#[test]
fn a_reset_to_a_gate_does_not_divide_an_instance_from_its_history() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Gated).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let gated = runtime.start(Gated, ()).await.unwrap();
        gated
            .reached(|status| status == everstep::storage::record::Status::Sleeping)
            .await
            .unwrap();
        gated.reset("gate").await.unwrap();
        assert_eq!(gated.result().await.unwrap(), 2);
    });
}

/// Starts another one of itself, which sleeps.
struct Nest;

impl Workflow for Nest {
    const NAME: &'static str = "nest";
    type Input = bool;
    type Output = ();

    async fn run(ctx: Ctx<Self>, outer: bool) -> Result<()> {
        if outer {
            let child = ctx.child(Self, false).start().await?;
            ledger::with(|ledger| ledger.note(format!("child {}", child.id())));
            child.await?;
        }
        ok(ctx.sleep("nap", "1h").await?)
    }
}

/// A parent was taken back to where it had started its child. The child stayed, and the parent was given the id of one
/// that was never started. BEHAVIOUR 34, 46.
#[test]
fn the_handle_of_a_child_names_the_child_after_a_reset_too() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Nest).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let nest = runtime.start(Nest, true).await.unwrap();
        while noted("child").is_empty() {
            tokio::task::yield_now().await;
        }
        let history = nest.history().await.unwrap();
        let start = history
            .entries
            .iter()
            .find(|entry| entry.path.ends_with("/start"))
            .unwrap();
        nest.reset(&start.path).await.unwrap();
        nest.result().await.unwrap();
        for child in noted("child") {
            runtime.handle(Nest, &child).unwrap().status().await.unwrap();
        }
    });
}

/// Is over soon.
struct Brief;

impl Workflow for Brief {
    const NAME: &'static str = "brief";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        ctx.sleep("nap", "1s").await?;
        ok(7)
    }
}

/// Waits for another one that it does not take with it, and not for long; if it comes to nothing, it tidies up.
struct Hurried;

impl Workflow for Hurried {
    const NAME: &'static str = "hurried";
    type Input = ();
    type Output = u32;

    fn policy() -> Policy {
        Policy::new().deadline("10s")
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let child = ctx.child(Brief, ()).close(ClosePolicy::Abandon).start().await?;
        let outcome = child.await;
        if outcome.is_err() {
            ctx.shield().sleep("tidy up", "1s").await?;
        }
        ok(outcome?)
    }
}

/// How a child had ended lay unread in the inbox of its parent when that ran out of time, and was thrown away. The parent
/// was given another chance and told once more; but it had heard of it, so that was a duplicate, and it waited for the
/// child for good. BEHAVIOUR 34, 46.
#[test]
fn a_parent_that_did_not_listen_hears_of_its_child_when_it_is_tried_again() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Hurried).workflow(Brief);
        let runtime = opening.open_simulated(machine).await.unwrap();
        let hurried = runtime.start(Hurried, ()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        hurried.pause().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        hurried.resume().await.unwrap();
        let late = hurried.result().await.unwrap_err();
        assert!(late.to_string().contains("deadline"), "{late}");
        hurried.retry().await.unwrap();
        assert_eq!(hurried.result().await.unwrap(), 7);
    });
}
