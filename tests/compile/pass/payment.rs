//! The payment that the documents begin with, as somebody writes it who has read them once. It compiles as it stands.

#![deny(warnings)]

use everstep::{Ctx, Message, Result, Runtime, activity, ensure, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    amount: u32,
}

#[derive(Clone, Serialize, Deserialize)]
struct Hold {
    amount: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    amount: u32,
}

async fn reserve(order: Order) -> Result<Hold> {
    ok(Hold { amount: order.amount })
}

async fn release(_hold: Hold) -> Result<()> {
    ok(())
}

#[activity]
async fn charge(hold: Hold) -> Result<Receipt> {
    ok(Receipt { amount: hold.amount })
}

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    approved: bool,
    reviewer: String,
}

#[workflow(accepts(Approval), retries(limit = 3, delay = "1s"), deadline = "30d")]
async fn payment(ctx: Ctx<Payment>, order: Order) -> Result<Receipt> {
    let hold = ctx.step("reserve", move || reserve(order.clone())).await?;
    ctx.compensate("release", hold.clone(), release);
    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    ensure!(approval.approved, "declined by {}", approval.reviewer);
    ctx.sleep("cooling-off", "24h").await?;
    ctx.run(charge, hold).retries(5).timeout("30s").await
}

/// A function may end in other ways too, each without a word about errors.
#[workflow]
async fn endings(ctx: Ctx<Endings>, way: u32) -> Result<u32> {
    async fn helps(ctx: Ctx<Endings>) -> Result<u32> {
        ok(ctx.step("helps", || async { ok(3) }).await?)
    }
    if way == 0 {
        ctx.step("one", || async { ok(1) }).await
    } else {
        match way {
            1 => ctx.step("two", || async { ok(2) }).await,
            2 => helps(ctx).await,
            3 => async { Ok(4) }.await,
            _ => {
                ctx.sleep("a while", "1s").await?;
                ctx.continue_as_new(0)
            }
        }
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let order = Order { amount: 20 };
    let builder = Runtime::builder().workflow(payment).workflow(endings).activity(charge);
    let runtime = builder.open("memory:").await?;
    let payment = runtime.start(payment, order).id("order-123").await?;
    let approval = Approval {
        approved: true,
        reviewer: "kim".into(),
    };
    payment.send(approval).await?;
    let receipt = payment.result().timeout("1ms").await;
    assert!(receipt.is_err(), "it is cooling off for a day: {receipt:?}");
    for way in 0..5 {
        let ended = runtime.start(endings, way).await?.result().timeout("1m").await?;
        assert_eq!(ended, if way == 4 { 1 } else { way + 1 });
    }
    Ok(())
}
