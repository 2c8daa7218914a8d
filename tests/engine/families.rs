//! How far the failure of a child reaches: told, taken along, ignored, undone. BEHAVIOUR 31, 32, 35 and 54.

use std::time::Duration;

use everstep::storage::record::{EntryKind, FailureKind, Reach, Status};
use everstep::testing::rig::{End, Plan};
use everstep::testing::world::{World, in_every_world};
use everstep::{Ctx, Policy, Result, Strategy, Workflow, WorkflowError, branch, ensure, ok};

/// A workflow from a name, an input type, an output type and a body; and with a strategy.
macro_rules! workflow {
    ($name:ident, $input:ty, $output:ty, |$ctx:ident, $in:ident| $body:expr) => {
        workflow!($name, Strategy::Compensate, $input, $output, |$ctx, $in| $body);
    };
    ($name:ident, $strategy:expr, $input:ty, $output:ty, |$ctx:ident, $in:ident| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = $input;
            type Output = $output;

            fn policy() -> Policy {
                Policy::new().strategy($strategy)
            }

            async fn run($ctx: Ctx<Self>, $in: $input) -> Result<$output> {
                $body
            }
        }
    };
}

async fn breaks<W>(ctx: &Ctx<W>) -> Result<()> {
    ctx.sleep("a while", "1h").await?;
    Err(WorkflowError::msg("it broke"))
}

workflow!(Takes, Strategy::Cascade, (), u32, |ctx, _input| {
    breaks(&ctx).await?;
    ok(1)
});

workflow!(Shrugs, Strategy::Ignore, (), (), |ctx, _input| breaks(&ctx).await);

workflow!(ShrugsMaybe, Strategy::Ignore, (), Option<u32>, |ctx, _input| {
    breaks(&ctx).await?;
    ok(Some(1))
});

workflow!(ShrugsNumber, Strategy::Ignore, (), u32, |ctx, _input| {
    breaks(&ctx).await?;
    ok(1)
});

workflow!(Sibling, (), (), |ctx, _input| {
    let held = ctx.step("hold", || async { ok(7_u32) });
    held.rollback(|_: u32| async { ok(()) }).await?;
    ctx.sleep("for ever", "1000d").await?;
    ok(())
});

// Awaits neither of its children when one of them fails, and would rather not hear of it.
workflow!(Careless, (), u32, |ctx, _input| {
    let took = ctx.step("take", || async { ok(3_u32) });
    took.rollback(|_: u32| async { ok(()) }).await?;
    let takes = ctx.child(Takes, ()).id("takes").start().await?;
    let sibling = ctx.child(Sibling, ()).id("sibling").start().await?;
    let slept = ctx.sleep("long", "10h").await;
    drop((takes, sibling));
    let cleaned = ctx.shield().step("clean up", || async { ok(5_u32) }).await?;
    ok(cleaned + u32::from(slept.is_ok()))
});

fn world(plan: Plan) -> World {
    let world = World::new(plan, 31)
        .workflow(Takes)
        .workflow(Sibling)
        .workflow(Careless);
    world.workflow(Shrugs).workflow(ShrugsMaybe).workflow(ShrugsNumber)
}

/// BEHAVIOUR 32: `cascade` fails the parent, which can't catch it, and cancels the siblings; the parent may clean up, and
/// what both did is undone.
#[test]
fn a_child_takes_its_parent_along() {
    let ended = in_every_world(world, |world| {
        world.start(Careless, "p", &());
        world.run_for(Duration::from_secs(2 * 3600)).unwrap();
        assert_eq!(world.in_transit(), 0);
        let End::Failed(failure) = world.end(Careless, "p") else {
            panic!("it went on: {:?}", world.status("p"));
        };
        let history = world.history("p");
        let (child, cause) = failure.branches[0].clone();
        assert_eq!((failure.kind, child.as_str()), (FailureKind::Child, "takes"));
        assert_eq!(cause.message, "it broke");
        assert!(history.contains_key("clean up") && history.contains_key("take/rollback"));
        ["p", "takes", "sibling"].map(|id| world.status(id).unwrap())
    });
    assert_eq!(ended, [Status::Compensated, Status::Failed, Status::Cancelled]);
}

workflow!(Grandparent, (), String, |ctx, _input| {
    let failed = ctx.child(Careless, ()).id("p").await.unwrap_err();
    let beside = ctx.child(Shrugs, ()).await;
    ok(format!("{:?} {}", failed.kind, beside.is_ok()))
});

/// It goes as far as the strategies say and no further: the next one up may catch it.
#[test]
fn a_failure_is_taken_along_one_generation() {
    let end = in_every_world(
        |plan| world(plan).workflow(Grandparent),
        |world| {
            world.start(Grandparent, "g", &());
            world.run_for(Duration::from_secs(5 * 3600)).unwrap();
            world.end(Grandparent, "g")
        },
    );
    assert_eq!(end, End::Completed("Child true".to_owned()));
}

