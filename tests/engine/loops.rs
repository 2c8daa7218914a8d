//! Durable loops: where they go on, what they keep, and what they leave to others.

use std::future::IntoFuture as _;
use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Attempt, Ctx, Loop, Result, Workflow, WorkflowError, ok};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

macro_rules! workflow {
    ($name:ident, |$ctx:ident, $times:ident| $body:expr) => {
        define!($name: u32 => Vec<u64>, accepts [], |$ctx, $times| $body);
    };
}

fn run<W: Workflow<Input = u32, Output = Vec<u64>>>(times: u32) -> End<Vec<u64>> {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &times);
        let end = rig.run("i").unwrap();
        assert_eq!(rig.replay("i").unwrap().as_ref(), Some(&end));
        end
    })
}

workflow!(Overtaken, |ctx, times| {
    let nap = async {
        ctx.sleep("nap", "1500ms").await?;
        ok(0)
    };
    let body = |ctx: Ctx<Overtaken>, done: u32| async move {
        ctx.sleep("short", "1s").await?;
        ok(if done + 1 == times {
            Loop::Break(1)
        } else {
            Loop::Continue(done + 1)
        })
    };
    let counting = ctx.repeat("count", 0, body).into_future();
    let both: FuturesUnordered<_> = [nap.boxed(), counting].into_iter().collect();
    let order: Vec<Result<u64>> = both.collect().await;
    order.into_iter().collect()
});

/// Found by reading: a loop that was over gave its value the moment that replay came to it, before anything that had
/// happened while it ran. Whoever was watching which came first saw it the other way round.
#[test]
fn a_loop_that_is_over_ends_in_replay_where_it_ended() {
    assert_eq!(run::<Overtaken>(3), End::Completed(vec![0, 1]));
    assert_eq!(run::<Overtaken>(1), End::Completed(vec![1, 0]));
}

workflow!(Clocked, |ctx, times| {
    let start = ctx.now();
    let body = |ctx: Ctx<Clocked>, mut seen: Vec<u64>| async move {
        seen.push(ctx.now().duration_since(start).unwrap().as_secs());
        ctx.sleep("short", "1s").await?;
        ok(if seen.len() == times as usize {
            Loop::Break(seen)
        } else {
            Loop::Continue(seen)
        })
    };
    ctx.repeat("count", vec![], body)
        .commit_interval(2)
        .history_every(1)
        .history_keep(0)
        .await
});

/// Found by reading: the time that the code reads comes from completions, and those of the iterations that a loop had
/// left behind were not looked at any more. A loop that went on after a restart began in the past.
#[test]
fn a_loop_goes_on_at_the_time_at_which_it_was() {
    assert_eq!(run::<Clocked>(5), End::Completed(vec![0, 1, 2, 3, 4]));
}

workflow!(Nested, |ctx, times| {
    let outer = move |ctx: Ctx<Nested>, mut seen: Vec<u64>| async move {
        let inner = move |ctx: Ctx<Nested>, count: u64| async move {
            let next = ctx.step("s", move || async move { ok(count + 1) }).await?;
            ctx.sleep("short", "1s").await?;
            ok(if next >= 4 {
                Loop::Break(next)
            } else {
                Loop::Continue(next)
            })
        };
        let inner = ctx
            .repeat("inner", 0, inner)
            .commit_interval(1)
            .history_every(1)
            .history_keep(1);
        seen.push(inner.await?);
        ok(if seen.len() == times as usize {
            Loop::Break(seen)
        } else {
            Loop::Continue(seen)
        })
    };
    ctx.repeat("outer", vec![], outer)
        .commit_interval(2)
        .history_every(1)
        .history_keep(2)
        .await
});

#[test]
fn loops_nest_and_are_trimmed_each_on_its_own() {
    assert_eq!(run::<Nested>(5), End::Completed(vec![4; 5]));
    let mut rig = Rig::<Nested>::new(Plan::Evict, 1);
    rig.start("i", &20);
    rig.run("i").unwrap();
    assert!(rig.history("i").len() < 15, "{:?}", rig.history("i").keys());
}

workflow!(Failing, |ctx, times| {
    let body = |ctx: Ctx<Failing>, done: u32| async move {
        ctx.sleep("short", "1s").await?;
        if done == times {
            return Err(WorkflowError::msg("enough"));
        }
        ok(Loop::<u32, Vec<u64>>::Continue(done + 1))
    };
    let failed = ctx.repeat("count", 0, body).commit_interval(2).await.unwrap_err();
    let after = ctx.step("after", || async { ok(7) }).await?;
    ok(vec![after, failed.to_string().len() as u64])
});

