//! Mistakes in the body of a workflow are shown where they are.

use everstep::{Ctx, Result, ok, workflow};

#[workflow]
async fn payment(ctx: Ctx<Payment>) -> Result<u32> {
    let count = std::rc::Rc::new(1);
    ctx.sleep("a while", "1s").await?;
    ok(*count)
}

#[workflow]
async fn refund(_ctx: Ctx<Refund>) -> Result<u32> {
    let amount: u32 = "five";
    ok(amount)
}

fn main() {}
