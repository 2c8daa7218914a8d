//! FAULTS 51: more histories that were recorded earlier, of the verbs that reach beyond one instance, end it, or undo what
//! it did. How they are recorded, and why they are never written again, says `recorded_histories.rs`.

use std::time::Duration;

use everstep::storage::record::FailureKind;
use everstep::testing::rig::{End, Rig};
use everstep::{Ctx, Loop, Message, Policy, Result, Workflow, WorkflowError, branch, ensure, ok};
use futures_util::future::Either;
use serde::{Deserialize, Serialize};

use crate::recorded_histories::recorded;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Word(u64);

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(u64))]
struct Double(u64);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<u64>, accepts [Word, Double], |$ctx, _| $body);
    };
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn run<W: Workflow>(rig: &mut Rig<W>) {
    rig.run("recorded").unwrap();
}

workflow!(Races, |ctx| {
    let mut seen = Vec::new();
    for round in 0..3_u64 {
        let winner = ctx
            .race(
                &format!("round {round}"),
                (
                    branch(
                        "hears",
                        |ctx: Ctx<Self>| async move { ok(ctx.receive::<Word>().await?.0) },
                    ),
                    branch("sleeps", |ctx: Ctx<Self>| async move {
                        ctx.sleep("nap", "10s").await?;
                        ok(ctx.step("wakes", || async { ok(100_u64) }).await?)
                    }),
                    branch("fails", |ctx: Ctx<Self>| async move {
                        let work = || async { Err::<u64, _>(WorkflowError::msg("no")) };
                        ok(ctx.step("tries", work).retries(1).await?)
                    }),
                ),
            )
            .await?;
        seen.extend([winner.name.len() as u64, winner.value]);
    }
    // A native combinator drops the loser as well.
    let first = futures_util::future::select(ctx.sleep("short", "1s"), Box::pin(ctx.receive::<Word>()));
    seen.push(u64::from(matches!(first.await, Either::Left(_))));
    ok(seen)
});

#[test]
fn races() {
    let end = recorded::<Races>(|rig| {
        rig.send_after("recorded", secs(5), &Word(7));
        run(rig);
    });
    assert_eq!(end, Some(End::Completed(vec![5, 7, 6, 100, 6, 100, 1])));
}

struct Cousin;

impl Workflow for Cousin {
    const NAME: &'static str = "Cousin";
    type Input = u64;
    type Output = u64;

    async fn run(_: Ctx<Self>, input: u64) -> Result<u64> {
        ok(input)
    }
}

impl everstep::Accepts<Word> for Cousin {}

workflow!(Relations, |ctx| {
    let first = ctx.child(Cousin, 1).await?;
    let second = ctx.child(Cousin, 2).start().await?;
    second.send(Word(2)).await?;
    ctx.child(Cousin, 3).detach().await?;
    ctx.send(Cousin, "somebody", Word(4)).dead_letter().await?;
    ctx.publish(Word(5)).keep("1h").await?;
    let event = ctx.wait_event::<Word>().timeout("1h").await?;
    let none = ctx.wait_event::<Word>().within("1m").await?;
    let second = second.await?;
    ok(vec![first, second, event.0, u64::from(none.is_some())])
});

#[test]
fn children_messages_and_events() {
    let end = recorded::<Relations>(|rig| {
        run(rig);
        for (path, after) in [("Cousin~0", 5), ("Word~0", 10), ("Cousin~1", 20)] {
            match path {
                "Word~0" => rig.settle_after("recorded", secs(after), path, &Word(5)),
                _ => rig.settle_after("recorded", secs(after), path, &after),
            }
        }
        run(rig);
    });
    assert_eq!(end, Some(End::Completed(vec![5, 20, 5, 0])));
}

workflow!(Promises, |ctx| {
    let kept = ctx.promise::<u64>("kept")?;
    let late = ctx.promise::<u64>("late")?.timeout("1m");
    let broken = ctx.promise::<u64>("broken")?;
    let late = late
        .await
        .unwrap_or_else(|failure| u64::from(failure.kind == FailureKind::TimedOut));
    let broken = broken
        .await
        .unwrap_or_else(|failure| u64::from(failure.kind == FailureKind::Rejected));
    ok(vec![kept.await?, late, broken])
});

#[test]
fn promises() {
    let end = recorded::<Promises>(|rig| {
        rig.settle_after("recorded", secs(5), "kept", &7_u64);
        rig.reject_after("recorded", secs(90), "broken", "never");
        run(rig);
    });
    assert_eq!(end, Some(End::Completed(vec![7, 1, 1])));
}

workflow!(Cancelled, |ctx| {
    ctx.step("reserve", || async { ok(()) })
        .rollback(|(): ()| async { ok(()) })
        .await?;
    let heard = ctx.receive::<Word>().await;
    let shielded = ctx.shield();
    shielded.sleep("cool down", "1m").await?;
    shielded.step("clean up", || async { ok(()) }).await?;
    ok(vec![heard?.0])
});

#[test]
fn a_cancellation() {
    let end = recorded::<Cancelled>(|rig| {
        rig.cancel_after("recorded", secs(30), "enough");
        run(rig);
    });
    let Some(End::Failed(failure)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Cancelled, "enough")
    );
}

struct Deadline;

impl Workflow for Deadline {
    const NAME: &'static str = "Deadline";
    type Input = ();
    type Output = Vec<u64>;

