//! A crash at every commit: what survives passes, and what does not is found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use everstep::storage::record::Status;
use everstep::testing::{Harness, Mock};
use everstep::{Ctx, Effect, Loop, Message, Operated, Result, Runtime, Sent, activity, branch, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::{assert_says, report};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(String))]
struct Where;

#[activity(retries = 5)]
async fn charge(amount: u32) -> Result<u32> {
    unreachable!("no bank: {amount}")
}

#[workflow]
async fn ships(ctx: Ctx<Ships>, item: u32) -> Result<String> {
    ctx.sleep("packing", "2d").await?;
    ok(format!("shipped {item} {}", ctx.random() % 100))
}

/// A bit of everything.
#[workflow(accepts(Approval, Where))]
async fn order(ctx: Ctx<Order>, amount: u32) -> Result<String> {
    let (one, two) = ctx
        .join(
            "prepare",
            (
                branch("one", |ctx: Ctx<Order>| async move {
                    ok(ctx.step("s", || async { ok(1) }).await?)
                }),
                branch("two", |ctx: Ctx<Order>| async move {
                    ok(ctx.step("s", || async { ok(2) }).await?)
                }),
            ),
        )
        .await?;
    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    let paid = ctx.run(charge, amount).await?;
    let body = |ctx: Ctx<Order>, number: u32| async move {
        let more = ctx.step("look", move || async move { ok(number < 3) }).await?;
        ok(if more {
            Loop::Continue(number + 1)
        } else {
            Loop::Break(number)
        })
    };
    let looked = ctx.repeat("rounds", 1, body).await?;
    ctx.question::<Where>().await?.reply(&"at the door".to_owned())?;
    let shipped = ctx.child(ships, one + two).await?;
    ok(format!("{} {paid} {looked} {shipped}", approval.by))
}

fn orders() -> Harness {
    let harness = Harness::new(Runtime::builder().workflow(order).workflow(ships));
    harness.mocking("charge", Mock::fails("closed").then_returns(20))
}

#[test]
fn a_script_with_messages_and_children_survives_a_crash_anywhere() {
    let result = orders().crash_everywhere(|harness| {
        let order = harness.start(order, 20);
        harness.advance("1d");
        order.send(Approval { by: "kim".into() });
        harness.run_until_idle();
        assert_eq!(order.ask(Where), "at the door");
        order.run_until_complete()
    });
    let result = result.unwrap();
    assert!(result.starts_with("kim 20 3 shipped 3 "), "{result}");
}

#[test]
fn several_instances_survive_a_crash_anywhere() {
    let ended = orders().crash_everywhere(|harness| {
        let [one, two] = [harness.start(ships, 1), harness.start(ships, 2)];
        one.cancel("not wanted");
        harness.run_until_idle();
        (one.status(), two.status())
    });
    assert_eq!(ended, (Status::Cancelled, Status::Completed));
}

#[test]
fn a_crash_in_the_middle_loses_nothing() {
    let harness = orders();
    let order = harness.start(order, 20);
    harness.crash();
    order.send(Approval { by: "kim".into() });
    harness.crash();
    harness.run_until_idle();
    order.assert_waits_for("Where");
    harness.evict();
    harness.assert_called("charge", 2);
    assert_eq!(order.ask(Where), "at the door");
    harness.crash();
    order.run_until_complete().unwrap();
    harness.assert_called("prepare/one/s", 1);
}

/// Everyone is dropped, also those who are at work: what they were doing is done again.
#[test]
fn whoever_is_evicted_leaves_memory() {
    let harness = orders();
    harness.mock("charge", Mock::returns(1).taking("10s"));
    harness.start(ships, 1);
    let order = harness.start(order, 20);
    order.send(Approval { by: "kim".into() });
    harness.advance("5s");
    harness.assert_called("charge", 1);
    harness.evict();
    harness.assert_called("charge", 2);
    let residents = harness.call(async |runtime| runtime.stats().residents);
    assert_eq!(residents, 1, "only whoever is at work has come back");
}

/// The process is down, and time goes by without it.
#[test]
fn nothing_happens_while_the_process_is_down() {
    let harness = orders();
    harness.mock("charge", Mock::returns(1).taking("10s"));
    let (ships, order) = (harness.start(ships, 1), harness.start(order, 20));
    order.send(Approval { by: "kim".into() });
    harness.assert_called("charge", 1);
    let before = harness.now();
    harness.be_down_for("1h");
    assert_eq!(harness.now(), before + std::time::Duration::from_secs(3_600));
    harness.assert_called("charge", 2);
    ships.assert_status(Status::Sleeping);
    harness.be_down_for("2d");
    assert!(ships.result().unwrap().is_ok(), "what came due is late, and not lost");
}

#[test]
fn a_step_that_runs_when_the_process_dies_runs_again() {
    let harness = orders();
    harness.mock("charge", Mock::returns(1).taking("10s"));
    let order = harness.start(order, 20);
    order.send(Approval { by: "kim".into() });
    harness.advance("5s");
    harness.crash();
    harness.assert_called("charge", 2);
    harness.advance("5s");
    order.assert_status(Status::Running);
    harness.advance("5s");
    order.assert_waits_for("Where");
}

