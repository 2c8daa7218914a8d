//! Changing code under running instances: `version`, `patched`, `removed`.

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Ctx, Loop, Message, Policy, Result, Workflow, branch, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

/// Code of the one workflow that these tests deploy again and again.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = Vec<u32>;

            async fn run($ctx: Ctx<Self>, _: ()) -> Result<Vec<u32>> {
                $body
            }
        }

        impl Accepts<News> for $name {}
    };
}

/// A step that gives a number.
macro_rules! step {
    ($ctx:expr, $name:literal) => {
        $ctx.step($name, || async { ok(7_u32) }).await?
    };
}

fn started<W: Workflow<Input = (), Output = Vec<u32>> + Accepts<News>>() -> Rig<W> {
    let mut rig = Rig::new(Plan::Evict, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    rig
}

fn finish<V: Workflow<Output = Vec<u32>> + Accepts<News>>(mut rig: Rig<V>) -> Vec<u32> {
    for number in 1..9 {
        match rig.run("i").unwrap() {
            End::Completed(seen) => {
                assert_eq!(rig.replay("i").unwrap(), Some(End::Completed(seen.clone())));
                return seen;
            }
            End::Failed(failure) => panic!("{failure}"),
            End::Waiting => rig.send("i", &News(number)),
        }
    }
    panic!("it does not end");
}

code!(Everything, |ctx| {
    step!(ctx, "step");
    ctx.sleep("sleep", "1s").await?;
    let in_branch = |ctx: Ctx<Everything>| async move { ok(step!(ctx, "s")) };
    ctx.join("join", (branch("a", in_branch), branch("b", in_branch)))
        .await?;
    ctx.race("race", (branch("a", in_branch), branch("b", in_branch)))
        .await?;
    ctx.map("map", [1, 2], 2, |ctx: Ctx<Everything>, _| async move {
        ok(step!(ctx, "s"))
    })
    .await?;
    let body = |ctx: Ctx<Everything>, turn: u32| async move {
        step!(ctx, "s");
        ok(if turn == 5 {
            Loop::Break(turn)
        } else {
            Loop::Continue(turn + 1)
        })
    };
    ctx.repeat("loop", 0, body).commit_interval(2).history_keep(3).await?;
    ctx.version("gate", 2)?;
    let _ = ctx.receive::<News>().within("1s").await?;
    ok(vec![ctx.receive::<News>().await?.0])
});

code!(Nothing, |ctx| {
    for name in [
        "step",
        "sleep",
        "join",
        "race",
        "map",
        "loop",
        "gate",
        "News",
        "never was",
    ] {
        ctx.removed(name)?;
    }
    let seven = step!(ctx, "new");
    ok(vec![ctx.receive::<News>().await?.0, seven])
});

/// Found by reading: `removed` compared the kind of what it found with its own, and so never stepped over anything.
#[test]
fn removed_steps_over_entries_of_every_kind() {
    assert_eq!(finish(started::<Everything>().deploy::<Nothing>()), [1, 7]);
    assert_eq!(
        finish(started::<Nothing>()),
        [1, 7],
        "and it is nothing to those who never had them"
    );
}

code!(Ungated, |ctx| {
    step!(ctx, "before");
    step!(ctx, "after");
    ok(vec![ctx.receive::<News>().await?.0])
});

code!(Gated, |ctx| {
    step!(ctx, "before");
    let passed = ctx.version("change", 2)?;
    step!(ctx, "after");
    let ahead = ctx.version("ahead", 5)?;
    ctx.receive::<News>().await?;
    ok(vec![passed, ahead, u32::from(ctx.patched("far ahead")?)])
});

code!(GatedAgain, |ctx| {
    step!(ctx, "before");
    let passed = ctx.version("change", 3)?;
    step!(ctx, "after");
    let ahead = ctx.version("ahead", 6)?;
    ctx.receive::<News>().await?;
    ok(vec![passed, ahead, u32::from(ctx.patched("far ahead")?)])
});

code!(Retired, |ctx| {
    step!(ctx, "before");
    ctx.removed("change")?;
    step!(ctx, "after");
    ctx.removed("ahead")?;
    ctx.receive::<News>().await?;
    ok(vec![9])
});

#[test]
fn a_gate_is_1_where_it_was_passed_before_it_existed_and_the_latest_elsewhere() {
    assert_eq!(finish(started::<Ungated>().deploy::<Gated>()), [1, 5, 1]);
    assert_eq!(finish(started::<Gated>()), [2, 5, 1]);
}

#[test]
fn an_answer_is_kept_when_the_latest_moves_on() {
    let mut old = started::<Ungated>().deploy::<Gated>();
    assert_eq!(old.run("i").unwrap(), End::Waiting);
    assert_eq!(finish(started::<Gated>().deploy::<GatedAgain>()), [2, 5, 1]);
    assert_eq!(finish(old.deploy::<GatedAgain>()), [1, 5, 1]);
}

#[test]
fn a_gate_is_retired_with_removed() {
    assert_eq!(finish(started::<Gated>().deploy::<Retired>()), [9]);
    assert_eq!(finish(started::<Ungated>().deploy::<Retired>()), [9]);
}

code!(Forgetful, |ctx| {
    step!(ctx, "before");
    step!(ctx, "after");
    ctx.receive::<News>().await?;
    ok(vec![9])
});

/// That some gates need not be come to again is for those that were passed in what was dropped, and for no others.
#[test]
fn a_gate_that_is_gone_without_a_word_is_divergence() {
    let divergence = started::<Gated>().deploy::<Forgetful>().run("i").unwrap_err();
    assert_eq!(divergence.recorded.as_deref(), Some("version, 2"), "{divergence}");
}

macro_rules! turns {
    ($ctx:ident, $code:ty, $gate:expr) => {{
        let body = |ctx: Ctx<$code>, mut seen: Vec<u32>| async move {
            seen.push($gate(&ctx)?);
            step!(ctx, "s");
            ctx.receive::<News>().await?;
            ok(if seen.len() == 3 {
                Loop::Break(seen)
            } else {
                Loop::Continue(seen)
            })
        };
        ok($ctx.repeat("turns", vec![], body).commit_interval(1).await?)
    }};
}

code!(UngatedLoop, |ctx| turns!(ctx, UngatedLoop, |_: &Ctx<UngatedLoop>| ok(
    0
)));
code!(GatedLoop, |ctx| turns!(ctx, GatedLoop, |ctx: &Ctx<GatedLoop>| ctx
    .version("change", 2)));

#[test]
fn a_gate_is_decided_for_each_iteration() {
    assert_eq!(finish(started::<UngatedLoop>().deploy::<GatedLoop>()), [1, 2, 2]);
    assert_eq!(finish(started::<GatedLoop>()), [2, 2, 2]);
}

code!(Together, |ctx| {
    let one = async {
        step!(ctx, "one");
        ok(ctx.version("change", 2)?)
    };
    let two = async { ok(step!(ctx, "two")) };
    let (one, two) = futures_util::try_join!(one, two)?;
    ok(vec![one, two])
});

/// Found by reading: of two completions in one commit, the second was still to be delivered when the code came to the
/// gate after the first. That looked like replay, and a new instance was given the old path.
#[test]
fn a_new_instance_gets_the_latest_also_between_two_completions_of_one_commit() {
    for seed in 0..8 {
        let mut rig = Rig::<Together>::new(Plan::Live, seed).spread(1, std::time::Duration::ZERO);
        rig.start("i", &());
        assert_eq!(rig.run("i").unwrap(), End::Completed(vec![2, 7]), "seed {seed}");
        assert_eq!(
            rig.replay("i").unwrap(),
            Some(End::Completed(vec![2, 7])),
            "seed {seed}"
        );
    }
}

/// Two versions of the one workflow, which tell the version of their instance.
macro_rules! versioned {
    ($name:ident, $version:literal) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            const VERSION: u32 = $version;
            type Input = ();
            type Output = Vec<u32>;

            async fn run(ctx: Ctx<Self>, _: ()) -> Result<Vec<u32>> {
                let news = ctx.receive::<News>().await?;
                ok(vec![ctx.instance_version(), news.0])
            }
        }

        impl Accepts<News> for $name {}
    };
}

