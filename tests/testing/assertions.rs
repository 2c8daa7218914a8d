//! Every assertion of the kit fails when it should, and says what there is instead.

use everstep::storage::record::Status;
use everstep::testing::{Harness, Mock};
use everstep::{Ctx, Message, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::{assert_says, report};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

#[activity]
async fn charge(amount: u32) -> Result<String> {
    ok(format!("charged {amount}"))
}

#[workflow(accepts(Approval))]
async fn order(ctx: Ctx<Order>, amount: u32) -> Result<String> {
    ctx.step("reserve", || async { ok(7) }).await?;
    ctx.receive::<Approval>().await?;
    ok(ctx.run(charge, amount).await?)
}

fn waiting() -> (Harness, everstep::testing::Handle<Order>) {
    let harness = Harness::new(Runtime::builder().workflow(order));
    let order = harness.start(order, 20);
    (harness, order)
}

fn done() -> (Harness, everstep::testing::Handle<Order>) {
    let (harness, order) = waiting();
    order.send(Approval { by: "kim".into() });
    order.assert_status(Status::Completed);
    (harness, order)
}

#[test]
fn calls_are_counted() {
    let (harness, _) = waiting();
    harness.assert_not_called("charge");
    harness.assert_called("reserve", 1);
    let says = report(|| harness.assert_called("charge", 1));
    assert_says(
        &says,
        &[
            "`charge` was called 0 times, expected 1",
            "`reserve` of order-1, attempt 1",
        ],
    );
    let says = report(|| harness.assert_not_called("reserve"));
    assert_says(&says, &["`reserve` was called 1 times, expected 0"]);
    let nothing = Harness::new(Runtime::builder().workflow(order));
    assert_says(&report(|| nothing.assert_called("charge", 1)), &["nothing was called"]);
}

#[workflow]
async fn reminds(ctx: Ctx<Reminds>, people: Vec<u32>) -> Result<()> {
    for person in people {
        ctx.run(charge, person).await?;
    }
    ok(())
}

/// Found by a user: an activity in a plain loop was called once and no more, and nothing in the report said that the
/// instance had failed, why, and what to do.
#[test]
fn what_was_not_called_is_told_with_what_failed() {
    let harness = Harness::new(Runtime::builder().workflow(reminds));
    harness.start(reminds, vec![1, 2]);
    let says = report(|| harness.assert_called("charge", 2));
    assert_says(
        &says,
        &[
            "`charge` was called 1 times, expected 2",
            "reminds-1",
            "`charge` is used twice in the same scope",
            "`.named(..)`",
            "`ctx.map`",
        ],
    );
    let says = report(|| harness.assert_called_with("charge", &2_u32));
    assert_says(&says, &["`charge` is used twice in the same scope"]);
}

#[test]
fn completed_calls_are_counted() {
    let (harness, order) = waiting();
    harness.assert_completed("reserve", 1);
    harness.assert_completed("charge", 0);
    harness.mock("charge", Mock::fails("closed").then_returns("paid").taking("1d"));
    order.send(Approval { by: "kim".into() });
    harness.assert_called("charge", 1);
    harness.assert_completed("charge", 0);
    harness.advance("12h");
    harness.assert_called("charge", 2);
    let says = report(|| harness.assert_completed("charge", 1));
    assert_says(&says, &["`charge` was completed 0 times, expected 1", "`order-1` is"]);
    order.output();
    harness.assert_completed("charge", 1);
}

#[test]
fn inputs_are_compared() {
    let (harness, _) = done();
    harness.assert_called_with("charge", &20_u32);
    let says = report(|| harness.assert_called_with("charge", &21_u32));
    assert_says(&says, &["`charge` was not called with 21", "attempt 1, with 20"]);
    let says = report(|| harness.calls("charge")[0].input::<String>());
    assert_says(&says, &["the input of `charge` is of another type: 20"]);
    let says = report(|| harness.calls("reserve")[0].input::<u32>());
    assert_says(&says, &["`reserve` is a step and not an activity"]);
}

#[test]
fn a_status_is_expected() {
    let (_, order) = waiting();
    let says = report(|| order.assert_status(Status::Completed));
    assert_says(
        &says,
        &[
            "`order-1` is waiting, expected completed",
            "it waits for `Approval~0` (receive), at tests/testing/assertions.rs:",
            "step `reserve`: 7",
        ],
    );
}

#[test]
fn a_wait_is_expected() {
    let (_, order) = waiting();
    order.assert_waits_for("Approval");
    let says = report(|| order.assert_waits_for("payment"));
    assert_says(
        &says,
        &["`order-1` does not wait for `payment`", "it waits for `Approval~0`"],
    );
}

#[test]
fn a_history_is_expected() {
    let (_, order) = done();
    order.assert_history(&["reserve", "Approval~0", "charge"]);
    let says = report(|| order.assert_history(&["reserve", "charge"]));
    assert_says(
        &says,
        &[
            "has not done what was expected",
            r#"expected: ["reserve", "charge"]"#,
            r#"found: ["reserve", "Approval~0", "charge"]"#,
            r#"receive `Approval~0`: Approval {"by":"kim"}"#,
        ],
    );
}

#[test]
fn a_result_of_a_step_is_read() {
    let (_, order) = done();
    assert_eq!(order.step_result::<u32>("reserve"), 7);
    assert_says(
        &report(|| order.step_result::<u32>("pay")),
        &["`order-1` has no step `pay`"],
    );
    assert_says(&report(|| order.step_result::<u32>("Approval~0")), &["has no result"]);
    assert_says(
        &report(|| order.step_result::<u32>("charge")),
        &[r#"`charge` returned "charged 20""#],
    );
}

#[test]
fn an_end_that_never_comes_is_told() {
    let (_, order) = waiting();
    let says = report(|| order.run_until_complete());
    assert_says(
        &says,
        &[
            "`order-1` does not come to its end by itself",
            "it waits for `Approval~0`",
        ],
    );
}

#[test]
fn an_output_is_expected() {
    let (_, order) = done();
    assert_eq!(order.output(), "charged 20");
    let (harness, order) = waiting();
    harness.mock("charge", Mock::fails_for_good("stolen card"));
    order.send(Approval { by: "kim".into() });
    let says = report(|| order.output());
    assert_says(
        &says,
        &[
            "`order-1` failed: `charge` failed: stolen card",
            "step `charge`: failed:",
        ],
    );
}

#[test]
fn what_is_not_there_is_told() {
    let (harness, _) = waiting();
    assert_says(
        &report(|| harness.handle(order, "nobody").status()),
        &["there is no instance `nobody`"],
    );
    let empty = Harness::new(Runtime::builder());
    assert_says(
        &report(|| empty.start(order, 1)),
        &["no workflow `order` is registered"],
    );
    let says = report(|| harness.resolve("nonsense", &1));
    assert_says(&says, &["the promise could not be kept"]);
}

/// The line that a test fails at.
fn line_of(fails: impl FnOnce() + std::panic::UnwindSafe) -> String {
    static PLACES: std::sync::Mutex<Vec<(std::thread::ThreadId, String)>> = std::sync::Mutex::new(Vec::new());
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            PLACES.lock().unwrap().push((std::thread::current().id(), place));
            before(panic);
        }));
    });
    std::panic::catch_unwind(fails).unwrap_err();
    let (me, places) = (std::thread::current().id(), PLACES.lock().unwrap());
    let (_, last) = places.iter().rfind(|(thread, _)| *thread == me).unwrap();
    last.clone()
}

