//! A schedule: a built-in workflow that starts an instance whenever a slot comes.
//!
//! It is an instance like any other, durable by the same engine. It waits for the next slot or for news, decides, and
//! does what it decided at the beginning of the next iteration of its loop. In between lies a commit with its diary, so
//! what it does is read from the diary and never computed again: another time zone database, or a clock that was set,
//! changes what comes next and not what was decided.
//!
//! A slot starts at most one instance. The start is a row in the outbox, in the commit that records it; and the id of
//! the instance follows from the schedule and the slot. The loop is trimmed behind every slot, so a schedule is as small
//! after a million of them as after the first.

mod diary;
mod terms;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::{join, try_join_all};
use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::engine::context::Ctx;
use crate::engine::error::{Result, critical, ok};
use crate::engine::message::{Message, Question};
use crate::engine::verbs::{Loop, Reply, SendTo, told, unpack};
use crate::engine::workflow::{Accepts, Workflow};
use crate::ids::{InstanceId, InvalidId};
use crate::storage::record::{Content, ENDED, Failure};
use crate::timing::Times;

pub(crate) use diary::{Diary, Slot, begins_at_ms, instance_name};
pub(crate) use terms::Terms;
pub use terms::{CatchUp, Overlap};

use diary::Act;

/// What the ids of schedules begin with. Nobody can take such an id.
const PREFIX: &str = "__schedule ";

/// The name of the loop in which a schedule lives.
pub(crate) const LOOP: &str = "slots";

/// The workflow behind every schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule;

/// What a schedule begins with: its terms, and what it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) terms: Terms,
    pub(crate) diary: Diary,
}

/// What an operator asks of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Let no slot begin.
    Pause,
    /// Let slots begin again.
    Resume,
    /// Begin an instance now, under this name.
    Trigger(String),
    /// Go on with other terms.
    Change(Box<Terms>),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done,
    Already,
    Started,
    Waits,
    Skipped,
}

impl Message for Order {
    const NAME: &'static str = "__order";
}

impl Question for Order {
    type Reply = Outcome;
}

impl Accepts<Order> for Schedule {}

/// What a schedule hears.
enum News {
    Ordered(Order, Reply<Outcome>),
    Ended(String),
}

/// How the loop ends.
#[derive(Serialize, Deserialize)]
enum Over {
    /// There is no slot any more.
    Done(Diary),
    /// Other terms hold.
    Changed(Box<Plan>),
}

impl Workflow for Schedule {
    const NAME: &'static str = "__schedule";
    type Input = Plan;
    type Output = Diary;

    async fn run(ctx: Ctx<Self>, plan: Plan) -> Result<Diary> {
        let Plan { terms, diary } = plan;
        let known = Arc::new((terms.rule.times().map_err(critical)?, terms));
        let slots = ctx.repeat(LOOP, diary, |ctx: Ctx<Self>, diary: Diary| {
            let known = Arc::clone(&known);
            async move { slot(&ctx, &known.1, &known.0, diary).await }
        });
        match slots.commit_interval(1).history_every(1).history_keep(0).await? {
            Over::Done(diary) => ok(diary),
            Over::Changed(plan) => ctx.continue_as_new(*plan),
        }
    }
}

/// Does what was decided, waits for what comes next, and decides about it.
async fn slot(ctx: &Ctx<Schedule>, terms: &Terms, times: &Times, mut diary: Diary) -> Result<Loop<Diary, Over>> {
    let to_do = std::mem::take(&mut diary.to_do);
    let acts = try_join_all(to_do.into_iter().map(|act| carry_out(ctx, terms, act)));
    if diary.is_over() {
        acts.await?;
        return ok(Loop::Break(Over::Done(diary)));
    }
    // Asked for together: one commit starts the instances of this slot and arms the alarm of the next.
    let (acts, news) = join(acts, news(ctx, diary.wakes_at_ms(terms))).await;
    acts?;
    let (news, now) = (news?, ctx.scope().now_ms());
    let before = (diary.started, diary.skipped);
    if let Some(News::Ended(instance)) = &news {
        diary.ended(instance);
    }
    diary.come_to(now, terms, times);
    match news {
        Some(News::Ordered(Order::Change(wanted), reply)) => {
            let codecs = ctx.scope().codecs();
            if terms.say_the_same(&wanted, codecs).map_err(Failure::from)? {
                reply.with(&Outcome::Already)?;
            } else {
                let next_ms = wanted.rule.times().map_err(critical)?.first(now);
                let (terms, diary) = (*wanted, diary.change(next_ms));
                reply.with(&Outcome::Done)?;
                return ok(Loop::Break(Over::Changed(Box::new(Plan { terms, diary }))));
            }
        }
        Some(News::Ordered(order, reply)) => reply.with(&diary.obey(&order, now, terms, times))?,
        Some(News::Ended(_)) | None => {}
    }
    if !ctx.scope().journal().lock().is_silent() {
        crate::telemetry::slots(diary.started - before.0, diary.skipped - before.1);
    }
    ok(Loop::Continue(diary))
}

/// Waits for what an operator wants or how an instance ended, but not past this time.
async fn news(ctx: &Ctx<Schedule>, until_ms: Option<Millis>) -> Result<Option<News>, Failure> {
    let names = vec![Order::NAME, ENDED];
    let mut news = ctx.waiting("news", names, |operation, message| {
        if let (ENDED, _) = told(message) {
            return Ok(News::Ended(message.from.clone().unwrap_or_default()));
        }
        let reply = Reply::of(operation, message);
        Ok(News::Ordered(unpack(operation, told(message).1)?, reply))
    });
    if let Some(until_ms) = until_ms {
        news = news.until(UNIX_EPOCH + Duration::from_millis(until_ms));
    }
    news.or_none().await
}

async fn carry_out(ctx: &Ctx<Schedule>, terms: &Terms, act: Act) -> Result<(), Failure> {
    match act {
        // Where the next slot depends on its end, the schedule hears of that.
        Act::Start(instance) => {
            let tells_its_end = terms.overlap != Overlap::Allow;
            terms.target.start(ctx, instance, tells_its_end).await
        }
        Act::Cancel(instance) => {
            let reason = "the next slot of its schedule has come".to_owned();
            SendTo::new(
                ctx.scope(),
                InstanceId::internal(instance),
                Ok(Content::Cancel { reason }),
            )
            .await
        }
    }
}

/// The instance behind the schedule of a name.
pub(crate) fn schedule_of(name: &str) -> std::result::Result<InstanceId, InvalidId> {
    InstanceId::internal(format!("{PREFIX}{name}"))
}

/// The name of a schedule, if an id is that of one.
pub(crate) fn schedule_name(instance: &str) -> Option<&str> {
    instance.strip_prefix(PREFIX)
}

/// The end of an instance, as its schedule hears of it. Hearing of it twice does no harm, so it leaves no trace there.
pub(crate) fn ended() -> Content {
    Content::Told {
        name: ENDED.to_owned(),
        payload: crate::storage::payload::Payload::nothing(),
    }
}
