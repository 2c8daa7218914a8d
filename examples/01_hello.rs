//! The smallest workflow: an async function with one step.
//!
//! A step is where a workflow touches the world. Its result is stored; it is not run again.
//!
//! Output:
//!
//! ```text
//! looking up the name of user 7
//! hello, Kim
//! the same id is the same instance: hello, Kim
//! ```

use std::error::Error;

use everstep::{Ctx, Result, Runtime, ok, workflow};

#[workflow]
async fn hello(ctx: Ctx<Hello>, user: u32) -> Result<String> {
    let name = ctx.step("look up", move || look_up(user)).await?;
    ok(format!("hello, {name}"))
}

/// Stands for a call to some service.
async fn look_up(user: u32) -> Result<String> {
    println!("looking up the name of user {user}");
    ok("Kim".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A path such as "./data" keeps everything on disk; "memory:" is gone with the process.
    let runtime = Runtime::builder().workflow(hello).open("memory:").await?;

    let greeting = runtime.start(hello, 7).id("hello-7").await?;
    println!("{}", greeting.result().await?);

    // Started twice by mistake: nothing is looked up again.
    let again = runtime.start(hello, 7).id("hello-7").await?;
    println!("the same id is the same instance: {}", again.result().await?);
    Ok(())
}
