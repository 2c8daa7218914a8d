//! A message that has no reply, taken for a question.

use everstep::{Ctx, Handle, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>) -> Result<()> {
    let _ = ctx.question::<Approval>();
    ok(())
}

async fn ask(order: Handle<Payment>) {
    let _ = order.ask(Approval);
}

fn main() {}
