//! The same for many items, a few at a time: `map`.
//!
//! Results come in the order of the items. All run to their end even if one fails, and the error says which.
//!
//! Output:
//!
//! ```text
//! 1 + 4 + 9 + 16 + 25 = 55, never more than 2 at once: true
//! 1 of 3 items failed: number 1 said `squares/squares~1/square` failed: too large
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use everstep::{Ctx, Result, Runtime, WorkflowError, critical, ok, workflow};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[workflow]
async fn squares(ctx: Ctx<Squares>, numbers: Vec<u64>) -> Result<Vec<u64>> {
    let squares = ctx
        .map("squares", numbers, 2, |ctx: Ctx<Squares>, number| async move {
            ok(ctx.step("square", move || square(number)).await?)
        })
        .await?;
    ok(squares)
}

async fn square(number: u64) -> Result<u64> {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    let too_large = || critical(WorkflowError::msg("too large"));
    number.checked_mul(number).ok_or_else(too_large)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(squares).open("memory:").await?;

    let done = runtime.start(squares, vec![1, 2, 3, 4, 5]).await?.result().await?;
    let text: Vec<_> = done.iter().map(ToString::to_string).collect();
    let within = MOST.load(Ordering::SeqCst) <= 2;
    println!(
        "{} = {}, never more than 2 at once: {within}",
        text.join(" + "),
        done.iter().sum::<u64>()
    );

    let failing = runtime.start(squares, vec![1, u64::MAX, 3]).await?;
    if let Err(everstep::Error::Failed(failure)) = failing.result().await {
        for (number, cause) in &failure.branches {
            println!("{}: number {number} said {cause}", failure.message);
        }
    }
    Ok(())
}
