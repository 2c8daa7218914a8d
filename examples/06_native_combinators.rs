//! The plain combinators of Rust work on operations of the context, and replay to the same outcome.
//!
//! Completions are delivered one at a time in the order in which they were committed, after a restart as before it: so
//! whatever `select!` saw first, it sees first again. Dropping a future cancels what it stood for, as everywhere.
//!
//! Output:
//!
//! ```text
//! try_join: 5
//! select: nobody answered, so we go on
//! unordered: quick, slow
//! ```

use std::error::Error;
use std::time::Duration;

use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Answer {
    text: String,
}

#[workflow(accepts(Answer))]
async fn native(ctx: Ctx<Native>) -> Result<Vec<String>> {
    let mut lines = Vec::new();

    let two = ctx.step("two", || async { ok(2) });
    let three = ctx.step("three", || async { ok(3) });
    let (two, three) = tokio::try_join!(two, three)?;
    lines.push(format!("try_join: {}", two + three));

    // Whichever loses is dropped: the wait takes no message any more, or the sleep loses its alarm.
    let line = tokio::select! {
        answer = ctx.receive::<Answer>() => answer?.text,
        slept = ctx.sleep("patience", "20ms") => {
            slept?;
            "nobody answered, so we go on".to_owned()
        }
    };
    lines.push(format!("select: {line}"));

    let mut both: FuturesUnordered<_> = [("slow", 50), ("quick", 0)]
        .map(|(name, millis)| ctx.step(name, move || work(name, millis)))
        .into_iter()
        .collect();
    let mut order: Vec<String> = Vec::new();
    while let Some(name) = both.next().await {
        order.push(name?);
    }
    lines.push(format!("unordered: {}", order.join(", ")));
    ok(lines)
}

/// Stands for work that takes its time.
async fn work(name: &str, millis: u64) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    ok(name.to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(native).open("memory:").await?;
    for line in runtime.start(native, ()).await?.result().await? {
        println!("{line}");
    }
    Ok(())
}
