//! A loop that can go on for years: its state is stored, and its old history is removed.
//!
//! The body is given the state and returns the next one, or breaks with a value. After a crash the loop goes on from
//! the last state that was stored, and steps of later iterations that were recorded are not run again.
//!
//! Output:
//!
//! ```text
//! 100 pages, 4950 rows
//! ```

use std::error::Error;

use everstep::{Ctx, Loop, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

/// Where the crawl stands.
#[derive(Default, Serialize, Deserialize)]
struct Crawl {
    page: u64,
    rows: u64,
}

#[workflow]
async fn crawl_all(ctx: Ctx<CrawlAll>, pages: u64) -> Result<String> {
    let done = ctx
        .repeat("pages", Crawl::default(), move |ctx: Ctx<CrawlAll>, crawl: Crawl| async move {
            let page = crawl.page;
            // The same name in every iteration: each is a scope of its own.
            let rows = ctx.step("fetch", move || async move { ok(page) }).await?;
            let next = Crawl { page: page + 1, rows: crawl.rows + rows };
            ok(if next.page == pages { Loop::Break(next) } else { Loop::Continue(next) })
        })
        // Stores the state every ten pages; keeps the history of the last five.
        .commit_interval(10)
        .history_keep(5)
        .await?;
    ok(format!("{} pages, {} rows", done.page, done.rows))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(crawl_all).open("memory:").await?;
    println!("{}", runtime.start(crawl_all, 100).await?.result().await?);
    Ok(())
}
