//! What the common shapes cost: durable commits are what a workflow pays with.

use everstep::testing::rig::{Plan, Rig};
use everstep::{Accepts, Ctx, Loop, Message, Workflow, branch, ok};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => (), accepts [], |$ctx, _| $body);
    };
}

/// Commits beside the start, the last one included.
fn commits<W: Workflow<Input = ()>>(prepare: impl FnOnce(Rig<W>) -> Rig<W>) -> u64 {
    let mut rig = prepare(Rig::<W>::new(Plan::Live, 1));
    if rig.commits() == 0 {
        rig.start("i", &());
    }
    rig.run("i").unwrap();
    rig.commits()
}

workflow!(Chain, |ctx| {
    for number in 0..10 {
        ctx.step(&format!("{number}"), || async { ok(()) }).await?;
    }
    ok(())
});

workflow!(Sleeping, |ctx| {
    ctx.sleep("a while", "1h").await?;
    ok(())
});

workflow!(Joined, |ctx| {
    let branches = (0..10).map(|number| {
        branch(&format!("{number}"), |ctx: Ctx<Self>| async move {
            ok(ctx.step("step", || async { ok(()) }).await?)
        })
    });
    ctx.join("join", branches.collect::<Vec<_>>()).await?;
    ok(())
});

workflow!(Mapped, |ctx| {
    let body = |ctx: Ctx<Self>, _: u32| async move { ok(ctx.step("step", || async { ok(()) }).await?) };
    ctx.map("map", 0..10, 10, body).await?;
    ok(())
});

workflow!(Raced, |ctx| {
    let one = branch("one", |ctx: Ctx<Self>| async move {
        ok(ctx.step("step", || async { ok(()) }).await?)
    });
    let two = branch("two", |ctx: Ctx<Self>| async move {
        ok(ctx.step("step", || async { ok(()) }).await?)
    });
    ctx.race("race", (one, two)).await?;
    ok(())
});

workflow!(Looped, |ctx| {
    ctx.repeat("loop", 0, |ctx: Ctx<Self>, round: u32| async move {
        ctx.step("step", || async { ok(()) }).await?;
        ok(if round == 9 {
            Loop::Break(())
        } else {
            Loop::Continue(round + 1)
        })
    })
    .await?;
    ok(())
});

workflow!(Told, |ctx| {
    ctx.receive::<News>().await?;
    ok(())
});

impl Accepts<News> for Told {}

#[test]
fn n_steps_cost_n() {
    assert_eq!(commits::<Chain>(|rig| rig), 10 + 1);
}

#[test]
fn a_sleep_costs_two() {
    assert_eq!(commits::<Sleeping>(|rig| rig), 2 + 1);
}

#[test]
fn steps_that_end_together_cost_one() {
    let together = |rig: Rig<Joined>| rig.spread(1, Duration::from_secs(1));
    assert_eq!(commits(together), 1 + 1, "the join has none of its own");
    assert_eq!(commits::<Joined>(|rig| rig), 10 + 1, "one after the other");
    let together = |rig: Rig<Mapped>| rig.spread(1, Duration::from_secs(1));
    assert_eq!(commits(together), 1 + 1);
}

#[test]
fn a_race_costs_what_its_winner_does() {
    assert_eq!(commits::<Raced>(|rig| rig), 1 + 1);
}

#[test]
fn a_loop_costs_what_its_steps_do() {
    assert_eq!(commits::<Looped>(|rig| rig), 10 + 1);
}

#[test]
fn a_message_that_is_there_costs_one() {
    let told = |mut rig: Rig<Told>| {
        rig.start("i", &());
        rig.send("i", &News(1));
        rig
    };
    let mut rig = told(Rig::<Told>::new(Plan::Live, 1));
    rig.run("i").unwrap();
    assert_eq!(rig.commits(), 1, "it goes with what follows: the end");
}
