//! The parts of a program that need the world: children, questions, promises, events.

use std::time::Duration;

use everstep::{Asked, Ctx, Result, branch, ok};

use super::{At, Interpreter, Riddle, Tidings};
use crate::runtime::ledger;
use crate::runtime::program::{Answering, Bearing, Program};

/// Another instance. It knows the place that bore it.
pub(super) async fn child(at: At, name: String, bearing: Bearing, mut program: Program) -> Result<Vec<String>> {
    let inside = at.clone();
    let (closable, place) = (program.closable, at.place(&name));
    program.born = Some(place.path.clone());
    let parent = place.instance.clone();
    let having = branch("child", move |ctx: Ctx<Interpreter>| async move {
        let child = ctx.child(Interpreter, program);
        let expects = |id: &str| ledger::with(|ledger| ledger.expects(&parent, id, closable));
        let outcome = match bearing {
            Bearing::Awaited => child.await,
            Bearing::LetGo => {
                expects(child.detach().await?.id().as_str());
                return ok(inside.saw("let go"));
            }
            Bearing::Dropped(close) => {
                expects(child.close(close.into()).start().await?.id().as_str());
                return ok(inside.saw("dropped"));
            }
            Bearing::Started(close) => {
                let child = child.close(close.into()).start().await?;
                expects(child.id().as_str());
                ctx.sleep("between", "5ms").await?;
                child.await
            }
            Bearing::Cancelled => {
                let child = child.start().await?;
                expects(child.id().as_str());
                child.cancel("not needed").await?;
                child.await
            }
        };
        let said = outcome.as_ref().map_err(ToString::to_string);
        ledger::with(|ledger| ledger.saw_child(&place, said));
        ok([inside.saw("child"), outcome?].concat())
    });
    ok(at.ctx.join(&name, vec![having]).await?.concat())
}

/// A wait for a question.
pub(super) async fn answer(at: At, name: String, how: Answering, patience: Option<u64>) -> Result<Vec<String>> {
    let inside = at.clone();
    let place = at.place(&name);
    let waiting = branch("answer", move |ctx: Ctx<Interpreter>| async move {
        let asked: Option<Asked<Riddle>> = match patience {
            Some(millis) => ctx.question::<Riddle>().within(Duration::from_millis(millis)).await?,
            None => Some(ctx.question::<Riddle>().await?),
        };
        let Some(asked) = asked else {
            ledger::with(|ledger| ledger.took_question(&place, None, ""));
            return ok(inside.saw("nobody asked"));
        };
        let id = asked.id();
        let question = format!("{id} to {}", asked.to);
        ledger::with(|ledger| ledger.took_question(&place, Some(&id), &asked.to));
        let answer = format!("{} {}", place.path, ctx.random());
        ledger::with(|ledger| ledger.answers(&question, &answer));
        match how {
            Answering::Reply => asked.reply(&answer)?,
            Answering::Refuse => asked.refuse(&answer)?,
            Answering::Drop => {
                drop(asked);
                return ok(inside.saw(format!("dropped {id}")));
            }
        }
        ledger::with(|ledger| ledger.has_answered(&question, &answer));
        ok(inside.saw(format!("asked {id}")))
    });
    ok(at.ctx.join(&name, vec![waiting]).await?.concat())
}

/// A promise whose token a step gives away.
pub(super) async fn promise(at: At, name: String, patience: Option<u64>) -> Result<Vec<String>> {
    let place = at.place(&name);
    let promise = at.ctx.promise::<String>(&name)?;
    let token = promise.token();
    let given = (place.clone(), token.clone());
    let giving = move || {
        ledger::with(|ledger| ledger.gives(&given.0, &given.1));
        async { ok(()) }
    };
    at.ctx.step(&format!("{name}.give"), giving).await?;
    ledger::with(|ledger| ledger.awaits(&token, patience));
    let outcome = match patience {
        Some(millis) => promise.timeout(Duration::from_millis(millis)).await,
        None => promise.await,
    };
    let outcome = outcome.map_err(Into::into);
    ledger::with(|ledger| ledger.saw_promise(&place, &token, &outcome));
    ok(at.saw(outcome?))
}

/// An event. It is called after the place that publishes it.
pub(super) async fn publish(at: At, name: String, to_one: bool, keep: u64) -> Result<Vec<String>> {
    let (inside, place) = (at.clone(), at.place(&name));
    let id = place.path.clone();
    let telling = branch("publish", move |ctx: Ctx<Interpreter>| async move {
        ledger::with(|ledger| ledger.publishes(&id, to_one, keep));
        let publishing = ctx
            .publish(Tidings { id: id.clone() })
            .keep(Duration::from_millis(keep));
        if to_one {
            publishing.to_one().await?;
        } else {
            publishing.await?;
        }
        ledger::with(|ledger| ledger.published(&id, Some(&place)));
        ok(inside.saw("published"))
    });
    ok(at.ctx.join(&name, vec![telling]).await?.concat())
}

/// A wait for an event.
pub(super) async fn hear(at: At, name: String, patience: Option<u64>) -> Result<Vec<String>> {
    let (inside, place) = (at.clone(), at.place(&name));
    let waiting = branch("hear", move |ctx: Ctx<Interpreter>| async move {
        let event = ctx.wait_event::<Tidings>();
        let outcome = match patience {
            Some(millis) => event.timeout(Duration::from_millis(millis)).await,
            None => event.await,
        };
        let heard = match outcome {
            Ok(tidings) => Some(tidings.id),
            Err(failure) if failure.kind == everstep::storage::record::FailureKind::TimedOut => None,
            Err(failure) => return Err(failure.into()),
        };
        ledger::with(|ledger| ledger.hears(&place, heard.as_deref()));
        ok(inside.saw(format!("heard {heard:?}")))
    });
    ok(at.ctx.join(&name, vec![waiting]).await?.concat())
}
