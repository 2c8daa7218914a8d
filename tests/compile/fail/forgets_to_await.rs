//! Operations that were made and never awaited. The compiler warns; here its warnings are errors.
#![deny(unused_must_use)]

use everstep::{Ctx, Message, Result, activity, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[activity]
async fn charge(amount: u32) -> Result<u32> {
    ok(amount)
}

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>) -> Result<()> {
    ctx.step("reserve", || async { ok(()) });
    ctx.run(charge, 20);
    ctx.sleep("cooling off", "24h");
    ctx.receive::<Approval>();
    ok(())
}

fn main() {}
