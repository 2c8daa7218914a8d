//! Messages from one instance to another: taken once, in their order, whatever crashes. BEHAVIOUR 36, FAULTS 1 and 22.

use everstep::testing::rig::{End, Plan};
use everstep::testing::world::{World, in_every_world};
use everstep::{Accepts, Address, Ctx, Message, Result, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
struct Note(u32);

/// Takes notes until there are as many as it was told.
#[derive(Clone, Copy)]
struct Keeper;

impl Accepts<Note> for Keeper {}

impl Workflow for Keeper {
    const NAME: &'static str = "keeper";
    type Input = usize;
    type Output = Vec<u32>;

    async fn run(ctx: Ctx<Self>, notes: usize) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        while taken.len() < notes {
            let Note(number) = ctx.receive().await?;
            taken.push(number);
        }
        ok(taken)
    }
}

/// Sends notes to keepers: one after the other, then several at once.
#[derive(Clone, Copy)]
struct Writer;

impl Workflow for Writer {
    const NAME: &'static str = "writer";
    type Input = Vec<String>;
    type Output = ();

    async fn run(ctx: Ctx<Self>, keepers: Vec<String>) -> Result<()> {
        for keeper in &keepers {
            for number in 0..3 {
                ctx.send(Keeper, keeper, Note(number)).dead_letter().await?;
            }
        }
        let to: Vec<_> = keepers.iter().map(|keeper| Address::of(Keeper, keeper)).collect();
        let to = to.into_iter().collect::<Result<Vec<_>, _>>()?;
        let more = to.iter().map(|keeper| ctx.send_to(keeper, Note(3)).dead_letter());
        futures_util::future::try_join_all(more).await?;
        ok(())
    }
}

fn world(plan: Plan) -> World {
    World::new(plan, 7).workflow(Keeper).workflow(Writer)
}

fn names() -> Vec<String> {
    ["k1", "k2", "k3", "k4"].map(str::to_owned).to_vec()
}

/// Four keepers lie in several shards: so both ways of carrying are crashed at every commit.
#[test]
fn every_message_is_taken_once_and_in_order() {
    let ends = in_every_world(world, |world| {
        for keeper in names() {
            world.start(Keeper, &keeper, &4);
        }
        world.start(Writer, "w", &names());
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0, "everything has arrived");
        assert!(world.dead_letters().is_empty());
        let ends = names().into_iter().map(|keeper| world.end(Keeper, &keeper));
        ends.collect::<Vec<_>>()
    });
    assert_eq!(ends, vec![End::Completed(vec![0, 1, 2, 3]); 4]);
}

/// What nobody can take any more is kept if the sender asked for it, each once: an ended instance and one that there
/// never was.
#[test]
fn what_cannot_be_delivered_becomes_a_dead_letter_once() {
    let dead = in_every_world(world, |world| {
        world.start(Keeper, "k1", &0);
        world.run().unwrap();
        world.start(Writer, "w", &vec!["k1".to_owned(), "nobody".to_owned()]);
        world.run().unwrap();
        let dead = world.dead_letters().into_iter();
        let mut dead: Vec<_> = dead.map(|letter| (letter.to, letter.reason)).collect();
        dead.sort();
        (world.end(Writer, "w"), dead)
    });
    assert_eq!(dead.0, End::Completed(()));
    let ended = "the instance has ended: completed";
    let mut expected = vec![("k1".to_owned(), ended.to_owned()); 4];
    expected.extend(vec![("nobody".to_owned(), "there is no such instance".to_owned()); 4]);
    assert_eq!(dead.1, expected);
}

/// One writer that sends more than a commit may hold.
#[derive(Clone, Copy)]
struct Flood;

impl Workflow for Flood {
    const NAME: &'static str = "flood";
    type Input = u32;
    type Output = ();

    async fn run(ctx: Ctx<Self>, notes: u32) -> Result<()> {
        let all = (0..notes).map(|number| ctx.send(Keeper, "k", Note(number)));
        futures_util::future::try_join_all(all).await?;
        ok(())
    }
}

#[test]
fn more_than_one_commit_may_hold_is_sent_in_slices() {
    let mut world = World::new(Plan::Live, 3).workflow(Keeper).workflow(Flood);
    world.start(Keeper, "k", &600);
    world.start(Flood, "f", &600);
    world.run().unwrap();
    assert_eq!(world.end(Keeper, "k"), End::Completed((0..600).collect()));
    let commits = world.history("f").values().filter_map(|entry| entry.completed).count();
    assert_eq!(commits, 600);
}
