//! Somebody who has nothing to do with the load, and tells how much of it had its turn before he had his.

use std::sync::atomic::{AtomicU64, Ordering};

use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

/// How many of a load were served. One test runs at a time.
pub(crate) static SERVED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn served() -> u64 {
    SERVED.load(Ordering::Relaxed)
}

pub(crate) async fn serve() -> Result<()> {
    SERVED.fetch_add(1, Ordering::Relaxed);
    ok(())
}

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(u64))]
struct Count;

/// Is asked when the load is on, and has to be brought into memory for it.
#[workflow(accepts(Count))]
pub(crate) async fn bystands(ctx: Ctx<Bystands>) -> Result<()> {
    let asked = ctx.question::<Count>().await?;
    let count = ctx.step("count", || async { ok(served()) }).await?;
    asked.reply(&count)?;
    ok(())
}

/// Asks one who waits since before the load, and starts another one. Each is served while most of the load waits.
pub(crate) async fn nobody_waits_for_all(runtime: &Runtime, id: &str, many: u64) {
    let old = runtime.handle(bystands, id).unwrap();
    let count = old.ask(Count).await.unwrap();
    assert!(count < many / 4, "asked: after {count} of {many}");
    let new = runtime.start(bystands, ()).await.unwrap();
    let count = new.ask(Count).await.unwrap();
    assert!(count < many / 2, "started: after {count} of {many}");
}
