//! Schedules: instances that start by themselves, by the calendar or at intervals, and starts that wait for the last.
//!
//! Each slot starts one instance at most, whatever crashes. The first part plays in virtual time: a day passes at once,
//! and for three hours of it the machine is switched off.
//!
//! Output:
//!
//! ```text
//! the slot of 2030-01-01T06:00:00Z began at 6
//! the slot of 2030-01-01T12:00:00Z began at 13
//! the slot of 2030-01-01T18:00:00Z began at 18
//! by hand: all is well in Paris
//! version 1 waits
//! version 2 takes the place of the one before
//! version 3 takes the place of the one before
//! ```

use std::time::Duration;

use everstep::testing::harness::Plan;
use everstep::testing::world::World;
use everstep::{CatchUp, Cron, Ctx, Overlap, Result, Runtime, ok, workflow};

#[workflow]
async fn report(_ctx: Ctx<Report>, shop: String) -> Result<String> {
    ok(format!("all is well in {shop}"))
}

#[workflow]
async fn index(_ctx: Ctx<Index>, version: u32) -> Result<String> {
    ok(format!("version {version} can be found"))
}

const HOUR: Duration = Duration::from_secs(3600);

/// Slots at six, twelve and eighteen o'clock; nobody is there from ten to thirteen.
fn a_day_with_a_gap() -> Result<(), Box<dyn std::error::Error>> {
    let mut world = World::new(Plan::Live, 1).workflow(Report);
    let (times, policies) = (Cron::new("0 6,12,18 * * *"), (Overlap::Skip, CatchUp::One));
    world.schedule(Report, "report", times, policies, &"Paris".to_owned());
    world.run_for(10 * HOUR)?;
    world.be_down_for(3 * HOUR);
    world.run_for(10 * HOUR)?;
    for id in world.instances() {
        if let (Some(slot), Some(origin)) = (id.strip_prefix("report-"), world.origin(&id)) {
            let hour = origin.created_at_ms / 3_600_000 % 24;
            println!("the slot of {slot} began at {hour}");
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn by_hand() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Runtime::builder().workflow(report).workflow(index);
    let runtime = builder.open("memory:").await?;
    // Said at every start of the program: the same again changes nothing.
    let yearly = runtime
        .schedule("yearly", Cron::new("@yearly").zone("Asia/Tokyo"))
        .starts(report, "Paris".to_owned())
        .jitter("5m")
        .await?;
    let now = yearly.trigger().await?;
    let told: String = now.instance().ok_or("nothing is in its way")?.result_as().await?;
    println!("by hand: {told}");

    // Three changes of a document, one after the other: only the last is worth the work.
    for version in 1..=3 {
        let wanted = runtime.debounce("document-7", "1h").starts(index, version).await?;
        if wanted.replaced() {
            println!("version {version} takes the place of the one before");
        } else {
            println!("version {version} waits");
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    a_day_with_a_gap()?;
    by_hand()
}
