//! Code that does not fit a history is found before it has any effect: the report says where, nothing is written, and
//! the instance goes on when the code fits again. FAULTS 44 to 46.

use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Ctx, Divergence, Message, Result, Workflow, WorkflowError, branch, ok};
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
            type Output = u32;

            async fn run($ctx: Ctx<Self>, _: ()) -> Result<u32> {
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

macro_rules! join {
    ($ctx:expr, $code:ty, $one:literal, $two:literal) => {
        $ctx.join(
            "both",
            (
                branch($one, |ctx: Ctx<$code>| async move { ok(step!(ctx, "s")) }),
                branch($two, |ctx: Ctx<$code>| async move { ok(step!(ctx, "s")) }),
            ),
        )
        .await?
    };
}

macro_rules! race {
    ($ctx:expr, $code:ty, $quick:expr) => {
        $ctx.race(
            "first",
            (
                branch("slow", |ctx: Ctx<$code>| async move {
                    ctx.sleep("long", "1h").await?;
                    ok(1_u32)
                }),
                branch("quick", $quick),
            ),
        )
        .await?
    };
}

code!(Original, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, Original, "one", "two");
    race!(ctx, Original, |ctx: Ctx<Original>| async move { ok(step!(ctx, "s")) });
    let news = ctx.receive::<News>().await?;
    ctx.sleep("nap", "1h").await?;
    ok(news.0)
});

/// An instance of the original that waits for its message.
fn waiting() -> Rig<Original> {
    let mut rig = Rig::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    rig
}

/// An instance of the original that naps.
fn napping() -> Rig<Original> {
    let mut rig = waiting();
    rig.send("i", &News(42));
    let end = rig.run_for("i", Duration::from_secs(60)).unwrap();
    assert_eq!(end, End::Waiting);
    rig
}

/// Deploys code that does not fit, and then the original again.
fn refused<V: Workflow<Output = u32>>(rig: Rig<Original>) -> Divergence {
    let before = (rig.history("i"), rig.state("i"), rig.commits());
    let mut wrong = rig.deploy::<V>();
    let Err(divergence) = wrong.run("i") else {
        panic!("code that does not fit was run");
    };
    let again = wrong.run("i").map(|_| ()).unwrap_err();
    assert_eq!(again, divergence, "the report is the same whenever it is asked for");
    let mut right = wrong.deploy::<Original>();
    let after = (right.history("i"), right.state("i"), right.commits());
    assert_eq!(after, before, "nothing is written");
    if right.run("i").unwrap() == End::Waiting {
        right.send("i", &News(42));
    }
    assert_eq!(right.run("i").unwrap(), End::Completed(42), "the fixed code goes on");
    divergence
}

fn report(divergence: &Divergence) -> (&str, Option<&str>, Option<&str>) {
    let Divergence {
        path, recorded, asked, ..
    } = divergence;
    let here = divergence
        .neighbours
        .iter()
        .any(|line| line.starts_with("> ") && line.contains(path.as_str()));
    assert!(here && divergence.neighbours.len() > 1, "{divergence}");
    (path, recorded.as_deref(), asked.as_deref())
}

code!(Renamed, |ctx| ok(step!(ctx, "renamed")));

#[test]
fn a_renamed_step() {
    let divergence = refused::<Renamed>(waiting());
    assert_eq!(report(&divergence), ("a", Some("step"), Some("step `renamed`")));
}

code!(Removed, |ctx| {
    step!(ctx, "a");
    join!(ctx, Removed, "one", "two");
    ok(0)
});

#[test]
fn a_removed_step() {
    let divergence = refused::<Removed>(waiting());
    assert_eq!(report(&divergence), ("b", Some("step"), None));
}

code!(Reordered, |ctx| {
    step!(ctx, "b");
    ok(step!(ctx, "a"))
});

#[test]
fn steps_in_another_order() {
    let divergence = refused::<Reordered>(waiting());
    assert_eq!(report(&divergence), ("a", Some("step"), None));
}

code!(AnotherKind, |ctx| {
    ctx.sleep("a", "1s").await?;
    ok(0)
});

