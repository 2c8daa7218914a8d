//! An agent: a model that asks for tools, in a loop that survives the process, with a person who approves what costs.
//!
//! Each call of the model and of a tool is a step. After a crash the conversation goes on where it was, and no tokens
//! are paid twice. The model here is a script, so that the output is always the same.
//!
//! Output:
//!
//! ```text
//! model: search "flights to Oslo"
//! tool: search found 3 flights
//! model: book flight 2
//! tool: book booked flight 2
//! model: done
//! Your flight 2 to Oslo is booked.
//! ```

use std::error::Error;

use everstep::{Ctx, Loop, Message, Result, Runtime, activity, ensure, ok, workflow};
use serde::{Deserialize, Serialize};

/// What the model wants next.
#[derive(Serialize, Deserialize)]
enum Wish {
    Search(String),
    Book(u32),
    Answer(String),
}

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    approved: bool,
    by: String,
}

/// Stands for a call to a language model: it sees the conversation so far.
#[activity(retries = 5, timeout = "2m")]
async fn think(talk: Vec<String>) -> Result<Wish> {
    let (line, wish) = match talk.len() {
        1 => ("search \"flights to Oslo\"", Wish::Search("flights to Oslo".into())),
        2 => ("book flight 2", Wish::Book(2)),
        _ => ("done", Wish::Answer("Your flight 2 to Oslo is booked.".into())),
    };
    println!("model: {line}");
    ok(wish)
}

/// Stands for a tool with an effect.
#[activity(retries = 3)]
async fn tool(what: String) -> Result<String> {
    println!("tool: {what}");
    ok(what)
}

#[workflow(accepts(Approval))]
async fn agent(ctx: Ctx<Agent>, goal: String) -> Result<String> {
    let turn = |ctx: Ctx<Agent>, mut talk: Vec<String>| async move {
        let found = match ctx.run(think, talk.clone()).await? {
            Wish::Answer(text) => return ok(Loop::Break(text)),
            Wish::Search(_) => ctx.run(tool, "search found 3 flights".to_owned()).await?,
            Wish::Book(flight) => {
                let Approval { approved, by } = ctx.receive().timeout("1d").await?;
                ensure!(approved, "declined by {by}");
                // Not `println!`: replay comes past here again. What is logged is heard once.
                tracing::info!("approved by {by}");
                ctx.run(tool, format!("book booked flight {flight}")).await?
            }
        };
        talk.push(found);
        ok(Loop::Continue(talk))
    };
    // The conversation is the state of the loop, stored after every turn.
    ctx.repeat("turns", vec![goal], turn).commit_interval(1).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(agent).open("memory:").await?;
    let goal = "Book me a flight to Oslo".to_owned();
    let agent = runtime.start(agent, goal).id("trip-1").await?;
    let (approved, by) = (true, "kim".to_owned());
    agent.send(Approval { approved, by }).await?;
    println!("{}", agent.result().await?);
    Ok(())
}
