//! FAULTS 50 and 51: histories that were recorded earlier replay to what they came to then, for ever.
//!
//! `tests/fixtures/v1` holds exports of instances of the workflows below. From the first release on they are never written again: a change of the
//! engine that they do not survive needs a rule for what is recorded, and not a new fixture. A workflow that is added
//! here is recorded once, with `EVERSTEP_RECORD=1 cargo test --all-features --test engine recorded`.

use std::path::PathBuf;
use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig, replay_file};
use everstep::{Ctx, Loop, Message, Workflow, WorkflowError, branch, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<u64>, accepts [News], |$ctx, _| $body);
    };
}

workflow!(Chain, |ctx| {
    let mut seen = Vec::new();
    for number in 0..5_u64 {
        let name = format!("step {number}");
        let tried = ctx.step(&name, move |attempt: everstep::Attempt| async move {
            everstep::ensure!(number != 3 || attempt.number() > 1, "not at once");
            ok(number * 10)
        });
        seen.push(tried.await?);
        ctx.sleep(&format!("rest {number}"), "1m").await?;
    }
    seen.push(ctx.random() % 1_000);
    ok(seen)
});

workflow!(Hears, |ctx| {
    let first = ctx.receive::<News>().timeout("1h").await?.0;
    let many = ctx.receive_many::<News>(2).await?;
    let none = ctx.receive::<News>().within("1m").await?;
    let version = ctx.version("greeting", 3)?;
    ok(vec![
        first.into(),
        many.len() as u64,
        none.is_some().into(),
        version.into(),
    ])
});

workflow!(Branches, |ctx| {
    let (left, right) = ctx
        .join(
            "both",
            (
                branch("left", |ctx: Ctx<Self>| async move {
                    ok(ctx.step("work", || async { ok(1_u64) }).await?)
                }),
                branch("right", |ctx: Ctx<Self>| async move {
                    ctx.sleep("late", "10s").await?;
                    ok(ctx.step("work", || async { ok(2_u64) }).await?)
                }),
            ),
        )
        .await?;
    let squares = ctx
        .map("squares", 1..4_u64, 2, |ctx: Ctx<Self>, item| async move {
            ok(ctx.step("square", move || async move { ok(item * item) }).await?)
        })
        .await?;
    let rounds = ctx
        .repeat("rounds", 0_u64, |ctx: Ctx<Self>, round| async move {
            let next = ctx.step("next", move || async move { ok(round + 1) }).await?;
            ok(if next == 45 {
                Loop::Break(next)
            } else {
                Loop::Continue(next)
            })
        })
        .await?;
    ok([vec![left, right, rounds], squares].concat())
});

workflow!(Fails, |ctx| {
    let reserve = ctx.step("reserve", || async { ok(7_u64) });
    let held = reserve.rollback(|_: u64| async { ok(()) }).await?;
    let _ = ctx.compensate("release", held, |_: u64| async { ok(()) });
    ctx.emit(held)?;
    ctx.set("held", held)?;
    Err(WorkflowError::msg("declined"))
});

fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    folder.join(format!("{name}.ndjson"))
}

/// Replays the recorded history of a workflow, which `script` brings about when it is recorded.
pub(crate) fn recorded<W: Workflow<Input = ()>>(script: impl Fn(&mut Rig<W>)) -> Option<End<W::Output>> {
    let path = fixture(W::NAME);
    if std::env::var_os("EVERSTEP_RECORD").is_some() && !path.exists() {
        let mut rig = Rig::<W>::new(Plan::Live, 1);
        rig.start("recorded", &());
        script(&mut rig);
        std::fs::write(&path, rig.export("recorded")).unwrap();
    }
    let file = std::fs::read_to_string(path).unwrap();
    replay_file::<W>(&file).unwrap_or_else(|divergence| panic!("{}: {divergence}", W::NAME))
}

#[test]
fn a_chain_of_steps_and_sleeps() {
    let end = recorded::<Chain>(|rig| drop(rig.run("recorded").unwrap()));
    assert_eq!(end, Some(End::Completed(vec![0, 10, 20, 30, 40, 551])));
}

#[test]
fn messages_timeouts_and_versions() {
    let end = recorded::<Hears>(|rig| {
        for (number, after) in [(1, 1), (2, 2), (3, 2)] {
            rig.send_after("recorded", Duration::from_secs(after), &News(number));
        }
        rig.run("recorded").unwrap();
    });
    assert_eq!(end, Some(End::Completed(vec![1, 2, 0, 3])));
}

#[test]
fn branches_items_and_rounds() {
    let end = recorded::<Branches>(|rig| drop(rig.run("recorded").unwrap()));
    assert_eq!(end, Some(End::Completed(vec![1, 2, 45, 1, 4, 9])));
}

#[test]
fn what_was_undone() {
    let Some(End::Failed(failure)) = recorded::<Fails>(|rig| drop(rig.run("recorded").unwrap())) else {
        panic!("it failed when it was recorded");
    };
    assert_eq!(failure.message, "declined");
}
