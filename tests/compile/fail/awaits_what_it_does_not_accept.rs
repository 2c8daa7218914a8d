//! A workflow that waits for a message that it does not accept.

use everstep::{Ctx, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[derive(Message, Serialize, Deserialize)]
struct Refund;

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>) -> Result<()> {
    ctx.receive::<Approval>().await?;
    ctx.receive::<Refund>().await?;
    ok(())
}

fn main() {}
