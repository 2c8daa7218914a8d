//! Workflows that start other workflows: awaited like a function, several at once, or let go.
//!
//! A child is an instance of its own, with its own history; the parent sleeps while it waits. Its failure is an error
//! that the parent can catch. Starting the parent again after a crash starts no child twice.
//!
//! Output:
//!
//! ```text
//! translated: HELLO, GOOD NIGHT
//! one child failed, and the parent went on: there is nothing to translate
//! ```

use std::error::Error;

use everstep::{Ctx, Result, Runtime, critical, ok, workflow};

#[workflow]
async fn translate(ctx: Ctx<Translate>, text: String) -> Result<String> {
    let work = move || {
        let text = text.clone();
        async move {
            let empty = || critical(everstep::WorkflowError::msg("there is nothing to translate"));
            if text.is_empty() {
                Err(empty())
            } else {
                ok(text.to_uppercase())
            }
        }
    };
    ok(ctx.step("translate", work).await?)
}

#[workflow]
async fn book(ctx: Ctx<Book>, pages: Vec<String>) -> Result<String> {
    // All of them are started, then all are awaited.
    let mut children = Vec::new();
    for page in pages {
        children.push(ctx.child(translate, page).start().await?);
    }
    let mut done = Vec::new();
    for child in children {
        match child.await {
            Ok(text) => done.push(text),
            // The failure of a child has its cause inside.
            Err(failure) => {
                let causes: Vec<_> = failure
                    .branches
                    .iter()
                    .map(|(_, cause)| cause.message.as_str())
                    .collect();
                return ok(format!(
                    "one child failed, and the parent went on: {}",
                    causes.join(", ")
                ));
            }
        }
    }
    ok(format!("translated: {}", done.join(", ")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder()
        .workflow(book)
        .workflow(translate)
        .open("memory:")
        .await?;
    for pages in [vec!["hello", "good night"], vec!["hello", ""]] {
        let pages = pages.into_iter().map(str::to_owned).collect();
        println!("{}", runtime.start(book, pages).await?.result().await?);
    }
    Ok(())
}
