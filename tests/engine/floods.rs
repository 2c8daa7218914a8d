//! What would not fit into one commit is refused with a code before anything of it is written: names, published values,
//! answers. An instance that asks for too much fails; it does not end up in quarantine with a commit that no store takes.

use everstep::storage::record::Failure;
use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Ctx, Message, Result, Workflow, ok};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

struct ManyNames;

impl Workflow for ManyNames {
    const NAME: &'static str = "many names";
    type Input = (usize, usize);
    type Output = usize;

    /// So many steps at once, each with a name of so many bytes.
    async fn run(ctx: Ctx<Self>, (count, bytes): (usize, usize)) -> Result<usize> {
        let steps = (0..count).map(|number| {
            ctx.step(&format!("{number:0bytes$}"), || async { ok(()) })
                .into_future()
        });
        for done in join_all(steps).await {
            done?;
        }
        ok(count)
    }
}

fn failure<W: Workflow>(rig: &mut Rig<W>) -> Failure
where
    W::Output: std::fmt::Debug,
{
    match rig.run("i").unwrap() {
        End::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_do_not_fit_into_a_commit_fail_the_instance() {
    let mut rig = Rig::<ManyNames>::new(Plan::Live, 1);
    rig.start("i", &(18_000, 200));
    let failure = failure(&mut rig);
    assert_eq!(failure.code.as_deref(), Some("ES0305"), "{failure:?}");
    assert!(rig.history("i").is_empty(), "nothing had begun");
    let mut rig = Rig::<ManyNames>::new(Plan::Live, 1);
    rig.start("i", &(18_000, 10));
    assert_eq!(rig.run("i").unwrap(), End::Completed(18_000), "shorter ones fit");
}

struct ManyValues;

impl Workflow for ManyValues {
    const NAME: &'static str = "many values";
    type Input = usize;
    type Output = ();

    /// Publishes so many values, a few at a time, each under two names in turn.
    async fn run(ctx: Ctx<Self>, count: usize) -> Result<()> {
        for number in 0..count {
            ctx.set(&format!("n{number}"), number)?;
            ctx.set("last", number)?;
            if number % 100 == 0 {
                ctx.sleep(&format!("s{number}"), "1s").await?;
            }
        }
        ok(())
    }
}

#[test]
fn published_names_are_bounded_also_after_a_restart() {
    for plan in [Plan::Live, Plan::Evict, Plan::CrashBefore(9)] {
        let mut rig = Rig::<ManyValues>::new(plan, 1);
        rig.start("i", &1_023);
        assert_eq!(
            rig.run("i").unwrap(),
            End::Completed(()),
            "with the one that is always there"
        );
        let mut rig = Rig::<ManyValues>::new(plan, 1);
        rig.start("i", &1_024);
        assert_eq!(failure(&mut rig).code.as_deref(), Some("ES0306"));
    }
}

struct Chatters;

impl Workflow for Chatters {
    const NAME: &'static str = "chatters";
    type Input = usize;
    type Output = ();

    async fn run(ctx: Ctx<Self>, count: usize) -> Result<()> {
        for _ in 0..count {
            ctx.emit(())?;
        }
        ctx.sleep("nap", "1s").await?;
        ok(())
    }
}

/// Each item is a row, however small it is.
#[test]
fn small_words_are_bounded_by_their_rows() {
    let mut rig = Rig::<Chatters>::new(Plan::Live, 1);
    rig.start("i", &4_000);
    assert_eq!(rig.run("i").unwrap(), End::Completed(()));
    let mut rig = Rig::<Chatters>::new(Plan::Live, 1);
    rig.start("i", &5_000);
    assert_eq!(failure(&mut rig).code.as_deref(), Some("ES0107"));
}

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(u32))]
struct Price;

struct Silent;

impl everstep::Accepts<Price> for Silent {}

impl Workflow for Silent {
    const NAME: &'static str = "silent";
    type Input = usize;
    type Output = usize;

    /// Takes so many questions, and answers none before it has all of them.
    async fn run(ctx: Ctx<Self>, takes: usize) -> Result<usize> {
        let mut taken = Vec::new();
        for _ in 0..takes {
            taken.push(ctx.question::<Price>().await?);
        }
        ctx.sleep("nap", "1s").await?;
        ok(taken.len())
    }
}

/// Questions that nobody took are told apart from the end when there are too many of them to be answered in it.
#[test]
fn an_instance_ends_whatever_waits_in_its_inbox() {
    let mut rig = Rig::<Silent>::new(Plan::Live, 1);
    rig.start("i", &0);
    for _ in 0..5_000 {
        rig.ask("i", &Price);
    }
    assert_eq!(rig.run("i").unwrap(), End::Completed(0));
}
