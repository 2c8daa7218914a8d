use everstep::{Ctx, Result, ok, workflow};

struct Order;

#[workflow]
async fn payment(_ctx: Ctx<Payment>, _order: Order) -> Result<()> {
    ok(())
}

fn main() {}