/// Three steps in a row.
#[workflow]
async fn stairs(ctx: Ctx<Stairs>) -> Result<()> {
    for stair in ["first", "second", "third"] {
        ctx.step(stair, || async { ok(()) }).await?;
    }
    ok(())
}

/// The process dies at every commit, not only at the first: each step is made again in some of the plays, in those that
/// die when its result is about to be stored.
#[test]
fn every_commit_has_its_crash() {
    let harness = Harness::new(Runtime::builder().workflow(stairs));
    let most = std::cell::RefCell::new(std::collections::BTreeMap::<_, usize>::new());
    harness.crash_everywhere(|harness| {
        harness.start(stairs, ()).output();
        for stair in ["first", "second", "third"] {
            harness.assert_completed(stair, 1);
            let calls = harness.calls(stair).len();
            let mut most = most.borrow_mut();
            let most = most.entry(stair).or_default();
            *most = calls.max(*most);
        }
    });
    let most = most.into_inner();
    assert!(most.len() == 3 && most.values().all(|calls| *calls == 2), "{most:?}");
}

/// Waits for a promise, and then for a word.
#[workflow(accepts(Approval))]
async fn trusts(ctx: Ctx<Trusts>) -> Result<String> {
    let promise = ctx.promise::<String>("word")?;
    ctx.set("token", promise.token())?;
    ctx.step("ask for it", || async { ok(()) }).await?;
    let word = promise.await?;
    ctx.receive::<Approval>().await?;
    ok(word)
}

/// Packs, and waits.
#[workflow]
async fn waits(ctx: Ctx<Waits>) -> Result<()> {
    ctx.step("pack", || async { ok(()) }).await?;
    ok(ctx.sleep("packing", "2d").await?)
}

/// A call that the process died of was made again, and the test got the answer to the second one: a promise that it had
/// kept was said to have been decided before, a cancellation that was done to have been asked for already, a message that
/// was accepted to be a duplicate. Scripts that look at their answers failed on code that is sound.
#[test]
fn a_call_that_the_process_died_of_has_the_answer_to_the_first_one() {
    let app = || Harness::new(Runtime::builder().workflow(trusts).workflow(waits));
    app().crash_everywhere(|harness| {
        let trusts = harness.start(trusts, ());
        let token: String = trusts.query("token").unwrap();
        assert!(harness.resolve(&token, &"yes"));
        assert!(!harness.resolve(&token, &"no"));
        assert_eq!(trusts.try_send(Approval { by: "kim".into() }).unwrap(), Sent::Accepted);
        assert_eq!(trusts.output(), "yes");
    });
    app().crash_everywhere(|harness| {
        let waits = harness.start(waits, ());
        let told = |done: Operated| (done.effect, done.before);
        assert_eq!(told(waits.pause()), (Effect::Done, Status::Sleeping));
        assert_eq!(told(waits.pause()), (Effect::Already, Status::Paused));
        assert_eq!(told(waits.cancel("not yet")), (Effect::Asked, Status::Paused));
        assert!(waits.reset("pack").is_done(), "which takes it back");
        assert_eq!(told(waits.resume()), (Effect::Done, Status::Paused));
        assert!(waits.cancel("not wanted").is_done());
        assert_eq!(told(waits.cancel("not wanted")), (Effect::Ended, Status::Cancelled));
        assert!(waits.reset("pack").is_done());
        assert_eq!(waits.describe().run, 3);
        assert!(waits.terminate("at once").is_done());
        assert!(waits.retry().is_done());
        assert_eq!(waits.describe().run, 4);
        assert_eq!(told(waits.release()).0, Effect::Already);
        assert!(waits.terminate("at once").is_done());
        waits.delete();
        assert!(harness.instances().is_empty());
    });
}

/// Counts in memory what it should have counted on disk.
#[workflow]
async fn counts(ctx: Ctx<Counts>) -> Result<u32> {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    let count = || async { ok(CALLED.fetch_add(1, Ordering::SeqCst)) };
    ok(ctx.step("count", count).await?)
}

#[test]
fn a_difference_in_the_outcome_is_told_with_the_crash() {
    let harness = Harness::new(Runtime::builder().workflow(counts));
    let says = report(|| harness.crash_everywhere(|harness| harness.start(counts, ()).run_until_complete()));
    assert_says(
        &says,
        &[
            "a crash before commit",
            "made a difference",
            "expected: Ok(",
            "step `count`",
        ],
    );
}

#[test]
fn a_difference_in_what_is_recorded_is_told_with_its_place() {
    let harness = Harness::new(Runtime::builder().workflow(counts));
    let says = report(|| {
        harness.crash_everywhere(|harness| {
            harness.start(counts, ()).run_until_complete().unwrap();
        });
    });
    assert_says(
        &says,
        &[
            "made a difference",
            "recorded at `count` of counts-1",
            "expected: step ",
        ],
    );
}

#[test]
fn a_script_that_panics_after_a_crash_is_told_with_the_crash() {
    let harness = Harness::new(Runtime::builder().workflow(ships));
    let played = Arc::new(AtomicU32::new(0));
    let says = report(|| {
        harness.crash_everywhere(|harness| {
            harness.start(ships, 1);
            let times = played.fetch_add(1, Ordering::SeqCst);
            assert!(times < 2, "the third time");
        });
    });
    assert_says(&says, &["a crash after commit", "the script panicked: the third time"]);
}
