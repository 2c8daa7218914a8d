//! Messages and questions: typed where they are defined, awaited and sent, kept until they are taken, taken once.
//!
//! Sending or awaiting one that the workflow does not accept does not compile. A question is a message that is answered;
//! asked again under the same id, it gets the same answer.
//!
//! Output:
//!
//! ```text
//! sent: Accepted, sent again: Duplicate
//! the total is 60
//! asked again: 60
//! 60, approved by kim
//! ```

use std::error::Error;

use everstep::{Ctx, Message, Result, Runtime, ensure, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct AddItem {
    price: u32,
}

#[derive(Message, Serialize, Deserialize)]
#[message(reply(u32))]
struct Total {
    with_tax: bool,
}

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    approved: bool,
    by: String,
}

#[workflow(accepts(AddItem, Total, Approval))]
async fn order(ctx: Ctx<Order>) -> Result<String> {
    let first: AddItem = ctx.receive().await?;
    let second: AddItem = ctx.receive().await?;
    let price = first.price + second.price;

    let asked = ctx.question::<Total>().await?;
    let total = if asked.with_tax { price * 6 / 5 } else { price };
    asked.reply(&total)?;

    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    ensure!(approval.approved, "declined by {}", approval.by);
    ok(format!("{total}, approved by {}", approval.by))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    let order = runtime.start(order, ()).id("order-1").await?;

    // With an id of its own a message can be sent again, by someone who does not know whether it arrived.
    let first = order.send(AddItem { price: 20 }).id("web-17").await?;
    let again = order.send(AddItem { price: 20 }).id("web-17").await?;
    println!("sent: {first:?}, sent again: {again:?}");
    order.send(AddItem { price: 30 }).await?;

    println!(
        "the total is {}",
        order.ask(Total { with_tax: true }).id("total-1").await?
    );
    println!(
        "asked again: {}",
        order.ask(Total { with_tax: true }).id("total-1").await?
    );

    let (approved, by) = (true, "kim".to_owned());
    order.send(Approval { approved, by }).await?;
    println!("{}", order.result().await?);
    Ok(())
}