#[test]
fn another_kind_at_the_same_name() {
    let divergence = refused::<AnotherKind>(waiting());
    assert_eq!(report(&divergence), ("a", Some("step"), Some("sleep")));
}

code!(Inserted, |ctx| {
    step!(ctx, "a");
    step!(ctx, "inserted");
    ok(step!(ctx, "b"))
});

#[test]
fn a_step_inserted_before_the_end_of_what_is_recorded() {
    let divergence = refused::<Inserted>(waiting());
    assert_eq!(report(&divergence), ("b", Some("step"), Some("step `inserted`")));
}

code!(Shorter, |ctx| {
    step!(ctx, "a");
    ok(step!(ctx, "b"))
});

#[test]
fn an_end_before_the_end_of_what_is_recorded() {
    let divergence = refused::<Shorter>(waiting());
    assert_eq!(report(&divergence).1, Some("step"));
    assert_eq!(report(&divergence).2, Some("end"));
    assert!(divergence.to_string().contains("came to its end"), "{divergence}");
}

code!(Panicking, |ctx| {
    step!(ctx, "a");
    panic!("a mistake of the new code")
});

#[test]
fn a_panic_in_the_past_is_no_failure_of_the_instance() {
    let divergence = refused::<Panicking>(waiting());
    assert_eq!(report(&divergence), ("b", Some("step"), Some("end")));
}

code!(BranchRenamed, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, BranchRenamed, "one", "three");
    ok(0)
});

#[test]
fn a_renamed_branch() {
    let divergence = refused::<BranchRenamed>(waiting());
    assert_eq!(report(&divergence), ("both", Some("join"), Some("join of one, three")));
}

code!(AnotherWinner, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, AnotherWinner, "one", "two");
    let both = (
        branch("slow", |ctx: Ctx<AnotherWinner>| async move {
            futures_util::future::select(ctx.sleep("long", "1h"), std::future::ready(())).await;
            ok(1_u32)
        }),
        branch("quick", |ctx: Ctx<AnotherWinner>| async move { ok(step!(ctx, "s")) }),
    );
    ok(ctx.race("first", both).await?.value)
});

#[test]
fn a_race_with_another_winner() {
    let divergence = refused::<AnotherWinner>(waiting());
    let asked = Some("race with another winner, `slow`");
    assert_eq!(report(&divergence), ("first", Some("race"), asked));
}

code!(NobodyWins, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, NobodyWins, "one", "two");
    let lost = || WorkflowError::msg("lost");
    let both = (
        branch("slow", |ctx: Ctx<NobodyWins>| async move {
            futures_util::future::select(ctx.sleep("long", "1h"), std::future::ready(())).await;
            Err::<u32, _>(lost())
        }),
        branch("quick", |ctx: Ctx<NobodyWins>| async move {
            step!(ctx, "s");
            Err::<u32, _>(lost())
        }),
    );
    ok(ctx.race("first", both).await.map_or(0, |winner| winner.value))
});

#[test]
fn a_race_that_nobody_wins_any_more() {
    let divergence = refused::<NobodyWins>(waiting());
    assert_eq!(
        report(&divergence),
        ("first", Some("race"), Some("race that nobody wins"))
    );
}

code!(NapRenamed, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, NapRenamed, "one", "two");
    race!(
        ctx,
        NapRenamed,
        |ctx: Ctx<NapRenamed>| async move { ok(step!(ctx, "s")) }
    );
    ctx.receive::<News>().await?;
    ctx.sleep("doze", "1h").await?;
    ok(0)
});

/// Found by reading: only completions were compared with what the code asked for. A sleep that had begun and was
/// renamed while it slept began again under its new name, and the old entry lay in the history for ever.
#[test]
fn a_sleep_that_is_renamed_while_it_sleeps() {
    let divergence = refused::<NapRenamed>(napping());
    assert_eq!(report(&divergence), ("nap", Some("sleep"), Some("sleep `doze`")));
}

code!(Longer, |ctx| {
    step!(ctx, "a");
    step!(ctx, "b");
    join!(ctx, Longer, "one", "two");
    race!(ctx, Longer, |ctx: Ctx<Longer>| async move { ok(step!(ctx, "s")) });
    let more = step!(ctx, "more");
    ok(ctx.receive::<News>().await?.0 + more)
});

