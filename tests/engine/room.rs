//! What is counted against the bounds is the same whether the code comes by for the first time or in replay, and what is
//! recorded was within the bounds of its time.

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Bounds, Ctx, Loop, Message, Workflow, branch, ok};
use futures_util::future::{Either, join_all, select, select_all};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
struct Stop(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident, $times:pat_param| $body:expr) => {
        define!($name: u32 => u32, accepts [News, Stop], |$ctx, $times| $body);
    };
}

/// Runs until it waits, lowers the bounds, and sends it a message.
fn goes_on<W: Workflow<Input = u32, Output = u32> + Accepts<News>>(times: u32, before: Bounds, after: Bounds) {
    // A long id makes long rows.
    let id = "i".repeat(200);
    let mut rig = Rig::<W>::new(Plan::Live, 1).bounds(before);
    rig.start(&id, &times);
    assert_eq!(rig.run(&id).unwrap(), End::Waiting);
    let mut rig = rig.bounds(after).deploy::<W>();
    rig.send(&id, &News(1));
    let end = rig.run(&id).map_err(|divergence| divergence.to_string());
    assert_eq!(end, Ok(End::Completed(times)));
}

fn entries(max: u64) -> Bounds {
    Bounds {
        history_entries_max: max,
        ..Bounds::default()
    }
}

workflow!(Drops, |ctx, times| {
    for number in 0..times {
        let part = move |ctx: Ctx<Drops>| async move {
            let waits = [0; 100].map(|_| ctx.receive::<Stop>());
            let step = ctx.step("step", move || async move { ok(number) });
            match select(select_all(waits), step).await {
                Either::Left(_) => ok(0),
                Either::Right((number, _)) => ok(number?),
            }
        };
        ctx.try_scope(&format!("{number}"), part).await??;
    }
    ctx.receive::<News>().await?;
    ok(times)
});

workflow!(NearTheBound, |ctx, times| {
    let waits = select_all([0; 6].map(|_| ctx.receive::<Stop>()));
    select(waits, ctx.step("first", || async { ok(()) })).await;
    for number in 0..times {
        ctx.step(&format!("step {number}"), || async { ok(()) }).await?;
    }
    ctx.receive::<News>().await?;
    ok(times)
});

workflow!(Sleeps, |ctx, times| {
    let naps = (0..times).map(|number| ctx.sleep(&format!("nap {number}"), "1h"));
    let naps = join_all(naps);
    let more = async {
        ctx.sleep("short", "1s").await?;
        ctx.step("step", || async { ok(()) }).await
    };
    futures_util::join!(naps, more).1?;
    ctx.receive::<News>().await?;
    ok(times)
});

/// Found in review: commits reset what was begun since the last one, and replay makes none. It counted every wait that
/// had ever been dropped, and refused what had been done long ago.
#[test]
fn replay_does_not_count_waits_that_were_dropped() {
    goes_on::<Drops>(200, Bounds::default(), Bounds::default());
}

/// Found in review: in replay the whole history was counted beside the first waits, which had had none of it.
#[test]
fn replay_does_not_count_what_came_later() {
    goes_on::<NearTheBound>(6, entries(10), entries(10));
}

/// Found in review: a sleep was counted as an operation that waits, and once more as an entry.
#[test]
fn what_is_recorded_and_waits_counts_once() {
    goes_on::<Sleeps>(6, entries(10), entries(10));
}

workflow!(Branches, |ctx, times| {
    let step = |ctx: Ctx<Branches>| async move { ok(ctx.step("step", || async { ok(()) }).await?) };
    let item = move |ctx: Ctx<Branches>, _| step(ctx);
    ctx.map("map", 0..times, 4, item).await?;
    let branches = || {
        (0..times)
            .map(|number| branch(&format!("{number}"), step))
            .collect::<Vec<_>>()
    };
    ctx.join("join", branches()).await?;
    ctx.race("race", branches()).await?;
    ctx.receive::<News>().await?;
    ok(times)
});

workflow!(Grows, |ctx, times| {
    let body = |ctx: Ctx<Grows>, state: String| async move {
        if state.len() > 5000 {
            ctx.receive::<News>().await?;
            return ok(Loop::Break(()));
        }
        ctx.step("step", || async { ok(()) }).await?;
        ok(Loop::Continue(state + &"x".repeat(1000)))
    };
    ctx.repeat("loop", "x".repeat(3000), body).commit_interval(1).await?;
    ok(times)
});

/// Found in review: after the bounds had been lowered, what they had allowed was refused in replay, and the instance was
/// stuck.
#[test]
fn what_is_recorded_was_within_the_bounds_of_its_time() {
    let few = Bounds {
        scope_entries_max: 10,
        ..Bounds::default()
    };
    goes_on::<Branches>(12, Bounds::default(), few);
    let small = Bounds {
        payload_bytes_max: 1000,
        ..Bounds::default()
    };
    goes_on::<Grows>(1, Bounds::default(), small);
}

workflow!(Catches, |ctx, times| {
    let item = |ctx: Ctx<Catches>, _| async move { ok(ctx.sleep("nap", "1h").await?) };
    let _ = ctx.map("map", 0..times, 4, item).await;
    ctx.receive::<News>().await?;
    ok(times)
});

/// An error that code can catch would come at another place after the bounds were changed.
#[test]
fn what_is_too_much_ends_the_function_whatever_it_makes_of_the_refusal() {
    let few = Bounds {
        scope_entries_max: 10,
        ..Bounds::default()
    };
    for plan in [Plan::Live, Plan::Evict, Plan::CrashBefore(1), Plan::CrashAfter(1)] {
        let mut rig = Rig::<Catches>::new(plan, 1).bounds(few);
        rig.start("i", &12);
        let End::Failed(failure) = rig.run("i").unwrap() else {
            panic!("it was not ended, {plan:?}");
        };
        assert_eq!(failure.code.as_deref(), Some("ES0304"), "{failure}, {plan:?}");
    }
}
