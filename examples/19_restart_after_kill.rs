//! A program that is killed, and another one that carries on where it was.
//!
//! It starts itself as a child, which runs an order on a store on the disk. In the middle, with one step done and the
//! next one running, the child is killed with SIGKILL: nothing of it can tidy up. Then the parent opens the same store.
//! The step that was done is not done again; the one that ran is, with the same idempotency key.
//!
//! Output:
//!
//! ```text
//! child: charged 42
//! child: packing, attempt 1
//! parent: the child is killed
//! parent: packing, attempt 2
//! parent: charged 42, packed
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use everstep::{Attempt, Ctx, Result, Runtime, ok, workflow};

/// Says to the child where the store is, and that it is the child.
const STORE: &str = "EXAMPLE_STORE";

fn is_child() -> bool {
    std::env::var_os(STORE).is_some()
}

fn say(what: &str) {
    println!("{}: {what}", if is_child() { "child" } else { "parent" });
}

#[workflow]
async fn order(ctx: Ctx<Order>, amount: u32) -> Result<String> {
    let charged = ctx.step("charge", move || charge(amount)).await?;
    ctx.step("pack", pack).await?;
    ok(format!("charged {charged}, packed"))
}

async fn charge(amount: u32) -> Result<u32> {
    say(&format!("charged {amount}"));
    ok(amount)
}

/// Never ends in the child, which is killed in it.
async fn pack(attempt: Attempt) -> Result<()> {
    say(&format!("packing, attempt {}", attempt.number()));
    if is_child() {
        std::future::pending::<()>().await;
    }
    ok(())
}

/// The child runs until it is killed.
async fn child(store: &str) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(order).open(store).await?;
    runtime.start(order, 42).id("order-1").await?.result().await?;
    Ok(())
}

/// Starts the child, and kills it when it is packing.
fn kill_in_the_middle(store: &str) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(STORE, store)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = child.stdout.take().ok_or("its output is ours")?;
    for line in BufReader::new(lines).lines() {
        let line = line?;
        println!("{line}");
        if line.contains("packing") {
            child.kill()?;
        }
    }
    child.wait()?;
    say("the child is killed");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(store) = std::env::var(STORE) {
        return child(&store).await;
    }
    let directory = tempfile::tempdir()?;
    let store = directory.path().join("data").display().to_string();
    kill_in_the_middle(&store)?;

    let runtime = Runtime::builder().workflow(order).open(&store).await?;
    let ended = runtime.handle(order, "order-1")?.result().await?;
    say(&ended);
    Ok(())
}
