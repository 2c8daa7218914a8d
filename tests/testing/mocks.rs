//! What stands in for activities and steps, and what is known of every call.

use everstep::storage::record::{FailureKind, Status};
use everstep::testing::{Harness, Mock};
use everstep::{Ctx, Loop, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::{assert_says, report};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Bill {
    amount: u32,
}

#[activity(retries = 2, timeout = "30s")]
async fn charge(bill: Bill) -> Result<String> {
    unreachable!("there is no bank in a test: {bill:?}")
}

#[workflow]
async fn pays(ctx: Ctx<Pays>, amount: u32) -> Result<String> {
    let room = ctx.step("reserve", || async { ok("room 7".to_owned()) }).await?;
    let paid = ctx.run(charge, Bill { amount }).await?;
    ok(format!("{room}, {paid}"))
}

#[workflow]
async fn pays_thrice(ctx: Ctx<PaysThrice>) -> Result<String> {
    let body = |ctx: Ctx<PaysThrice>, (number, paid): (u32, String)| async move {
        let next = ctx.run(charge, Bill { amount: number }).await?;
        let paid = format!("{paid} {next}");
        ok(if number == 3 {
            Loop::Break(paid)
        } else {
            Loop::Continue((number + 1, paid))
        })
    };
    ctx.repeat("payments", (1, String::new()), body).await
}

#[workflow]
async fn digs(ctx: Ctx<Digs>) -> Result<u32> {
    ok(ctx
        .step_blocking("dig", || -> Result<u32> { unreachable!("no spade") })
        .await?)
}

#[workflow]
async fn books(ctx: Ctx<Books>) -> Result<()> {
    ctx.step("room", || async { ok(7_u32) })
        .rollback(|room: u32| async move { ok(format!("gave back {room}")) })
        .await?;
    ctx.compensate(
        "tell the guest",
        "kim".to_owned(),
        |name: String| async move { ok(name) },
    );
    ctx.run(charge, Bill { amount: 1 }).await?;
    ok(())
}

fn all() -> Harness {
    let builder = Runtime::builder()
        .workflow(pays)
        .workflow(pays_thrice)
        .workflow(digs)
        .workflow(books);
    Harness::new(builder)
}

/// Found by a user: after a failure there could be a value and no function.
#[test]
fn a_stand_in_is_followed_by_any_other() {
    let harness = all();
    let counted = Mock::calls(|bill: Bill| ok(format!("paid {}", bill.amount)));
    harness.mock("charge", Mock::fails("503").then(counted.taking("3s")));
    let pays = harness.start(pays, 20);
    assert_eq!(pays.output(), "room 7, paid 20");
    harness.assert_called("charge", 2);
}

#[test]
fn an_activity_is_mocked_by_name_and_its_input_is_known() {
    let harness = all();
    harness.mock("charge", Mock::returns("paid"));
    let paid = harness.start(pays, 20).run_until_complete();
    assert_eq!(paid.unwrap(), "room 7, paid");
    let calls = harness.calls("charge");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].input::<Bill>(), Bill { amount: 20 });
    assert_eq!((calls[0].attempt, calls[0].mocked), (1, true));
    assert_eq!(calls[0].activity.as_deref(), Some("charge"));
    let reserved = harness.calls("reserve");
    assert_eq!(
        (reserved.len(), reserved[0].mocked),
        (1, false),
        "what is not mocked is known too"
    );
}

#[test]
fn a_named_step_is_mocked() {
    let harness = all();
    harness
        .mock("reserve", Mock::returns("the attic"))
        .mock("charge", Mock::returns("paid"));
    assert_eq!(harness.start(pays, 20).run_until_complete().unwrap(), "the attic, paid");
}

#[test]
fn a_sequence_is_gone_through_and_its_end_stays() {
    let harness = all();
    harness.mock(
        "charge",
        Mock::fails("closed").then_fails("still closed").then_returns("paid"),
    );
    let before = harness.now();
    let paid = harness.start(pays, 20);
    paid.assert_status(Status::BackingOff);
    assert_eq!(paid.run_until_complete().unwrap(), "room 7, paid");
    harness.assert_called("charge", 3);
    assert!(harness.now() > before, "retries wait");
    harness.start(pays, 21).run_until_complete().unwrap();
    harness.assert_called("charge", 4);
}

#[test]
fn a_failure_can_be_final() {
    let harness = all();
    harness.mock("charge", Mock::fails("closed"));
    let exhausted = harness.start(pays, 20).run_until_complete().unwrap_err();
    assert_eq!((exhausted.kind, exhausted.attempts), (FailureKind::Exhausted, 3));
    harness.mock("charge", Mock::fails_for_good("stolen card"));
    let critical = harness.start(pays, 20).run_until_complete().unwrap_err();
    assert_eq!(
        (critical.kind, critical.message.as_str()),
        (FailureKind::Critical, "stolen card")
    );
}

#[test]
fn a_function_sees_its_input_and_the_attempt() {
    let harness = all();
    harness.mock("charge", Mock::calls(|bill: Bill| ok(format!("{}", bill.amount * 2))));
    assert_eq!(harness.start(pays_thrice, ()).run_until_complete().unwrap(), " 2 4 6");
    harness.mock(
        "charge",
        Mock::sees(|call| match call.attempt {
            1 => Err(std::io::Error::other("once"))?,
            attempt => ok(format!("{}#{attempt}", call.path)),
        }),
    );
    let paid = harness.start(pays_thrice, ()).run_until_complete();
    assert_eq!(
        paid.unwrap(),
        " payments/payments~0/charge#2 payments/payments~1/charge#2 payments/payments~2/charge#2"
    );
}

