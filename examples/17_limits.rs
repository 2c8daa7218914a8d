//! Who runs when: one at a time for each customer, two at once for the files, and no endless queue.
//!
//! Output:
//!
//! ```text
//! 2 instances wait for their turn with the key `customer-7` already
//! reads x.csv
//! reads a.csv
//! reads b.csv
//! reads c.csv
//! done: a.csv, b.csv, c.csv
//! ```

use std::time::Duration;

use everstep::{Config, Crowded, Ctx, Message, Priority, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Go(bool);

/// Its steps go through the queue `files`, whatever customer they are for.
#[workflow(accepts(Go), queue = "files")]
async fn import(ctx: Ctx<Import>, file: String) -> Result<String> {
    ctx.receive::<Go>().await?;
    let name = file.clone();
    let read = move || {
        println!("reads {name}");
        async { ok(()) }
    };
    ctx.step("read", read).await?;
    ok(file)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::default()
        .queue_attempts_max("files", 2)
        .queue_rate("files", 1000, Duration::from_secs(60));
    let runtime = Runtime::builder()
        .workflow(import)
        .config(config)
        .open("memory:")
        .await?;

    // One runs, and two wait for their turn. They are in the store, and cost no memory.
    let mut imports = Vec::new();
    for file in ["a.csv", "b.csv", "c.csv"] {
        let start = runtime.start(import, file.to_owned()).at_most(1, "customer-7");
        imports.push(start.await?);
    }

    // The caller decides how many are too many, and whether that is an error or a wait.
    let start = runtime.start(import, "d.csv".to_owned()).at_most(1, "customer-7");
    if let Err(refused) = start.if_crowded(2, Crowded::Refuse).await {
        println!("{refused}");
    }

    // Another customer waits for none of them.
    let start = runtime.start(import, "x.csv".to_owned()).at_most(1, "customer-8");
    let other = start.priority(Priority::High).await?;
    other.send(Go(true)).await?;
    other.result().await?;

    // Those that wait take messages already; they run in the order in which they were started.
    for import in imports.iter().rev() {
        import.send(Go(true)).await?;
    }
    let mut done = Vec::new();
    for import in &imports {
        done.push(import.result().await?);
    }
    println!("done: {}", done.join(", "));
    runtime.stop().await;
    Ok(())
}
