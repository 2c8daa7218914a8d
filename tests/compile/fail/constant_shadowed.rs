//! A binding with the name of a workflow: the constant can't be shadowed.

use everstep::{Ctx, Result, Runtime, ok, workflow};

#[workflow]
async fn payment(_ctx: Ctx<Payment>) -> Result<()> {
    ok(())
}

async fn start(runtime: Runtime) {
    let payment = runtime.start(payment, "order-123", &()).await;
}

fn main() {}
