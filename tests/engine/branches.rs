//! Branches: all of a join run to their end, the first of a race wins, and errors say which. BEHAVIOUR 25 and 26.

use std::time::Duration;

use everstep::storage::record::{BranchStatus, EntryKind, FailureKind};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Ctx, Result, Workflow, WorkflowError, branch, ok};

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = ();
            type Output = Vec<String>;

            async fn run($ctx: Ctx<Self>, (): ()) -> Result<Vec<String>> {
                $body
            }
        }
    };
}

fn run<W: Workflow<Input = (), Output = Vec<String>>>() -> Vec<String> {
    let end = in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        let end = rig.run("i").unwrap();
        assert_eq!(rig.replay("i").unwrap().as_ref(), Some(&end));
        end
    });
    let End::Completed(seen) = end else {
        panic!("{end:?}");
    };
    seen
}

fn fail<T>(why: &str) -> Result<T> {
    Err(WorkflowError::msg(why))
}

/// A branch that takes so many minutes.
macro_rules! takes {
    ($workflow:ident, $name:literal, $minutes:literal) => {
        branch($name, |ctx: Ctx<$workflow>| async move {
            ctx.sleep("work", concat!($minutes, "m")).await?;
            ok($name.to_owned())
        })
    };
}

macro_rules! eight {
    ($workflow:ident) => {
        (
            takes!($workflow, "a", "8"),
            takes!($workflow, "b", "7"),
            takes!($workflow, "c", "6"),
            takes!($workflow, "d", "5"),
            takes!($workflow, "e", "4"),
            takes!($workflow, "f", "3"),
            takes!($workflow, "g", "2"),
            takes!($workflow, "h", "1"),
        )
    };
}

workflow!(Eight, |ctx| {
    let (a, b, c, d, e, f, g, h) = ctx.join("all", eight!(Eight)).await?;
    let first = ctx.race("first", eight!(Eight)).await?;
    ok(vec![a, b, c, d, e, f, g, h, first.name])
});

/// Found in review: the documentation said eight, and it was six.
#[test]
fn a_tuple_has_up_to_eight_branches() {
    assert_eq!(run::<Eight>(), ["a", "b", "c", "d", "e", "f", "g", "h", "h"]);
}

workflow!(Joins, |ctx| {
    let quick = branch("quick", |_: Ctx<Joins>| async { fail::<u32>("too quick") });
    let slow = branch("slow", |ctx: Ctx<Joins>| async move {
        ctx.sleep("long", "1h").await?;
        ok(ctx.step("late", || async { ok("done".to_owned()) }).await?)
    });
    let middle = branch("middle", |ctx: Ctx<Joins>| async move {
        ctx.sleep("short", "1m").await?;
        fail::<bool>("in the middle")
    });
    let failure = ctx.join("all", (quick, slow, middle)).await.unwrap_err();
    let mut seen = vec![format!("{:?} {}", failure.kind, failure.path)];
    seen.extend(
        failure
            .branches
            .iter()
            .map(|(name, failure)| format!("{name}: {failure}")),
    );
    ok(seen)
});

/// BEHAVIOUR 25: all run to their end even if one fails, and the error has every failure under the name of its branch.
#[test]
fn all_errors_of_a_join_are_told_by_name() {
    assert_eq!(
        run::<Joins>(),
        ["Branches all", "quick: too quick", "middle: in the middle"]
    );
    let mut rig = Rig::<Joins>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.run("i").unwrap();
    assert!(
        rig.history("i")["all/slow/late"].completed.is_some(),
        "it ran to its end"
    );
}

/// BEHAVIOUR 25: the history shows how far each branch is.
#[test]
fn a_join_shows_the_state_of_its_branches() {
    let mut rig = Rig::<Joins>::new(Plan::Evict, 1);
    rig.start("i", &());
    let states = |rig: &Rig<Joins>| match &rig.history("i")["all"].kind {
        EntryKind::Join { branches } => branches.iter().map(|(_, status)| *status).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    rig.run_for("i", Duration::from_secs(1_800)).unwrap();
    let (failed, running) = (BranchStatus::Failed, BranchStatus::Running);
    assert_eq!(states(&rig), [failed, running, failed]);
    rig.run("i").unwrap();
    assert_eq!(states(&rig), [failed, BranchStatus::Completed, failed]);
}

workflow!(Races, |ctx| {
    let one = branch("one", |ctx: Ctx<Races>| async move {
        ctx.sleep("s", "1m").await?;
        fail::<()>("no")
    });
    let two = branch("two", |ctx: Ctx<Races>| async move {
        let critical = || async { Err::<(), _>(everstep::critical(WorkflowError::msg("never"))) };
        ok(ctx.step("s", critical).await?)
    });
    let failure = ctx.race("first", (one, two)).await.unwrap_err();
    let mut seen: Vec<_> = failure
        .branches
        .iter()
        .map(|(name, failure)| format!("{name}: {:?}", failure.kind))
        .collect();
    seen.sort();
    seen.push(format!("{}", failure.kind == FailureKind::Branches));
    ok(seen)
});

/// BEHAVIOUR 26: a race that nobody wins has all failures.
#[test]
fn a_race_that_nobody_wins_tells_all_failures() {
    assert_eq!(run::<Races>(), ["one: Error", "two: Critical", "true"]);
}