#[test]
fn one_place_is_mocked_by_its_path() {
    let harness = all();
    harness
        .mock("charge", Mock::returns("any"))
        .mock("payments~1/charge", Mock::returns("second"));
    assert_eq!(
        harness.start(pays_thrice, ()).run_until_complete().unwrap(),
        " any second any"
    );
}

#[test]
fn a_mock_takes_time_and_may_take_too_long() {
    let harness = all();
    harness.mock("charge", Mock::returns("late").taking("20s"));
    let paid = harness.start(pays, 20);
    paid.assert_status(Status::Running);
    harness.advance("19s");
    assert!(paid.result().is_none());
    harness.advance("1s");
    assert_eq!(paid.result().unwrap().unwrap(), "room 7, late");
    harness.mock("charge", Mock::hangs());
    let failure = harness.start(pays, 20).run_until_complete().unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
}

#[test]
fn a_mock_can_be_taken_back_in_the_middle() {
    let harness = all();
    harness
        .mock("reserve", Mock::returns("the attic"))
        .mock("charge", Mock::fails("closed"));
    let paid = harness.start(pays, 20);
    harness.mock("charge", Mock::returns("paid")).unmock("reserve");
    assert_eq!(paid.run_until_complete().unwrap(), "the attic, paid");
    assert_eq!(harness.start(pays, 20).run_until_complete().unwrap(), "room 7, paid");
}

#[test]
fn what_blocks_is_mocked_too_and_need_not_be_quick() {
    let harness = all();
    harness.mock("dig", Mock::returns(3).taking("1h"));
    assert_eq!(harness.start(digs, ()).run_until_complete().unwrap(), 3);
}

#[test]
fn undoing_is_seen_and_mocked() {
    let harness = all();
    harness.mock("charge", Mock::rolls_back("no money"));
    let booked = harness.start(books, ());
    booked.run_until_complete().unwrap_err();
    booked.assert_status(Status::Compensated);
    let told = harness.calls("tell the guest");
    assert_eq!(told[0].input::<String>(), "kim");
    let undone = harness.calls("room");
    assert_eq!(undone.len(), 1, "{undone:?}");
}

/// An attempt that is made again after a crash must not take the next turn of its mock.
#[test]
fn a_crash_does_not_use_up_a_sequence() {
    let harness = all();
    harness.mock("charge", Mock::returns("1").then_returns("2").then_returns("3"));
    let paid = harness.crash_everywhere(|harness| harness.start(pays_thrice, ()).run_until_complete());
    assert_eq!(paid.unwrap(), " 1 2 3");
}

/// The work itself ran in its place, and nobody heard of it.
#[test]
fn a_mock_with_another_name_fails_the_test() {
    let fails = report(|| {
        let harness = all();
        harness.mock("dig", Mock::returns(3)).mock("dgi", Mock::returns(4));
        harness.start(digs, ()).output()
    });
    assert_says(
        &fails,
        &["`dgi`", "tests/testing/mocks.rs", "stood in for nothing", "dig"],
    );
}

#[test]
fn a_mock_that_a_script_uses_is_used() {
    let harness = all();
    harness.mock("dig", Mock::returns(3));
    assert_eq!(harness.crash_everywhere(|harness| harness.start(digs, ()).output()), 3);
}

#[test]
fn a_mock_that_is_shared_or_taken_back_may_be_unused() {
    let harness = all().mocking("charge", Mock::returns("paid"));
    harness.mock("dig", Mock::returns(3)).mock("room", Mock::returns(8));
    harness.unmock("room").mock("reserve", Mock::returns("the attic"));
    assert_eq!(harness.start(digs, ()).output(), 3);
    harness.assert_not_called("reserve");
}

/// It was an ordinary failure of the step, which a test of failures takes for the one that it looks for.
#[test]
fn a_mock_of_another_type_fails_the_test() {
    let returns = report(|| {
        let harness = all();
        harness.mock("charge", Mock::returns(5_u32));
        harness.start(pays, 20).run_until_complete()
    });
    assert_says(&returns, &["`charge` of pays-1", "String", "returned 5, a u32"]);
    let takes = report(|| {
        let harness = all();
        harness.mock("charge", Mock::calls(|amount: u32| ok(amount.to_string())));
        harness.start(pays, 20).run_until_complete()
    });
    assert_says(&takes, &["`charge`", "takes u32", "pays-1", "20"]);
}

#[test]
fn an_undoing_is_mocked_by_the_name_of_its_step() {
    let harness = all();
    harness.mock("charge", Mock::rolls_back("no money"));
    harness.mock("room/rollback", Mock::calls(|room: u32| ok(format!("kept {room}"))));
    harness.mock("tell the guest", Mock::returns("told"));
    let booked = harness.start(books, ());
    booked.run_until_complete().unwrap_err();
    booked.assert_status(Status::Compensated);
    assert_eq!(harness.calls("room/rollback")[0].input::<u32>(), 7);
    assert_eq!(harness.calls("tell the guest").len(), 1);
}
