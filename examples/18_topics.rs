//! Topics: an event is for whoever waits for its type, and who publishes it does not know them.
//!
//! Without more words all who wait get it; `to_one` gives it to the one who has waited longest; what nobody waits for is
//! kept for a day, or as long as `keep` says. It plays in virtual time: what takes hours here takes none.
//!
//! Output:
//!
//! ```text
//! ada comes in, kim has opened
//! bob comes in, kim has opened
//! lee rides to Main Street
//! max waits
//! max rides to Elm Street
//! zoe gave up: no event came in time
//! ```

use everstep::testing::{Harness, Status};
use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Opened {
    by: String,
}

#[derive(Message, Serialize, Deserialize)]
struct Parcel {
    to: String,
}

#[workflow]
async fn visitor(ctx: Ctx<Visitor>, name: String) -> Result<String> {
    let opened = ctx.wait_event::<Opened>().timeout("1d").await?;
    ok(format!("{name} comes in, {} has opened", opened.by))
}

#[workflow]
async fn courier(ctx: Ctx<Courier>, name: String) -> Result<String> {
    let parcel = ctx.wait_event::<Parcel>().timeout("1d").await?;
    ok(format!("{name} rides to {}", parcel.to))
}

#[workflow]
async fn shop(ctx: Ctx<Shop>) -> Result<()> {
    // Everybody hears of it who waits already, and nobody who comes later.
    let by = "kim".to_owned();
    ctx.publish(Opened { by }).keep("0s").await?;
    // One courier is enough.
    let to = "Main Street".to_owned();
    ctx.publish(Parcel { to }).to_one().await?;
    ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Runtime::builder().workflow(visitor).workflow(courier).workflow(shop);
    let harness = Harness::new(builder);
    let visitors = ["ada", "bob"].map(|name| harness.start(visitor, name.to_owned()));
    let couriers = ["lee", "max"].map(|name| harness.start(courier, name.to_owned()));
    harness.start(shop, ()).output();

    for visitor in visitors {
        println!("{}", visitor.output());
    }
    let [lee, max] = couriers;
    println!("{}", lee.output());
    if max.status() == Status::Waiting {
        println!("max waits");
    }
    // From outside, and kept: it would be there for an hour if nobody waited.
    harness.call(async |runtime| {
        let to = "Elm Street".to_owned();
        let parcel = runtime.publish(Parcel { to }).id("parcel-2");
        parcel.to_one().keep("1h").await
    })?;
    println!("{}", max.output());

    // Who comes when it is over waits for the next one.
    let zoe = harness.start(visitor, "zoe".to_owned());
    if let Err(failure) = zoe.run_until_complete() {
        println!("zoe gave up: {}", failure.message);
    }
    Ok(())
}
