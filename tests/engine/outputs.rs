//! What the code says to the outside is stored once, in every mode: items, published values. BEHAVIOUR 50.

use std::time::Duration;

use everstep::storage::record::FailureKind;
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Ctx, Loop, Message, Policy, Result, Workflow, branch, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<String>, accepts [News], |$ctx, _| $body);
    };
}

/// What was emitted and published in every mode, at rest and at the end.
fn said<W: Workflow<Input = (), Output = Vec<String>> + Accepts<News>>() -> (Vec<String>, Option<u64>) {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        rig.send_after("i", Duration::from_secs(1), &News(1));
        assert!(matches!(rig.run("i").unwrap(), End::Completed(_)));
        let items = rig.emitted::<String>("i");
        let numbers: Vec<u64> = items.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..items.len() as u64).collect::<Vec<_>>());
        assert_eq!(rig.state("i").emitted, items.len() as u64);
        let items = items.into_iter().map(|(_, item)| item).collect();
        (items, rig.published("i", "progress"))
    })
}

workflow!(Straight, |ctx| {
    ctx.emit("begun")?;
    ctx.set("progress", 0)?;
    for number in 0..3_u64 {
        ctx.step(&format!("step {number}"), || async { ok(()) }).await?;
        ctx.emit(format!("step {number}"))?;
        ctx.emit(format!("again {number}"))?;
        ctx.set("progress", number + 1)?;
    }
    let news = ctx.receive::<News>().await?;
    ctx.emit(format!("news {}", news.0))?;
    ok(vec![])
});

#[test]
fn each_item_is_stored_once_and_a_value_is_the_last_one() {
    let (items, progress) = said::<Straight>();
    let expected = [
        "begun", "step 0", "again 0", "step 1", "again 1", "step 2", "again 2", "news 1",
    ];
    assert_eq!(items, expected);
    assert_eq!(progress, Some(3));
}

workflow!(Looping, |ctx| {
    ctx.set("progress", 0)?;
    let body = |ctx: Ctx<Looping>, number: u64| async move {
        ctx.emit(format!("before {number}"))?;
        if number.is_multiple_of(2) {
            ctx.step("s", || async { ok(()) }).await?;
        }
        ctx.set("progress", number + 1)?;
        ctx.emit(format!("after {number}"))?;
        ok(if number == 6 {
            Loop::Break(())
        } else {
            Loop::Continue(number + 1)
        })
    };
    ctx.repeat("loop", 0, body)
        .commit_interval(3)
        .history_keep(0)
        .history_every(1)
        .await?;
    ctx.receive::<News>().await?;
    ok(vec![])
});

/// Replay takes a loop up where its state was recorded and does not say again what the iterations before it said: a
/// count of what was said would be wrong then, and a value from before the loop would come back.
#[test]
fn a_loop_that_is_taken_up_in_the_middle_says_nothing_twice() {
    let (items, progress) = said::<Looping>();
    let expected: Vec<String> = (0..=6)
        .flat_map(|n| [format!("before {n}"), format!("after {n}")])
        .collect();
    assert_eq!(items, expected);
    assert_eq!(progress, Some(7));
}

workflow!(Branches, |ctx| {
    let body = |ctx: Ctx<Branches>, number: u64| async move {
        ctx.step("s", || async { ok(()) }).await?;
        ctx.emit(format!("{number}"))?;
        ok(if number == 4 {
            Loop::Break(())
        } else {
            Loop::Continue(number + 1)
        })
    };
    let looping = move |ctx: Ctx<Branches>| async move { ctx.repeat("loop", 0, body).commit_interval(2).await };
    ctx.join("both", vec![branch("one", looping), branch("two", looping)])
        .await?;
    ok(vec![])
});

#[test]
fn branches_say_everything_once() {
    let (items, _) = said::<Branches>();
    let mut sorted = items.clone();
    sorted.sort();
    assert_eq!(sorted, ["0", "0", "1", "1", "2", "2", "3", "3", "4", "4"], "{items:?}");
}

workflow!(Shouting, |ctx| {
    ctx.broadcast("begun")?;
    for number in 0..3 {
        ctx.step(&format!("step {number}"), || async { ok(()) }).await?;
        ctx.broadcast(format!("step {number}"))?;
    }
    ctx.receive::<News>().await?;
    ctx.broadcast("news")?;
    ok(vec![])
});

