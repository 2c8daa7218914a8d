//! Arguments that a workflow can't have.

use everstep::{Ctx, Result, ok, workflow};

#[workflow]
async fn no_context() -> Result<()> {
    ok(())
}

#[workflow]
async fn input_first(order: u32) -> Result<()> {
    ok(())
}

#[workflow]
async fn context_of_another(ctx: Ctx<Payment>) -> Result<()> {
    ok(())
}

#[workflow]
async fn two_inputs(ctx: Ctx<TwoInputs>, order: u32, customer: u32) -> Result<()> {
    ok(())
}

#[workflow]
async fn borrows(ctx: Ctx<Borrows>, order: &str) -> Result<()> {
    ok(())
}

#[workflow]
async fn refund(ctx: Ctx<Refund>, order: Refund) -> Result<()> {
    ok(())
}

struct Shop;

impl Shop {
    #[workflow]
    async fn method(&self, ctx: Ctx<Method>) -> Result<()> {
        ok(())
    }
}

fn main() {}
