//! A workflow that accepts what is no message.

use everstep::{Ctx, Result, ok, workflow};

struct Approval;

#[workflow(accepts(Approval))]
async fn payment(_ctx: Ctx<Payment>) -> Result<()> {
    ok(())
}

fn main() {}
