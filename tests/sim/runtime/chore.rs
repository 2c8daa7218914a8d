//! A workflow that does next to nothing: what schedules begin, what waits for the last of several starts, and who is in the
//! crew that batches are for.

use std::time::Duration;

use everstep::{Accepted, Accepts, Ctx, Message, Result, Workflow, ok};
use serde::{Deserialize, Serialize};

use super::ledger;

/// Why there is one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Duty {
    /// A slot of a schedule; it takes so long.
    Slot(u64, u64),
    /// A start under a key, by its number.
    Wanted(u64, u64),
    /// One of the crew, which hears notices until it is told to go.
    Crew,
}

/// What a batch tells everybody.
#[derive(Debug, Clone, Message, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub(crate) batch: String,
    /// There is nothing to wait for any more.
    pub(crate) last: bool,
}

pub(crate) struct Chore;

impl Accepts<Notice> for Chore {}

impl Workflow for Chore {
    const NAME: &'static str = "chore";
    type Input = Duty;
    type Output = ();

    fn accepted() -> Vec<Accepted> {
        vec![Accepted::message::<Self, Notice>()]
    }

    async fn run(ctx: Ctx<Self>, duty: Duty) -> Result<()> {
        let (id, uuid) = (ctx.id().to_string(), ctx.uuid());
        ledger::with(|ledger| ledger.chore_begins(&id, &duty, &uuid));
        let outcome = see_to(&ctx, &duty).await;
        ledger::with(|ledger| ledger.chore_returns(&id));
        outcome
    }
}

async fn see_to(ctx: &Ctx<Chore>, duty: &Duty) -> Result<()> {
    match duty {
        Duty::Slot(_, takes_ms) => ctx.sleep("work", Duration::from_millis(*takes_ms)).await?,
        Duty::Wanted(..) => ctx.step("work", || async { ok(()) }).await?,
        Duty::Crew => {
            let mut heard = 0;
            loop {
                let notice = ctx.receive::<Notice>().await?;
                ledger::with(|ledger| ledger.hears_notice(ctx.id().as_str(), heard, &notice));
                if notice.last {
                    break;
                }
                heard += 1;
            }
        }
    }
    ok(())
}