/// Found by a user: a test failed at a line of the kit, and nothing said at which of its own.
#[test]
fn a_test_fails_at_its_own_line() {
    let (harness, order) = waiting();
    let nobody = harness.handle(self::order, "nobody");
    let (_, ended) = done();
    let aborted = {
        let (_, order) = waiting();
        order.terminate("over");
        order
    };
    for (what, fails) in [
        ("output", &(|| drop(aborted.output())) as &dyn Fn()),
        ("result", &|| drop(order.run_until_complete())),
        ("send", &|| ended.send(Approval { by: "ada".into() })),
        ("status", &|| _ = nobody.status()),
        ("step_result", &|| drop(order.step_result::<String>("reserve"))),
        ("resolve", &|| _ = harness.resolve("no token", &1)),
        ("advance", &|| harness.advance("soon")),
    ] {
        let place = line_of(std::panic::AssertUnwindSafe(fails));
        assert!(place.starts_with("tests/testing/assertions.rs:"), "{what}: {place}");
    }
}

#[workflow]
async fn undone(ctx: Ctx<Undone>) -> Result<()> {
    let back = |_| async { ok(()) };
    ctx.step("reserve", || async { ok(7) }).rollback(back).await?;
    ctx.map("all", [1, 2], 1, async |ctx: Ctx<Undone>, item| {
        ok(ctx.step("one", move || async move { ok(item) }).await?)
    })
    .await?;
    Err(std::io::Error::other("no").into())
}

/// Found by a user: a rollback that had run was said not to be complete.
#[test]
fn what_was_undone_is_told_as_complete() {
    let harness = Harness::new(Runtime::builder().workflow(undone));
    let undone = harness.start(undone, ());
    undone.run_until_complete().unwrap_err();
    let says = report(|| undone.assert_status(Status::Completed));
    assert_says(&says, &["rollback `reserve/rollback`", "map `all`"]);
    assert!(!says.contains("not complete"), "{says}");
}
