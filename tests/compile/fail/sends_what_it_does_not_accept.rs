//! A message sent to a workflow that does not accept it.

use everstep::{Ctx, Handle, Message, Result, ok, workflow};
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

async fn refund(order: Handle<Payment>) {
    let _ = order.send(Refund).await;
}

fn main() {}
