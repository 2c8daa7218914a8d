//! A workflow that waits for any of several messages, one of which it does not accept.

use everstep::{Ctx, Message, Messages, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[derive(Message, Serialize, Deserialize)]
struct Refund;

#[derive(Messages)]
enum Decision {
    Approved(Approval),
    Refunded(Refund),
}

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>) -> Result<()> {
    match ctx.receive_any().await? {
        Decision::Approved(_) => ok(()),
        Decision::Refunded(_) => ok(()),
    }
}

fn main() {}
