//! `everstep demo`: orders that are priced, approved, left to cool off and charged, told as it happens.

use std::time::Duration;

use clap::Args;
use everstep::storage::record::Status;
use everstep::{Accepts, Ctx, Handle, Message, MessageId, Runtime, Workflow, WorkflowError};
use serde::{Deserialize, Serialize};

use super::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the demo keeps its store
    #[arg(long, default_value = "./everstep-demo")]
    store: String,
    /// How many orders
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    instances: u32,
    /// Don't wait between the stages
    #[arg(long)]
    fast: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct OrderInput {
    order: u32,
    cooling_off_ms: u64,
}

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

struct Order;

impl Accepts<Approval> for Order {}

impl Workflow for Order {
    const NAME: &'static str = "demo-order";
    type Input = OrderInput;
    type Output = String;

    async fn run(ctx: Ctx<Order>, input: OrderInput) -> Result<String, WorkflowError> {
        let order = input.order;
        let reserved: u32 = ctx
            .step("reserve", move || effect(order, "reserved the goods", 100 + order))
            .await?;
        let approval: Approval = ctx.receive().await?;
        ctx.sleep("cooling off", Duration::from_millis(input.cooling_off_ms))
            .await?;
        let charged: u32 = ctx
            .step("charge", move || effect(order, "charged the card", reserved * 2))
            .await?;
        Ok(format!("{charged} paid, approved by {}", approval.by))
    }
}

/// A step's effect on the world: here, a line on the screen.
async fn effect(order: u32, what: &'static str, result: u32) -> Result<u32, WorkflowError> {
    println!("order {order}: {what}");
    Ok(result)
}

pub(crate) fn run(options: &Options) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(demo(options))
}

async fn demo(options: &Options) -> Outcome {
    let runtime = Runtime::builder().workflow(Order).open(&options.store).await?;
    println!(
        "The store is {}. Press Ctrl-C or kill -9 this process and start it again: it carries on.\n",
        options.store
    );
    let pause = if options.fast { 0 } else { 1_500 };
    let mut orders = Vec::new();
    for order in 1..=options.instances {
        let input = OrderInput {
            order,
            cooling_off_ms: pause * 2,
        };
        let handle = runtime.start(Order, &format!("order-{order}"), &input).await?;
        match handle.status().await? {
            Status::Pending => println!("order {order}: started"),
            status => println!("order {order}: was started before, is {status}"),
        }
        orders.push((order, handle));
    }
    for (order, handle) in &orders {
        approve(*order, handle, pause).await?;
    }
    for (order, handle) in &orders {
        println!("order {order}: {}", handle.result().await?);
    }
    println!(
        "\nAll {} orders are done. Remove {} to begin anew.",
        orders.len(),
        options.store
    );
    runtime.stop().await;
    Ok(())
}

/// Approves an order that waits for it, once: the message has an id, so a second run of the demo sends a duplicate.
async fn approve(order: u32, handle: &Handle<Order>, pause_ms: u64) -> Outcome {
    let reached = |status| matches!(status, Status::Waiting | Status::Sleeping) || status.is_terminal();
    if handle.reached(reached).await? != Status::Waiting {
        return Ok(());
    }
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    handle
        .send(
            MessageId::new(format!("approval-{order}"))?,
            &Approval { by: "kim".into() },
        )
        .await?;
    println!("order {order}: approved, cooling off");
    Ok(())
}