    fn policy() -> Policy {
        Policy::new().deadline("1h")
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<Vec<u64>> {
        let done = ctx
            .step("reserve", || async { ok(1) })
            .rollback(|_: u64| async { ok(()) });
        let done = done.await?;
        ctx.sleep("too long", "2h").await?;
        ok(vec![done])
    }
}

#[test]
fn a_deadline() {
    let end = recorded::<Deadline>(run);
    let Some(End::Failed(failure)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(failure.kind, FailureKind::DeadlineExceeded);
}

workflow!(Undone, |ctx| {
    let undo = |_: u64| async { ok(()) };
    ctx.step("before", || async { ok(1_u64) }).rollback(undo).await?;
    ctx.join(
        "both",
        vec![branch("only", move |ctx: Ctx<Self>| async move {
            ok(ctx.step("inside", || async { ok(2_u64) }).rollback(undo).await?)
        })],
    )
    .await?;
    let rounds = ctx
        .repeat("rounds", 0_u64, move |ctx: Ctx<Self>, round| async move {
            ctx.checkpoint("from here on")?;
            ctx.step("in a round", || async { ok(3_u64) }).rollback(undo).await?;
            ok(if round == 5 {
                Loop::Break(round)
            } else {
                Loop::Continue(round + 1)
            })
        })
        .commit_interval(2)
        .history_every(2)
        .history_keep(1)
        .await?;
    let _child = ctx.child(Cousin, rounds).rollback(undo).start().await?;
    let failing = |attempt: everstep::Attempt| async move {
        ensure!(attempt.number() > 1, "not at once");
        Err::<(), _>(WorkflowError::msg("not at all"))
    };
    let _ = ctx
        .compensate("after", 4_u64, move |_: u64, attempt: everstep::Attempt| {
            failing(attempt)
        })
        .retries(1);
    Err(everstep::rollback(WorkflowError::msg("declined")))
});

#[test]
fn checkpoints_and_undoings() {
    let end = recorded::<Undone>(run);
    let Some(End::Failed(failure)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(failure.message, "declined");
}

workflow!(Tries, |ctx| {
    let failing = || async { Err::<u64, _>(WorkflowError::msg("no")) };
    let tried = ctx.try_step("step", failing).await?;
    let scope = ctx.try_scope("scope", |ctx: Ctx<Self>| async move {
        ctx.sleep("nap", "1s").await?;
        ok(ctx
            .step("fails", || async {
                Err::<u64, _>(everstep::critical(WorkflowError::msg("no")))
            })
            .await?)
    });
    let scope = scope.await?;
    let slow = ctx
        .step("slow", || async { ok(std::future::pending::<u64>().await) })
        .timeout("1s")
        .await;
    ok(vec![
        u64::from(tried.is_err()),
        u64::from(scope.is_err()),
        u64::from(slow.is_err()),
        ctx.uuid().len() as u64,
    ])
});

#[test]
fn failures_as_values() {
    assert_eq!(recorded::<Tries>(run), Some(End::Completed(vec![1, 1, 1, 36])));
}

workflow!(Asked, |ctx| {
    let asked = ctx.question::<Double>().await?;
    let number = asked.0;
    let double = ctx.step("double", move || async move { ok(number * 2) }).await?;
    asked.reply(&double)?;
    let refused = ctx.question::<Double>().timeout("1h").await?;
    let last = refused.0;
    refused.refuse("enough")?;
    ok(vec![double, last])
});

#[test]
fn questions() {
    let end = recorded::<Asked>(|rig| {
        rig.ask_after("recorded", secs(1), &Double(3));
        rig.ask_after("recorded", secs(2), &Double(4));
        run(rig);
    });
    assert_eq!(end, Some(End::Completed(vec![6, 4])));
}

workflow!(Again, |ctx| {
    let word = ctx.receive::<Word>().await?.0;
    let drawn = ctx.random() % 1_000;
    if ctx.run_number() < 3 {
        return ctx.continue_as_new(());
    }
    ctx.sleep("nap", "1m").await?;
    ok(vec![word, drawn])
});

#[test]
fn a_later_run() {
    let end = recorded::<Again>(|rig| {
        for (word, after) in [(1, 1), (2, 1), (3, 5)] {
            rig.send_after("recorded", secs(after), &Word(word));
        }
        run(rig);
    });
    assert_eq!(end, Some(End::Completed(vec![3, 788])));
}

workflow!(LongLoop, |ctx| {
    let rounds = ctx
        .repeat("rounds", 0_u64, |ctx: Ctx<Self>, round| async move {
            ctx.sleep("nap", "1s").await?;
            let squares = ctx.map("squares", 0..3_u64, 2, move |ctx: Ctx<Self>, item| async move {
                ok(ctx.step("square", move || async move { ok(item * round) }).await?)
            });
            let sum: u64 = squares.await?.into_iter().sum();
            let version = ctx.version("shape", 2)?;
            ctx.set("sum", sum)?;
            ok(if round == 30 {
                Loop::Break(sum + u64::from(version))
            } else {
                Loop::Continue(round + 1)
            })
        })
        .commit_interval(3)
        .history_every(4)
        .history_keep(2)
        .await?;
    let patched = ctx.patched("greeting")?;
    ok(vec![rounds, u64::from(patched)])
});

#[test]
fn a_loop_that_is_trimmed() {
    assert_eq!(recorded::<LongLoop>(run), Some(End::Completed(vec![92, 1])));
}
