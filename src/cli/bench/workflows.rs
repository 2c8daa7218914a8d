//! The workflows that are measured. They do nothing but what is measured, so that the same can be written for any other
//! engine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep::{Builder, Ctx, Message, Result, Runtime, ok, workflow};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

/// A message that lets whoever waits for it go on.
#[derive(Message, Serialize, Deserialize)]
pub(crate) struct Go;

/// A question that asks for so many steps to be done before it is answered.
#[derive(Message, Serialize, Deserialize)]
#[message(reply(u32))]
pub(crate) struct Take {
    pub(crate) steps: u32,
}

/// Operations of one scope that are made at once when a history is made longer.
const ITEMS_AT_ONCE: usize = 1_000;

/// Items of one map: fewer than a scope may have.
const ITEMS_MAX: u32 = 15_000;

/// A runtime that can run all of them.
pub(crate) fn builder() -> Builder {
    Runtime::builder()
        .workflow(chain)
        .workflow(waits)
        .workflow(fan)
        .workflow(sleeper)
        .workflow(flight)
        .workflow(long)
        .workflow(replayed)
}

/// W1, W2, W3: steps that do nothing, one after the other.
#[workflow]
pub(crate) async fn chain(ctx: Ctx<Chain>, steps: u32) -> Result<u32> {
    let mut done = 0;
    for number in 0..steps {
        done += ctx.step(&number.to_string(), || async { ok(1) }).await?;
    }
    ok(done)
}

/// W4: waits for one message.
#[workflow(accepts(Go))]
pub(crate) async fn waits(ctx: Ctx<Waits>) -> Result<()> {
    ctx.receive::<Go>().await?;
    ok(())
}

/// W7: steps that do nothing, all at once.
#[workflow]
pub(crate) async fn fan(ctx: Ctx<Fan>, steps: u32) -> Result<u32> {
    let names: Vec<_> = (0..steps).map(|number| number.to_string()).collect();
    let all = names.iter().map(|name| ctx.step(name, || async { ok(1_u32) }));
    ok(try_join_all(all).await?.into_iter().sum())
}

/// How late sleepers woke, in microseconds.
pub(crate) static LATENESS_US: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// W5: sleeps until a time, in milliseconds since 1970, and notes how late it woke.
#[workflow]
pub(crate) async fn sleeper(ctx: Ctx<Sleeper>, until_ms: u64) -> Result<()> {
    ctx.sleep_until("sleep", UNIX_EPOCH + Duration::from_millis(until_ms))
        .await?;
    let late = now_us().saturating_sub(until_ms * 1_000);
    LATENESS_US.lock().expect("nobody panics with it").push(late);
    ok(())
}

/// Which life of the process this is, for [`flight`]; and how many of its steps ran in it.
pub(crate) static LIFE: AtomicU64 = AtomicU64::new(1);
pub(crate) static RUNS: AtomicU64 = AtomicU64::new(0);

/// W6: three steps, a sleep until a time, two more steps. Gives how many results are of the present life of the
/// process: if more steps than that ran in it, one ran again whose result was stored.
#[workflow]
pub(crate) async fn flight(ctx: Ctx<Flight>, until_ms: u64) -> Result<u64> {
    let mut lives = Vec::new();
    for number in 0..5 {
        if number == 3 {
            ctx.sleep_until("sleep", UNIX_EPOCH + Duration::from_millis(until_ms))
                .await?;
        }
        let step = || async {
            RUNS.fetch_add(1, Ordering::Relaxed);
            ok(LIFE.load(Ordering::Relaxed))
        };
        lives.push(ctx.step(&number.to_string(), step).await?);
    }
    let now = LIFE.load(Ordering::Relaxed);
    ok(lives.into_iter().filter(|life| *life == now).count() as u64)
}

/// W8: a history of so many steps, then waits for a message, passivated.
#[workflow(accepts(Go))]
pub(crate) async fn replayed(ctx: Ctx<Replayed>, steps: u32) -> Result<()> {
    grow(&ctx, steps).await?;
    ctx.receive::<Go>().await?;
    ok(())
}

/// W9: a history of so many steps, then one after the other as often as it is asked.
#[workflow(accepts(Take))]
pub(crate) async fn long(ctx: Ctx<Long>, steps: u32) -> Result<()> {
    grow(&ctx, steps).await?;
    for round in 0.. {
        let asked = ctx.question::<Take>().await?;
        for number in 0..asked.steps {
            ctx.step(&format!("{round}.{number}"), || async { ok(()) }).await?;
        }
        let steps = asked.steps;
        asked.reply(&steps)?;
    }
    ok(())
}

/// Makes a history longer by so many entries, and a few for the maps.
async fn grow<W: 'static>(ctx: &Ctx<W>, steps: u32) -> Result<()> {
    let mut left = steps;
    for round in 0.. {
        let items = left.min(ITEMS_MAX);
        left -= items;
        if items == 0 {
            break;
        }
        let one = |ctx: Ctx<W>, _: u32| async move { ok(ctx.step("step", || async { ok(()) }).await?) };
        ctx.map(&format!("map {round}"), 0..items, ITEMS_AT_ONCE, one).await?;
    }
    ok(())
}

/// The time of the machine, in microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a bench measures the time of the machine")]
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
