//! A workflow that sleeps while the program that runs it is gone.
//!
//! The first runtime is stopped in the middle of the sleep. The second one opens the same directory and carries on:
//! the step that was done is not done again, and the sleep ends when it was meant to.
//!
//! Output:
//!
//! ```text
//! first life: charging the card
//! first life: asleep, and the runtime stops
//! second life: sending the receipt
//! charged 42, receipt sent
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use everstep::{Ctx, Result, Runtime, Status, ok, workflow};

/// Which life this is, for the lines that are printed.
static SECOND: AtomicBool = AtomicBool::new(false);

#[workflow]
async fn purchase(ctx: Ctx<Purchase>, amount: u32) -> Result<String> {
    let charged = ctx.step("charge", move || charge(amount)).await?;
    ctx.sleep("cooling off", "300ms").await?;
    ctx.step("receipt", send_receipt).await?;
    ok(format!("charged {charged}, receipt sent"))
}

async fn charge(amount: u32) -> Result<u32> {
    say("charging the card");
    ok(amount)
}

async fn send_receipt() -> Result<()> {
    say("sending the receipt");
    ok(())
}

fn say(what: &str) {
    let second = SECOND.load(Ordering::Relaxed);
    println!("{} life: {what}", if second { "second" } else { "first" });
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = directory.path().join("data").display().to_string();

    let runtime = Runtime::builder().workflow(purchase).open(&store).await?;
    let first = runtime.start(purchase, 42).id("order-1").await?;
    first.reached(|status| status == Status::Sleeping).await?;
    say("asleep, and the runtime stops");
    drop(first);
    runtime.stop().await;
    drop(runtime);

    SECOND.store(true, Ordering::Relaxed);
    let runtime = Runtime::builder().workflow(purchase).open(&store).await?;
    println!("{}", runtime.handle(purchase, "order-1")?.result().await?);
    Ok(())
}
