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
