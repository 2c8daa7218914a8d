//! Named branches: `join` runs all of them to their end, `race` takes the first and cancels the rest.
//!
//! Each branch is a scope of its own, so both may have a step `get`, and the history reads like the code.
//!
//! Output:
//!
//! ```text
//! Kim wrote 3 posts
//! the mirror answered first: page from the mirror
//! ```

use std::error::Error;
use std::time::Duration;

use everstep::{Ctx, Result, Runtime, branch, ok, workflow};

#[workflow]
async fn profile(ctx: Ctx<Profile>) -> Result<String> {
    let (name, posts) = ctx
        .join(
            "fetch",
            (
                branch("user", |ctx: Ctx<Profile>| async move {
                    ok(ctx.step("get", || async { ok("Kim".to_owned()) }).await?)
                }),
                branch("posts", |ctx: Ctx<Profile>| async move {
                    ok(ctx.step("get", || async { ok(3_u32) }).await?)
                }),
            ),
        )
        .await?;
    ok(format!("{name} wrote {posts} posts"))
}

#[workflow]
async fn page(ctx: Ctx<Page>) -> Result<String> {
    let first = ctx
        .race(
            "load",
            (
                branch("origin", |ctx: Ctx<Page>| async move {
                    ok(ctx.step("get", || load("the origin", 60_000)).await?)
                }),
                branch("mirror", |ctx: Ctx<Page>| async move {
                    ok(ctx.step("get", || load("the mirror", 10)).await?)
                }),
            ),
        )
        .await?;
    ok(format!("the {} answered first: {}", first.name, first.value))
}

/// Stands for a download that takes its time.
async fn load(from: &str, millis: u64) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    ok(format!("page from {from}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder()
        .workflow(profile)
        .workflow(page)
        .open("memory:")
        .await?;
    println!("{}", runtime.start(profile, ()).await?.result().await?);
    println!("{}", runtime.start(page, ()).await?.result().await?);
    Ok(())
}
