//! A workflow that sends a message to another one, and to a child, that do not accept it.

use everstep::{Ctx, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[derive(Message, Serialize, Deserialize)]
struct Reminder;

#[derive(Message, Serialize, Deserialize)]
struct Refund;

#[workflow(accepts(Approval, Reminder))]
async fn payment(_ctx: Ctx<Payment>) -> Result<()> {
    ok(())
}

#[workflow]
async fn order(ctx: Ctx<Order>) -> Result<()> {
    ctx.send(payment, "payment-1", Refund).await?;
    let child = ctx.child(payment, ()).start().await?;
    child.send(Refund).await?;
    ok(child.await?)
}

fn main() {}
