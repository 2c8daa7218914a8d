//! Workflows, activities and messages as the macros write them, in every mode: staying in memory, dropped at every
//! rest, and crashed before and after every commit.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{
    Accepts, Activity, Attempt, Ctx, Message, Result, Runtime, Step, Workflow, activity, ensure, ok, workflow,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    amount: u32,
}

#[derive(Serialize, Deserialize)]
struct Hold {
    amount: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    charged: u32,
    key: String,
}

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    approved: bool,
    reviewer: String,
}

#[derive(Message, Serialize, Deserialize)]
#[message(name = "refund")]
enum Refund {
    Full,
}

async fn reserve(order: Order) -> Result<Hold> {
    ok(Hold { amount: order.amount })
}

/// Takes the money.
#[activity]
async fn charge(attempt: Attempt, hold: Hold) -> Result<Receipt> {
    ensure!(attempt.number() >= 3, "the card reader is busy");
    ok(Receipt {
        charged: hold.amount,
        key: attempt.idempotency_key().to_owned(),
    })
}

/// The payment that everybody begins with.
#[workflow(accepts(Approval, Refund), version = 2)]
async fn payment(ctx: Ctx<Payment>, order: Order) -> Result<Receipt> {
    let hold = ctx.step("reserve", move || reserve(order.clone())).await?;
    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    ensure!(approval.approved, "declined by {}", approval.reviewer);
    ctx.sleep("cooling-off", "24h").await?;
    ok(ctx.run(charge, hold).retries(5).timeout("30s").await?)
}

fn pay(approval: Option<bool>) -> End<Receipt> {
    in_every_mode::<Payment, _>(1, |rig| {
        rig.start("order-123", &Order { amount: 42 });
        if let Some(approved) = approval {
            let reviewer = "kim".to_owned();
            rig.send("order-123", &Approval { approved, reviewer });
        }
        rig.run("order-123").unwrap()
    })
}

#[test]
fn an_approved_payment_is_charged() {
    let End::Completed(receipt) = pay(Some(true)) else {
        panic!("it completes");
    };
    assert_eq!(receipt.charged, 42);
    assert!(receipt.key.contains("order-123"), "{}", receipt.key);
}

#[test]
fn a_declined_payment_fails_with_the_reason() {
    let End::Failed(failure) = pay(Some(false)) else {
        panic!("it fails");
    };
    assert!(failure.to_string().contains("declined by kim"), "{failure}");
}

#[test]
fn a_payment_that_nobody_approves_gives_up() {
    let End::Failed(failure) = pay(None) else {
        panic!("it fails");
    };
    assert!(failure.to_string().contains("in time"), "{failure}");
}

#[test]
fn a_function_gives_its_name_and_options_give_the_rest() {
    assert_eq!((Payment::NAME, Payment::VERSION), ("payment", 2));
    assert_eq!((Countdown::NAME, Countdown::VERSION), ("count down", 1));
    assert_eq!((Charge::NAME, Pick::NAME), ("charge", "pick one"));
    assert_eq!((Approval::NAME, Refund::NAME), ("Approval", "refund"));
    assert_eq!(format!("{:?} {:?}", payment(), charge()), "Payment Charge");
}

#[workflow(name = "count down")]
pub(crate) async fn countdown(ctx: Ctx<Self>) -> Result<Vec<u32>, std::fmt::Error> {
    let _ = ctx.id();
    Ok(vec![3, 2, 1])
}

#[test]
fn a_workflow_needs_no_input_and_may_have_its_own_error_type() {
    let end = in_every_mode::<Countdown, _>(1, |rig| {
        rig.start("i", &());
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed(vec![3, 2, 1]));
}

/// Fails until the attempt that it is asked for. Its input is not `Clone`, and every attempt has all of it.
#[activity(name = "pick one", retries = 4, delay = "1m")]
async fn pick(attempt: Attempt, Hold { amount }: Hold) -> std::result::Result<(u32, u32), std::fmt::Error> {
    if attempt.number() < amount {
        return Err(std::fmt::Error);
    }
    Ok((attempt.number(), amount))
}

#[workflow]
async fn picking(ctx: Ctx<Picking>, from: u32) -> Result<(u32, u32)> {
    ok(ctx.run(pick, Hold { amount: from }).await?)
}

#[workflow]
async fn picking_less(ctx: Ctx<PickingLess>, from: u32) -> Result<(u32, u32)> {
    ok(ctx.run(pick, Hold { amount: from }).retries(1).await?)
}

fn end_of<W: Workflow<Input = u32, Output: PartialEq + std::fmt::Debug>>(input: u32) -> End<W::Output> {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &input);
        rig.run("i").unwrap()
    })
}

#[test]
fn an_activity_is_tried_as_often_as_its_attribute_says() {
    assert_eq!(end_of::<Picking>(5), End::Completed((5, 5)));
    let End::Failed(failure) = end_of::<Picking>(6) else {
        panic!("five attempts are not enough");
    };
    assert_eq!(failure.attempts, 5);
    assert_eq!(failure.path, "pick one");
}

#[test]
fn the_caller_of_an_activity_has_the_last_word() {
    assert_eq!(end_of::<PickingLess>(2), End::Completed((2, 2)));
    let End::Failed(failure) = end_of::<PickingLess>(3) else {
        panic!("two attempts are not enough");
    };
    assert_eq!(failure.attempts, 2);
}