// Waits for some that fail, beside others.
workflow!(Patient, (), Vec<bool>, |ctx, _input| {
    let number = ctx.child(ShrugsNumber, ()).id("number").start().await?;
    let nothing = ctx.child(Shrugs, ()).id("nothing").await.is_ok();
    let maybe = ctx.child(ShrugsMaybe, ()).id("maybe").await?.is_none();
    ok(vec![nothing, maybe, number.await.is_err()])
});

/// BEHAVIOUR 32: `ignore` is recorded, and the parent goes on with nothing; where nothing is not enough, it is told.
#[test]
fn a_failure_that_is_ignored_is_recorded() {
    let end = in_every_world(world_of_the_patient, |world| {
        world.start(Patient, "p", &());
        world.run().unwrap();
        let recorded = world.history("p").into_values().filter_map(|entry| match entry.kind {
            EntryKind::Child(child) if child.awaited => Some((child.instance, child.reach, child.decided.is_some())),
            _ => None,
        });
        let mut recorded: Vec<_> = recorded.collect();
        recorded.sort_by(|left, right| left.0.cmp(&right.0));
        (world.end(Patient, "p"), world.status("nothing"), recorded)
    });
    let recorded = ["maybe", "nothing", "number"].map(|id| (id.to_owned(), Reach::Nobody, true));
    let expected = (End::Completed(vec![true; 3]), Some(Status::Failed), recorded.to_vec());
    assert_eq!(end, expected);
}

fn world_of_the_patient(plan: Plan) -> World {
    world(plan).workflow(Patient)
}

workflow!(Books, u32, u32, |ctx, room| {
    ensure!(room != 9, "room 9 does not exist");
    ok(ctx.step("book", move || async move { ok(room) }).await?)
});

async fn give_back(room: u32) -> Result<u32> {
    ok(room)
}

// Children in a join, a race, a map, a loop and a plain handle; then something fails.
workflow!(Trip, (), (), |ctx, _input| {
    ctx.child(Books, 1).rollback(give_back).await?;
    let join = (
        branch("left", |ctx: Ctx<Self>| async move {
            ok(ctx.child(Books, 2).rollback(give_back).await?)
        }),
        branch("right", |ctx: Ctx<Self>| async move {
            ok(ctx.child(Books, 9).rollback(give_back).await.is_err())
        }),
    );
    ctx.join("both", join).await?;
    let race = (
        branch("slow", |ctx: Ctx<Self>| async move {
            ctx.sleep("slow", "1h").await?;
            ok(ctx.child(Books, 3).rollback(give_back).await?)
        }),
        branch("quick", |ctx: Ctx<Self>| async move {
            ok(ctx.child(Books, 4).rollback(give_back).await?)
        }),
    );
    ctx.race("first", race).await?;
    let book = |ctx: Ctx<Self>, room: u32| async move { ok(ctx.child(Books, room).rollback(give_back).await?) };
    ctx.map("each", [5, 6], 1, book).await?;
    let round = |ctx: Ctx<Self>, room: u32| async move {
        ctx.checkpoint("room")?;
        ctx.child(Books, room).rollback(give_back).await?;
        ok(if room == 8 {
            everstep::Loop::Break(())
        } else {
            everstep::Loop::Continue(room + 1)
        })
    };
    ctx.repeat("rooms", 7, round).await?;
    Err(WorkflowError::msg("the trip is off"))
});

/// BEHAVIOUR 31 and 54: a child that completed is undone as its parent said, in reverse order, wherever it stands; one that
/// failed is not, and of a loop the last iteration counts.
#[test]
fn children_that_completed_are_undone_with_their_parent() {
    let undone = in_every_world(
        |plan| World::new(plan, 3).workflow(Trip).workflow(Books),
        |world| {
            world.start(Trip, "t", &());
            world.run().unwrap();
            let history = world.history("t");
            let mut undone: Vec<_> = history
                .iter()
                .filter(|(path, _)| path.ends_with("/rollback"))
                .map(|(path, entry)| (entry.id, path.trim_end_matches("/rollback").to_owned()))
                .collect();
            undone.sort_unstable();
            let undone: Vec<_> = undone.into_iter().map(|(_, path)| path).collect();
            (world.status("t"), undone)
        },
    );
    assert_eq!(undone.0, Some(Status::Compensated));
    let places: Vec<_> = undone.1.iter().map(|path| path.split('/').next().unwrap()).collect();
    assert_eq!(
        places,
        ["rooms", "each", "each", "first", "both", "Books~0"],
        "{:?}",
        undone.1
    );
}