#[test]
fn a_step_inserted_where_nothing_is_recorded_yet_is_legal() {
    let mut rig = waiting().deploy::<Longer>();
    rig.send("i", &News(42));
    assert_eq!(rig.run("i").unwrap(), End::Completed(49));
}

static CALLED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

code!(Whimsical, |ctx| {
    let called = CALLED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ctx.step(&format!("step {called}"), || async { ok(1) }).await?;
    ctx.sleep("nap", "1h").await?;
    ok(called)
});

/// FAULTS 46: code that branches on what is not recorded is found in a test that loads it a second time.
#[test]
#[should_panic(expected = "loaded again")]
fn a_branch_on_what_is_not_recorded_is_found_by_running_twice() {
    let mut rig = Rig::<Whimsical>::new(Plan::Live, 1).audited();
    rig.start("i", &());
    let _ = rig.run("i");
}

#[derive(Debug, Message, Serialize, Deserialize)]
struct Weather;

impl Accepts<Weather> for TookNews {}
impl Accepts<Weather> for TakesWeather {}

mod either {
    /// What was deployed first.
    #[derive(everstep::Messages)]
    pub(super) enum Either {
        News(super::News),
        Weather(super::Weather),
    }
}

mod only_weather {
    /// The same under the same name, with one kind fewer.
    #[derive(everstep::Messages)]
    pub(super) enum Either {
        Weather(super::Weather),
    }
}

code!(TookNews, |ctx| {
    let either: either::Either = ctx.receive_any().await?;
    ctx.sleep("nap", "1h").await?;
    ok(match either {
        either::Either::News(News(number)) => number,
        either::Either::Weather(Weather) => 0,
    })
});

code!(TakesWeather, |ctx| {
    let only_weather::Either::Weather(Weather) = ctx.receive_any().await?;
    ctx.sleep("nap", "1h").await?;
    ok(0)
});

#[test]
fn a_wait_for_fewer_kinds_than_it_took() {
    let mut rig = Rig::<TookNews>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.send("i", &News(42));
    let end = rig.run_for("i", Duration::from_secs(60)).unwrap();
    assert_eq!(end, End::Waiting);
    let mut wrong = rig.deploy::<TakesWeather>();
    let Err(divergence) = wrong.run("i") else {
        panic!("code that does not fit was run");
    };
    assert_eq!(divergence.recorded.as_deref(), Some("receive"), "{divergence}");
    assert_eq!(
        divergence.asked.as_deref(),
        Some("receive, 1 of Weather"),
        "{divergence}"
    );
    let mut right = wrong.deploy::<TookNews>();
    assert_eq!(right.run("i").unwrap(), End::Completed(42), "the fixed code goes on");
}

struct Little;

impl Workflow for Little {
    const NAME: &'static str = "little";
    type Input = ();
    type Output = u32;

    async fn run(_ctx: Ctx<Self>, _: ()) -> Result<u32> {
        ok(1)
    }
}

code!(LetsGo, |ctx| {
    ctx.child(Little, ()).id("c").detach().await?;
    ctx.sleep("nap", "1h").await?;
    ok(42)
});

code!(Awaits, |ctx| {
    let number = ctx.child(Little, ()).id("c").await?;
    ctx.sleep("nap", "1h").await?;
    ok(number)
});

#[test]
fn a_wait_for_a_child_that_was_let_go() {
    let mut rig = Rig::<LetsGo>::new(Plan::Live, 1);
    rig.start("i", &());
    let end = rig.run_for("i", Duration::from_secs(60)).unwrap();
    assert_eq!(end, End::Waiting);
    let mut wrong = rig.deploy::<Awaits>();
    let Err(divergence) = wrong.run("i") else {
        panic!("code that does not fit was run");
    };
    assert_eq!(
        divergence.recorded.as_deref(),
        Some("child, little as c"),
        "{divergence}"
    );
    let mut right = wrong.deploy::<LetsGo>();
    assert_eq!(right.run("i").unwrap(), End::Completed(42), "the fixed code goes on");
}