versioned!(First, 1);
versioned!(Second, 2);

/// BEHAVIOUR 29: an instance keeps the version that it was started with, under whatever code it goes on.
#[test]
fn an_instance_keeps_its_version() {
    assert_eq!(finish(started::<First>().deploy::<Second>()), [1, 1]);
    assert_eq!(finish(started::<Second>()), [2, 1]);
}

/// Two versions of the one workflow, which begin a second run and tell its version.
macro_rules! renewed {
    ($name:ident, $version:literal, $fails:literal) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "renewed";
            const VERSION: u32 = $version;
            type Input = ();
            type Output = Vec<u32>;

            fn policy() -> Policy {
                Policy::new().retries(1)
            }

            async fn run(ctx: Ctx<Self>, _: ()) -> Result<Vec<u32>> {
                if ctx.run_number() == 2 {
                    ctx.sleep("nap", "1s").await?;
                    return ok(vec![ctx.instance_version()]);
                }
                ctx.receive::<News>().await?;
                everstep::ensure!(!$fails, "a glitch");
                ctx.continue_as_new(())
            }
        }

        impl Accepts<News> for $name {}
    };
}

renewed!(RenewedFirst, 1, false);
renewed!(RenewedSecond, 2, false);
renewed!(RetriedSecond, 2, true);