/// A broadcast may be lost with a crash; it is never repeated.
#[test]
fn replay_broadcasts_nothing() {
    let all = ["begun", "step 0", "step 1", "step 2", "news"];
    let heard = |plan| {
        let mut rig = Rig::<Shouting>::new(plan, 1);
        rig.start("i", &());
        rig.send_after("i", Duration::from_secs(1), &News(1));
        rig.run("i").unwrap();
        (rig.broadcasts::<String>(), rig.commits())
    };
    let (live, commits) = heard(Plan::Live);
    assert_eq!(live, all);
    let crashes = (1..=commits).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
    for plan in std::iter::once(Plan::Evict).chain(crashes) {
        let (mut heard, _) = heard(plan);
        if plan == Plan::CrashBefore(1) {
            // Nothing was stored by then: this was no replay but the beginning, once more.
            heard.dedup();
        }
        let mut left = all.iter();
        assert!(
            heard.iter().all(|item| left.any(|known| known == item)),
            "{plan:?}: {heard:?}"
        );
        assert!(heard.len() + 2 >= all.len(), "{plan:?}: {heard:?}");
    }
}

workflow!(TooMuch, |ctx| {
    let large = "x".repeat(200_000);
    let mut seen = vec![format!("{:?}", ctx.emit("x".repeat(300_000)).unwrap_err().kind)];
    let refused = (0..9).position(|_| ctx.emit(&large).is_err());
    seen.push(format!("{refused:?}"));
    let refused = ctx.set("progress", &large).unwrap_err();
    seen.push(refused.code.clone().unwrap_or_default());
    ctx.sleep("s", "1s").await?;
    seen.push(format!("{}", ctx.emit("small again").is_ok()));
    seen.push(format!("{:?}", ctx.set("", 1).unwrap_err().kind));
    ok(seen)
});

#[test]
fn what_is_said_at_once_is_bounded() {
    let end = in_every_mode::<TooMuch, _>(1, |rig| {
        rig.start("i", &());
        let end = rig.run("i").unwrap();
        assert_eq!(rig.emitted::<String>("i").len(), 6);
        end
    });
    let limit = format!("{:?}", FailureKind::Limit);
    let seen = [&limit, "Some(5)", "ES0107", "true", "Misuse"];
    assert_eq!(end, End::Completed(seen.map(str::to_owned).to_vec()));
}

workflow!(Endless, |ctx| {
    for batch in 0..11_u64 {
        for number in 0..1_000_u64 {
            ctx.emit(batch * 1_000 + number)?;
        }
        ctx.sleep(&format!("s {batch}"), "1s").await?;
    }
    ok(vec![])
});

#[test]
fn the_newest_items_are_kept() {
    let mut rig = Rig::<Endless>::new(Plan::Evict, 1);
    rig.start("i", &());
    rig.run("i").unwrap();
    let items = rig.emitted::<u64>("i");
    let expected: Vec<_> = (1_000..11_000).map(|number| (number, number)).collect();
    assert_eq!(items, expected);
}

workflow!(Continues, |ctx| {
    ctx.emit(format!("run {}", ctx.run_number()))?;
    ctx.step("s", || async { ok(()) }).await?;
    ctx.emit(format!("step of run {}", ctx.run_number()))?;
    if ctx.run_number() < 3 {
        return ctx.continue_as_new(());
    }
    ctx.receive::<News>().await?;
    ok(vec![])
});

/// A run begins with an empty history, and what the run before it said does not keep it silent.
#[test]
fn every_run_says_its_own() {
    let (items, _) = said::<Continues>();
    let expected: Vec<String> = (1..=3)
        .flat_map(|n| [format!("run {n}"), format!("step of run {n}")])
        .collect();
    assert_eq!(items, expected);
}

define!(Speaks: u32 => u32, accepts [], |ctx, run| {
    ctx.broadcast(format!("run {run} begins"))?;
    ctx.sleep("nap", "1s").await?;
    if run == 0 {
        return ctx.continue_as_new(1);
    }
    ok(run)
});

struct SpeaksAgain;

impl Workflow for SpeaksAgain {
    const NAME: &'static str = "speaks again";
    type Input = u32;
    type Output = u32;

    fn policy() -> Policy {
        Policy::new().retries(1)
    }

    async fn run(ctx: Ctx<Self>, _: u32) -> Result<u32> {
        let run = ctx.run_number() - 1;
        ctx.broadcast(format!("run {run} begins"))?;
        ctx.sleep("nap", "1s").await?;
        everstep::ensure!(run > 0, "a glitch");
        ok(run)
    }
}

/// Found in review: a run was taken for one that had spoken before if its instance had, and a later one whose code was
/// first called after a crash, or after a wait out of memory, said nothing.
#[test]
fn a_run_that_begins_is_not_silent() {
    fn script<W: Workflow<Input = u32, Output = u32>>(plan: Plan) {
        let mut rig = Rig::<W>::new(plan, 1);
        rig.start("i", &0);
        assert_eq!(rig.run("i").unwrap(), End::Completed(1));
        let heard = rig.broadcasts::<String>();
        assert_eq!(heard, ["run 0 begins", "run 1 begins"], "{plan:?}");
    }
    for plan in [Plan::Live, Plan::Evict, Plan::CrashAfter(2), Plan::CrashAfter(3)] {
        script::<Speaks>(plan);
        script::<SpeaksAgain>(plan);
    }
}
