//! A workflow that is not async.

use everstep::{Ctx, Result, ok, workflow};

#[workflow]
fn payment(_ctx: Ctx<Payment>) -> Result<()> {
    ok(())
}

fn main() {}