#[test]
fn the_delay_of_an_attribute_is_waited() {
    let mut rig = Rig::<Picking>::new(Plan::Live, 1);
    let begin = rig.now_ms();
    rig.start("i", &2);
    rig.run("i").unwrap();
    let waited = rig.now_ms() - begin;
    assert!(
        (30_000..=60_000).contains(&waited),
        "a minute with its jitter: {waited} ms"
    );
}

/// Takes longer than the activities below may, in virtual time. It does end: so does a test that fails.
async fn too_long() {
    let never = std::future::pending::<()>();
    let _ = tokio::time::timeout(Duration::from_secs(11), never).await;
}

static HANGS: AtomicU32 = AtomicU32::new(0);

#[activity(timeout = "10s")]
async fn hang() -> Result<()> {
    HANGS.fetch_add(1, Ordering::Relaxed);
    too_long().await;
    ok(())
}

#[activity(timeout = "10s", retry_on_timeout)]
async fn hang_once(attempt: Attempt) -> Result<u32> {
    if attempt.number() == 1 {
        too_long().await;
    }
    ok(attempt.number())
}

#[workflow]
async fn hanging(ctx: Ctx<Hanging>) -> Result<u32> {
    ensure!(ctx.run(hang, ()).await.is_err(), "it hangs");
    ok(ctx.run(hang_once, ()).await?)
}

/// FAULTS 37.
#[test]
fn the_timeout_of_an_attribute_is_final_unless_it_says_otherwise() {
    let mut rig = Rig::<Hanging>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Completed(2));
    assert_eq!(HANGS.load(Ordering::Relaxed), 1, "a timeout is not tried again");
    in_every_mode::<Hanging, _>(1, |rig| {
        rig.start("i", &());
        rig.run("i").unwrap()
    });
}

#[activity]
async fn double(number: u32) -> Result<u32> {
    ok(number * 2)
}

#[workflow]
async fn doubling(ctx: Ctx<Doubling>, number: u32) -> Result<u32> {
    let once = ctx.run(double, number).await?;
    ok(ctx.run(double, once).named("again").await?)
}

#[workflow]
async fn doubling_in_one_place(ctx: Ctx<DoublingInOnePlace>, number: u32) -> Result<u32> {
    let once = ctx.run(double, number).await?;
    ok(ctx.run(double, once).await?)
}

#[test]
fn an_activity_runs_twice_in_a_scope_under_two_names() {
    assert_eq!(end_of::<Doubling>(10), End::Completed(40));
    let End::Failed(failure) = end_of::<DoublingInOnePlace>(10) else {
        panic!("one name is not enough for two");
    };
    assert!(failure.to_string().contains("`double` is used twice"), "{failure}");
}

/// Can be read, but not written.
#[derive(Deserialize)]
struct Unstorable;

impl Serialize for Unstorable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not for the shelf"))
    }
}

#[activity]
async fn shelve(_: Unstorable) -> Result<()> {
    unreachable!("it can't be given what it asks for")
}

#[workflow]
async fn shelving(ctx: Ctx<Shelving>) -> Result<()> {
    ok(ctx.run(shelve, Unstorable).await?)
}

#[test]
fn an_input_that_cannot_be_stored_is_not_tried_twice() {
    let mut rig = Rig::<Shelving>::new(Plan::Live, 1);
    rig.start("i", &());
    let End::Failed(failure) = rig.run("i").unwrap() else {
        panic!("it fails");
    };
    assert!(failure.to_string().contains("not for the shelf"), "{failure}");
    assert_eq!(failure.attempts, 1);
}

/// The same workflow and activity without a macro.
struct ByHand;

impl Workflow for ByHand {
    const NAME: &'static str = "by hand";
    type Input = u32;
    type Output = u32;

    async fn run(ctx: Ctx<Self>, number: u32) -> Result<u32> {
        let more = ctx.receive::<More>().await?;
        ok(ctx.run(TripleByHand, number + more.0).await?)
    }
}

impl Accepts<More> for ByHand {}

struct TripleByHand;

impl Activity for TripleByHand {
    const NAME: &'static str = "triple";
    type Input = u32;
    type Output = u32;

    fn options(step: Step<u32>) -> Step<u32> {
        step.retries(1)
    }

    async fn run(_: Attempt, number: u32) -> Result<u32> {
        ok(number * 3)
    }
}

#[derive(Message, Serialize, Deserialize)]
struct More(u32);

#[activity(retries = 1)]
async fn triple(number: u32) -> Result<u32> {
    ok(number * 3)
}

#[workflow(accepts(More))]
async fn by_macro(ctx: Ctx<ByMacro>, number: u32) -> Result<u32> {
    let more = ctx.receive::<More>().await?;
    ok(ctx.run(triple, number + more.0).await?)
}

#[tokio::test]
async fn a_runtime_takes_both_kinds_of_workflow_alike() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let builder = Runtime::builder().workflow(ByHand).workflow(by_macro);
    let runtime = builder.open(path.to_str().unwrap()).await.unwrap();
    let by_hand = runtime.start(ByHand, 1).id("one").await.unwrap();
    let by_macro = runtime.start(by_macro, 1).id("two").await.unwrap();
    by_hand.send(More(2)).id("m").await.unwrap();
    by_macro.send(More(3)).id("m").await.unwrap();
    assert_eq!(by_hand.result().await.unwrap(), 9);
    assert_eq!(by_macro.result().await.unwrap(), 12);
    runtime.stop().await;
}

#[tokio::test]
async fn an_activity_can_be_called_as_the_function_that_it_is() {
    assert_eq!(Triple::call(14).await.unwrap(), 42);
}
