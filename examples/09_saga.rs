//! A saga: what was done is undone when a later part fails, in reverse order, also across crashes.
//!
//! A step says how it is undone with `rollback`; `compensate` registers anything else. Nothing is undone as long as
//! the workflow goes well.
//!
//! Output:
//!
//! ```text
//! booked a flight
//! booked a room
//! charged 900
//! refunded 900
//! cancelled the room
//! cancelled the flight
//! trip-1 ended compensated: the visa was refused
//! booked a flight
//! booked a room
//! charged 700
//! trip-2 ended completed
//! ```

use std::error::Error;

use everstep::{Ctx, Result, Runtime, Status, ensure, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Wish {
    price: u32,
    visa: bool,
}

#[workflow]
async fn trip(ctx: Ctx<Trip>, wish: Wish) -> Result<()> {
    let Wish { price, visa } = wish;
    ctx.step("flight", || book("a flight")).rollback(cancel).await?;
    ctx.step("room", || book("a room")).rollback(cancel).await?;
    // Registered before the step: an attempt of which nobody knows how far it got is undone as well.
    ctx.compensate("refund", price, refund).retries(10);
    ctx.step("charge", move || charge(price)).await?;
    ensure!(visa, "the visa was refused");
    ok(())
}

async fn book(what: &str) -> Result<String> {
    println!("booked {what}");
    ok(what.replacen('a', "the", 1))
}

async fn cancel(what: String) -> Result<()> {
    println!("cancelled {what}");
    ok(())
}

async fn charge(price: u32) -> Result<()> {
    println!("charged {price}");
    ok(())
}

async fn refund(price: u32) -> Result<()> {
    println!("refunded {price}");
    ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(trip).open("memory:").await?;
    for (id, price, visa) in [("trip-1", 900, false), ("trip-2", 700, true)] {
        let trip = runtime.start(trip, Wish { price, visa }).id(id).await?;
        let status = trip.reached(Status::is_terminal).await?;
        match trip.result().await {
            Err(everstep::Error::Failed(failure)) => println!("{id} ended {status}: {}", failure.message),
            other => {
                other?;
                println!("{id} ended {status}");
            }
        }
    }
    Ok(())
}