#[test]
fn an_error_in_the_body_goes_through_and_can_be_caught() {
    assert_eq!(run::<Failing>(3), End::Completed(vec![7, 6]));
}

workflow!(Retrying, |ctx, times| {
    let body = |ctx: Ctx<Retrying>, done: u32| async move {
        let flaky = |attempt: Attempt| async move {
            everstep::ensure!(attempt.number() > 1, "the first one fails");
            ok(())
        };
        ctx.step("flaky", flaky).await?;
        ok(if done + 1 == times {
            Loop::Break(vec![u64::from(times)])
        } else {
            Loop::Continue(done + 1)
        })
    };
    ctx.repeat("count", 0, body)
        .commit_interval(1)
        .history_every(1)
        .history_keep(1)
        .await
});

/// Found by reading: the attempts at a step are kept beside its entry, and stayed when the entry was trimmed.
#[test]
fn attempts_are_trimmed_with_their_steps() {
    assert_eq!(run::<Retrying>(4), End::Completed(vec![4]));
    let mut rig = Rig::<Retrying>::new(Plan::Live, 1).spread(1, Duration::ZERO);
    rig.start("i", &50);
    assert_eq!(rig.run("i").unwrap(), End::Completed(vec![50]));
    assert!(rig.attempts_len("i") <= 2, "{}", rig.attempts_len("i"));
}

workflow!(AsksAround, |ctx, times| {
    let outer = ctx.clone();
    let body = move |_: Ctx<AsksAround>, turn: u32| {
        let ctx = outer.clone();
        async move {
            ctx.step(&format!("page {turn}"), || async { ok(()) }).await?;
            ok(if turn == times {
                Loop::Break(vec![])
            } else {
                Loop::Continue(turn + 1)
            })
        }
    };
    ctx.repeat("pages", 0, body).await
});

workflow!(AwaitsWhatIsAround, |ctx, _times| {
    let nap = std::sync::Mutex::new(Some(ctx.sleep("nap", "1h")));
    let body = |_: Ctx<AwaitsWhatIsAround>, ()| {
        let nap = nap.lock().unwrap().take().unwrap();
        async move {
            nap.await?;
            ok(Loop::Break(vec![]))
        }
    };
    ctx.repeat("pages", (), body).await
});

workflow!(DrawsAround, |ctx, _times| {
    let outer = ctx.clone();
    let body = move |_: Ctx<DrawsAround>, ()| {
        let drawn = outer.random();
        async move { ok(Loop::Break(vec![drawn])) }
    };
    ctx.repeat("pages", (), body).await
});

/// Found in review: the context around a loop worked in it, until a restart. Then the loop went on from a recorded state,
/// what its earlier iterations had asked for around it was never asked for again, and the instance was stuck for good.
#[test]
fn an_iteration_does_not_ask_for_what_is_around_its_loop() {
    fn refused<W: Workflow<Input = u32, Output = Vec<u64>>>() {
        let End::Failed(failure) = run::<W>(25) else {
            panic!("it was not refused");
        };
        assert_eq!(failure.code.as_deref(), Some("ES0108"), "{failure}");
    }
    refused::<AsksAround>();
    refused::<AwaitsWhatIsAround>();
    refused::<DrawsAround>();
}

workflow!(LooksAtWhatIsAround, |ctx, times| {
    let nap = ctx.sleep("nap", "150m").shared();
    assert!(nap.clone().now_or_never().is_none());
    let body = move |ctx: Ctx<LooksAtWhatIsAround>, turns: Vec<u64>| {
        let nap = nap.clone();
        async move {
            let turn = ctx.sleep("turn", "1h");
            let slept = match futures_util::future::select(nap, turn).await {
                futures_util::future::Either::Left((_, turn)) => turn.await.map(|()| 1)?,
                futures_util::future::Either::Right(_) => 0,
            };
            let turns = [turns, vec![slept]].concat();
            ok(if turns.len() == times as usize {
                Loop::Break(turns)
            } else {
                Loop::Continue(turns)
            })
        }
    };
    ctx.repeat("turns", vec![], body).commit_interval(1).await
});

#[test]
fn an_iteration_may_look_at_what_was_awaited_around_its_loop() {
    assert_eq!(run::<LooksAtWhatIsAround>(4), End::Completed(vec![0, 0, 1, 1]));
}
