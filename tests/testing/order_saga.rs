//! An order saga, tested as its author would test it.

use everstep::testing::{FailureKind, Harness, Mock, Status};
use everstep::{Ctx, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cart {
    customer: String,
    cents: u32,
    sku: String,
}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    payment: String,
    parcel: String,
}

#[activity(retries = 4, timeout = "10s")]
async fn reserve(sku: String) -> Result<String> {
    unreachable!("warehouse {sku}")
}
#[activity(retries = 2, timeout = "30s")]
async fn charge((customer, cents): (String, u32)) -> Result<String> {
    unreachable!("bank {customer} {cents}")
}
#[activity(retries = 1)]
async fn ship(reservation: String) -> Result<String> {
    unreachable!("carrier {reservation}")
}

#[workflow(strategy = "compensate")]
async fn order(ctx: Ctx<Order>, cart: Cart) -> Result<Receipt> {
    let reservation = ctx.run(reserve, cart.sku.clone()).await?;
    ctx.compensate(
        "release stock",
        reservation.clone(),
        |_reservation: String| async move { ok(()) },
    );
    let payment = ctx.run(charge, (cart.customer.clone(), cart.cents)).await?;
    ctx.compensate("refund", payment.clone(), |_payment: String| async move { ok(()) });
    ctx.sleep("cooling off", "24h").await?;
    let parcel = ctx.run(ship, reservation).await?;
    ok(Receipt { payment, parcel })
}

fn cart() -> Cart {
    Cart {
        customer: "kim".into(),
        cents: 2_000,
        sku: "tea".into(),
    }
}

fn harness() -> Harness {
    Harness::new(Runtime::builder().workflow(order))
        .mocking("reserve", Mock::returns("shelf 7"))
        .mocking("charge", Mock::returns("payment 1"))
        .mocking("ship", Mock::returns("parcel 9"))
}

#[test]
fn an_order_is_paid_and_shipped_a_day_later() {
    let harness = harness();
    let order = harness.start(order, cart());
    harness.assert_called_with("charge", &("kim", 2_000));
    harness.assert_not_called("ship");
    order.assert_waits_for("cooling off");
    harness.advance("24h");
    order.assert_status(Status::Completed);
    assert_eq!(
        order.output(),
        Receipt {
            payment: "payment 1".into(),
            parcel: "parcel 9".into()
        }
    );
}

#[test]
fn a_bank_that_is_down_is_asked_again() {
    let harness = harness();
    harness.mock("charge", Mock::fails("503").times(2).then_returns("payment 2"));
    assert_eq!(harness.start(order, cart()).output().payment, "payment 2");
    harness.assert_called("charge", 3);
}

#[test]
fn what_was_done_is_undone_when_nothing_can_be_shipped() {
    let harness = harness();
    harness.mock("ship", Mock::fails_for_good("no such street"));
    let order = harness.start(order, cart());
    let failure = order.run_until_complete().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Critical);
    order.assert_status(Status::Compensated);
    let called = harness.all_calls();
    let called: Vec<_> = called.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(called, ["reserve", "charge", "ship", "refund", "release stock"]);
    assert_eq!(harness.calls("refund")[0].input::<String>(), "payment 1");
}

#[test]
fn an_order_survives_a_crash_anywhere() {
    harness().crash_everywhere(|harness| harness.start(order, cart()).output());
}

#[test]
fn a_saga_survives_a_crash_anywhere() {
    let harness = harness();
    harness.mock("ship", Mock::fails_for_good("no such street"));
    let ended = harness.crash_everywhere(|harness| harness.start(order, cart()).run_until_complete());
    assert_eq!(ended.unwrap_err().kind, FailureKind::Critical);
}

#[test]
fn an_order_is_deterministic() {
    harness().double_run(|harness| harness.start(order, cart()).output());
}
