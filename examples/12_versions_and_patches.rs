//! Changing the code of a workflow while instances of it are under way.
//!
//! An instance that began before a change keeps to the old path, because that is what its history says; one that
//! comes to the change for the first time follows the new one. What does not fit its history is never run: the
//! instance is stuck, with a report, until code comes that fits.
//!
//! Output:
//!
//! ```text
//! began before the change: shipped
//! began after the change: wrapped as a gift, shipped
//! ```

use std::error::Error;

use everstep::{Ctx, Result, Runtime, Status, ok, workflow};

/// What was deployed first.
mod before {
    use super::*;

    #[workflow(name = "parcel")]
    pub(crate) async fn parcel(ctx: Ctx<Parcel>) -> Result<String> {
        ctx.step("pick", || async { ok(()) }).await?;
        ctx.sleep("until the van comes", "200ms").await?;
        ok(ctx.step("ship", || async { ok("shipped".to_owned()) }).await?)
    }
}

/// What is deployed now: gifts are wrapped before the van comes.
mod after {
    use super::*;

    #[workflow(name = "parcel", version = 2)]
    pub(crate) async fn parcel(ctx: Ctx<Parcel>) -> Result<String> {
        ctx.step("pick", || async { ok(()) }).await?;
        let mut done = String::new();
        if ctx.patched("wrap gifts")? {
            done = ctx
                .step("wrap", || async { ok("wrapped as a gift, ".to_owned()) })
                .await?;
        }
        ctx.sleep("until the van comes", "200ms").await?;
        ok(done + &ctx.step("ship", || async { ok("shipped".to_owned()) }).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = directory.path().join("data").display().to_string();

    let runtime = Runtime::builder().workflow(before::parcel).open(&store).await?;
    let old = runtime.start(before::parcel, ()).id("old").await?;
    old.reached(|status| status == Status::Sleeping).await?;
    drop(old);
    runtime.stop().await;
    drop(runtime);

    let runtime = Runtime::builder().workflow(after::parcel).open(&store).await?;
    let old = runtime.handle(after::parcel, "old")?;
    let new = runtime.start(after::parcel, ()).id("new").await?;
    println!("began before the change: {}", old.result().await?);
    println!("began after the change: {}", new.result().await?);
    Ok(())
}
