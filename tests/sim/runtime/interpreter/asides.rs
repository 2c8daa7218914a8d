//! The parts of a program that are over at once, or that only talk.

use std::time::{Duration, UNIX_EPOCH};

use everstep::{Attempt, Ctx, Result, branch, ok};

use super::{At, Interpreter, Place};
use crate::runtime::ledger;
use crate::runtime::program::Node;

pub(super) async fn run(at: At, name: String, node: &Node) -> Result<Vec<String>> {
    let place = at.place(&name);
    match node {
        Node::SleepUntil(millis) => {
            let until = at.ctx.now() + Duration::from_millis(*millis);
            let at_ms = until.duration_since(UNIX_EPOCH)?.as_millis() as u64;
            ledger::with(|ledger| ledger.lies_down_until(&place, at_ms));
            at.ctx.sleep_until(&name, until).await?;
            ledger::with(|ledger| ledger.wakes(&place));
            return ok(at.saw(name));
        }
        // What is drawn is counted in its scope, so it has one of its own.
        Node::Uuid => {
            let drawing = branch("draw", move |ctx: Ctx<Interpreter>| async move {
                let uuid = ctx.uuid();
                ledger::with(|ledger| ledger.draws(&place, &uuid));
                ctx.sleep("behind", Duration::ZERO).await?;
                ok(vec![uuid])
            });
            return ok(at.ctx.join(&name, vec![drawing]).await?.concat());
        }
        Node::Emit => {
            ledger::with(|ledger| ledger.emits(&place));
            at.ctx.emit(&place.path)?;
            at.ctx.broadcast(&place.path)?;
        }
        _ => {
            let ends = at.ctx.is_cancelled();
            ledger::with(|ledger| ledger.asks_whether_it_ends(&place, ends));
        }
    }
    // `select!` may or may not come to the branches beside one that is ready when it is first polled.
    at.ctx.sleep(&name, Duration::ZERO).await?;
    ok(at.saw(name))
}

/// An attempt says that it lives, and how far it is.
pub(super) fn lives(place: &Place, value: &String, attempt: &Attempt) -> Result<()> {
    ledger::with(|ledger| ledger.is_alive(place, value));
    attempt.heartbeat(value)
}
