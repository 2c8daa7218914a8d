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

use std::error::Error;

use everstep::testing::Harness;
use everstep::{CatchUp, Cron, Ctx, Overlap, Result, Runtime, ok, workflow};

#[workflow]
async fn report(_ctx: Ctx<Report>, shop: String) -> Result<String> {
    ok(format!("all is well in {shop}"))
}

#[workflow]
async fn index(_ctx: Ctx<Index>, version: u32) -> Result<String> {
    ok(format!("version {version} can be found"))
}

/// Slots at six, twelve and eighteen o'clock; nobody is there from ten to thirteen.
fn a_day_with_a_gap() -> Result<(), Box<dyn Error>> {
    let harness = Harness::new(Runtime::builder().workflow(report));
    harness.call(async |runtime| {
        let times = Cron::new("0 6,12,18 * * *");
        let schedule = runtime.schedule("report", times).starts(report, "Paris".to_owned());
        schedule.overlap(Overlap::Skip).catch_up(CatchUp::One).await
    })?;
    harness.advance("10h");
    harness.be_down_for("3h");
    harness.advance("10h");
    let page = harness.call(async |runtime| runtime.list().workflow("report").await)?;
    // The newest comes first.
    for report in page.rows.iter().rev() {
        let hour = report.created_at_ms / 3_600_000 % 24;
        println!("the slot of {} began at {hour}", report.id.replace("report-", ""));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn by_hand() -> Result<(), Box<dyn Error>> {
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

fn main() -> Result<(), Box<dyn Error>> {
    a_day_with_a_gap()?;
    by_hand()
}