/// BEHAVIOUR 29, FAULTS 49. Found in review: an instance that begins a run from the start with new code was one of the
/// version that it had been started with, for ever.
#[test]
fn a_new_run_has_the_version_of_the_code_that_begins_it() {
    assert_eq!(finish(started::<RenewedFirst>()), [1]);
    assert_eq!(finish(started::<RenewedFirst>().deploy::<RenewedSecond>()), [2]);
    assert_eq!(finish(started::<RenewedFirst>().deploy::<RetriedSecond>()), [2]);
}

code!(AtThree, |ctx| {
    let version = ctx.version("change", 3)?;
    ctx.receive::<News>().await?;
    ok(vec![version])
});
code!(AtTwo, |ctx| {
    let version = ctx.version("change", 2)?;
    ctx.receive::<News>().await?;
    ok(vec![version])
});

/// Found in review: older code was given a version that it did not know, and went on with it.
#[test]
fn code_that_does_not_know_a_version_diverges() {
    let divergence = started::<AtThree>().deploy::<AtTwo>().run("i").unwrap_err();
    let found = (divergence.recorded.as_deref(), divergence.asked.as_deref());
    assert_eq!(found, (Some("version, 3"), Some("version, 2 at most")));
}

code!(SendsTwice, |ctx| {
    ctx.send(SendsTwice, "other", News(1)).await?;
    ctx.send(SendsTwice, "other", News(2)).await?;
    ctx.receive::<News>().await?;
    ctx.receive::<News>().await?;
    ok(vec![])
});
code!(SendsNever, |ctx| {
    ctx.removed("send")?;
    ctx.removed("send")?;
    ctx.removed("News")?;
    let news = ctx.receive::<News>().await?;
    ok(vec![news.0])
});

/// Found in review: a scope could lose one of the messages that it sent, and no more.
#[test]
fn as_many_are_removed_as_it_is_said() {
    let mut rig = started::<SendsTwice>();
    rig.send("i", &News(7));
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    assert_eq!(finish(rig.deploy::<SendsNever>()).len(), 1);
    assert_eq!(finish(started::<SendsNever>()).len(), 1, "also where they never were");
}
