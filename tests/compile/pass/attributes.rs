//! Documentation, visibility, conditions and lint levels carry over; the strictest crate has nothing to complain about.
#![deny(warnings, missing_docs, unreachable_pub)]

use everstep::{Attempt, Ctx, Message, Result, activity, ok, workflow};
use serde::{Deserialize, Serialize};

/// Asks for more.
#[derive(Message, Serialize, Deserialize)]
#[message(name = "more")]
pub struct More;

mod shop {
    use super::*;

    /// Sells something.
    #[workflow(accepts(super::More), retries(limit = 3, delay = "1s"), strategy = "quarantine", deadline = "30d")]
    #[allow(unused_variables)]
    pub(crate) async fn sale(ctx: Ctx<Sale>, (price, count): (u32, u32)) -> everstep::Result<u32> {
        let unused = 1;
        ok(price * count)
    }

    #[activity]
    #[allow(dead_code)]
    async fn never_run() -> Result<()> {
        ok(())
    }

    #[workflow]
    #[cfg(any())]
    async fn not_compiled(ctx: Ctx<NotCompiled>) -> Result<Missing> {
        missing()
    }

    #[workflow]
    pub(crate) async fn r#type(_: Ctx<Self>) -> Result<()> {
        ok(())
    }
}

/// Only takes the attempt.
#[activity(
    name = "números",
    retries = 0,
    timeout = "1m 30s",
    delay = "2 minutes",
    heartbeat = "10s",
    retry_on_timeout
)]
pub async fn tally(attempt: Attempt) -> Result<u32, std::num::TryFromIntError> {
    u32::try_from(u64::from(attempt.number()))
}

/// A main with everything in use.
pub fn main() {
    let _ = everstep::Runtime::builder()
        .workflow(shop::sale)
        .workflow(shop::Sale)
        .workflow(shop::r#type);
    let _: Tally = tally();
    assert_eq!(<shop::Type as everstep::Workflow>::NAME, "type");
}
