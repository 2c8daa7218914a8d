//! The first test of `docs/TESTING.md`, as somebody would copy it. `main.rs` compares the two.

use everstep::testing::{Harness, Mock};
use everstep::{Builder, Ctx, Message, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval { by: String }

#[activity(retries = 2, timeout = "30s")]
async fn charge(cents: u32) -> Result<String> {
    // Here a bank is asked.
    ok(format!("receipt for {cents}"))
}

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>, cents: u32) -> Result<String> {
    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    ctx.sleep("cooling off", "24h").await?;
    let receipt = ctx.run(charge, cents).await?;
    ok(format!("{receipt}, approved by {}", approval.by))
}

fn app() -> Builder {
    Runtime::builder().workflow(payment)
}

#[test]
fn an_approved_payment_is_charged_a_day_later() {
    let harness = Harness::new(app());
    harness.mock("charge", Mock::returns("receipt 1"));

    let payment = harness.start(payment, 2_000);
    payment.assert_waits_for("Approval");
    payment.send(Approval { by: "kim".into() });
    harness.advance("23h");
    harness.assert_not_called("charge");
    harness.advance("1h");
    harness.assert_called_with("charge", &2_000_u32);
    assert_eq!(payment.output(), "receipt 1, approved by kim");
}
