//! A handle may have the name of its workflow, and a result that of its activity; both the function and the type stand
//! for them.
#![deny(warnings)]

use everstep::{Ctx, Handle, Result, Runtime, Workflow, activity, ok, workflow};

#[activity]
async fn charge(amount: u32) -> Result<u32> {
    ok(amount)
}

#[workflow]
async fn payment(ctx: Ctx<Payment>, payment: u32) -> Result<u32> {
    let charge = ctx.run(charge, payment).await?;
    let tip = ctx.run(Charge, payment).named("tip").await?;
    ok(charge + tip)
}

async fn pay(runtime: &Runtime) -> Result<u32, everstep::Error> {
    let payment = runtime.start(payment, 20).id("order-123").await?;
    payment.result().await
}

async fn pay_by_type(runtime: &Runtime) -> Result<u32, everstep::Error> {
    let payment = runtime.start(Payment, 20).await?;
    payment.result().await
}

fn find<W: Workflow>(runtime: &Runtime, workflow: W) -> Result<Handle<W>, everstep::Error> {
    runtime.handle(workflow, "order-123")
}

fn main() {
    let builder = Runtime::builder().workflow(payment).workflow(Payment);
    let _ = builder.activity(charge).activity(Charge);
    let _ = (pay, pay_by_type, find::<Payment>);
}
