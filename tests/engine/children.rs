//! Children: started once, told to their parent once, closed with it. BEHAVIOUR 34, 35, 38; FAULTS 58 and 59.

use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::testing::rig::{End, Plan};
use everstep::testing::world::{World, in_every_world};
use everstep::{Accepts, ClosePolicy, Ctx, Loop, Message, WorkflowError, ensure, ok};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

/// A workflow from a name, an input type, an output type and a body.
macro_rules! workflow {
    ($name:ident, $input:ty, $output:ty, |$ctx:ident, $in:ident| $body:expr) => {
        define!($name: $input => $output, accepts [], |$ctx, $in| $body);
    };
}

#[derive(Debug, Message, Serialize, Deserialize)]
struct Go(u32);

workflow!(Double, u32, u32, |ctx, number| {
    let doubled = ctx.step("double", move || async move { ok(number * 2) }).await?;
    ensure!(doubled < 1000, "{number} is too much");
    ok(doubled)
});

// Waits until it is told, or for ever.
workflow!(Waits, (), u32, |ctx, _input| {
    let Go(number) = ctx.receive().await?;
    ok(number)
});

impl Accepts<Go> for Waits {}

workflow!(Sum, Vec<u32>, u32, |ctx, numbers| {
    let mut handles = Vec::new();
    for number in numbers {
        handles.push(ctx.child(Double, number).start().await?);
    }
    let mut sum = 0;
    for handle in handles {
        sum += handle.await?;
    }
    ok(sum + ctx.child(Double, 1).await?)
});

fn world(plan: Plan) -> World {
    World::new(plan, 11).workflow(Double).workflow(Waits).workflow(Sum)
}

/// BEHAVIOUR 34: results arrive, each child is started once, whatever crashes.
#[test]
fn results_of_children_reach_their_parent() {
    let end = in_every_world(world, |world| {
        world.start(Sum, "p", &vec![1, 2, 3]);
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0);
        let children = world.instances();
        (world.end(Sum, "p"), children.len())
    });
    assert_eq!(end, (End::Completed(14), 5), "four children and their parent");
}

workflow!(Catches, (), Vec<String>, |ctx, _input| {
    let failure = ctx.child(Double, 600).id("too-much").await.unwrap_err();
    let (child, cause) = &failure.branches[0];
    let seen = vec![format!("{:?} {child} {:?} {cause}", failure.kind, cause.kind)];
    let taken = ctx.child(Double, 600).id("taken").await.unwrap_err();
    ok([seen, vec![taken.branches[0].1.message.clone()]].concat())
});

/// BEHAVIOUR 34: the failure can be caught, with its cause; an id that belongs to somebody else is one.
#[test]
fn the_failure_of_a_child_can_be_caught() {
    let end = in_every_world(
        |plan| world(plan).workflow(Catches),
        |world| {
            world.start(Double, "taken", &1);
            world.start(Catches, "p", &());
            world.run().unwrap();
            (world.end(Catches, "p"), world.end(Double, "taken"))
        },
    );
    let seen = vec![
        "Child too-much Error 600 is too much".to_owned(),
        "the id `taken` belongs to another instance".to_owned(),
    ];
    assert_eq!(end, (End::Completed(seen), End::Completed(2)));
}

workflow!(Talks, (), u32, |ctx, _input| {
    let child = ctx.child(Waits, ()).start().await?;
    let other = ctx.child(Waits, ()).start().await?;
    child.send(Go(40)).await?;
    other.cancel("not you").await?;
    let cancelled = other.await.unwrap_err();
    assert_eq!(cancelled.branches[0].1.kind, FailureKind::Cancelled);
    ok(child.await? + 2)
});

#[test]
fn a_child_can_be_sent_messages_and_cancelled() {
    let end = in_every_world(
        |plan| world(plan).workflow(Talks),
        |world| {
            world.start(Talks, "p", &());
            world.run().unwrap();
            world.end(Talks, "p")
        },
    );
    assert_eq!(end, End::Completed(42));
}

workflow!(Races, (), String, |ctx, _input| {
    let mut child = ctx.child(Waits, ()).id("loser").into_future().fuse();
    let mut time = ctx.sleep("long enough", "1h").fuse();
    let won = futures_util::select_biased! {
        number = child => format!("child {:?}", number?),
        slept = time => { slept?; "time".to_owned() }
    };
    drop(child);
    ctx.sleep("and on", "1h").await?;
    ok(won)
});

use std::future::IntoFuture;

/// BEHAVIOUR 28 and 38: a child that lost is cancelled while its parent goes on; the winner is recorded.
#[test]
fn a_child_that_nobody_waits_for_is_cancelled() {
    let lost = in_every_world(
        |plan| world(plan).workflow(Races),
        |world| {
            world.start(Races, "p", &());
            world.run_for(Duration::from_secs(90 * 60)).unwrap();
            let status = world.status("loser");
            world.run().unwrap();
            (status, world.end(Races, "p"))
        },
    );
    assert_eq!(lost, (Some(Status::Cancelled), End::Completed("time".to_owned())));
    let won = in_every_world(
        |plan| world(plan).workflow(Races),
        |world| {
            world.start(Races, "p", &());
            world.after(Duration::from_secs(60), |world| world.send(Waits, "loser", &Go(7)));
            world.run().unwrap();
            (world.status("loser"), world.end(Races, "p"))
        },
    );
    assert_eq!(won, (Some(Status::Completed), End::Completed("child 7".to_owned())));
}

workflow!(Tree, u32, (), |ctx, depth| {
    if depth == 0 {
        return ctx.sleep("for ever", "1000d").await.map_err(WorkflowError::from);
    }
    let left = ctx.child(Tree, depth - 1).id(format!("{}l", ctx.id())).start().await?;
    let right = ctx.child(Tree, depth - 1).id(format!("{}r", ctx.id())).start().await?;
    left.await?;
    right.await?;
    ok(())
});

const TREE: [&str; 7] = ["t", "tl", "tr", "tll", "tlr", "trl", "trr"];

/// BEHAVIOUR 35: cancelling a parent cancels its children, and theirs, durably.
#[test]
fn cancelling_a_parent_cancels_all_below_it() {
    let statuses = in_every_world(
        |plan| World::new(plan, 5).workflow(Tree),
        |world| {
            world.start(Tree, "t", &2);
            world.after(Duration::from_secs(1), |world| world.cancel("t", "enough"));
            world.run_for(Duration::from_secs(60)).unwrap();
            assert_eq!(world.in_transit(), 0);
            TREE.map(|id| world.status(id))
        },
    );
    assert_eq!(statuses, [Some(Status::Cancelled); 7]);
}

// A parent that ends while its children wait.
workflow!(Leaves, String, (), |ctx, end| {
    let cancelled = ctx.child(Waits, ()).id("cancelled").start().await?;
    let ended = ctx.child(Tree, 1).id("t").close(ClosePolicy::Terminate).start().await?;
    let left = ctx
        .child(Waits, ())
        .id("left")
        .close(ClosePolicy::Abandon)
        .start()
        .await?;
    let let_go = ctx.child(Waits, ()).id("let go").start().await?.detach();
    ctx.child(Waits, ()).id("never held").detach().await?;
    ctx.sleep("until they run", "1h").await?;
    ensure!(end == "well", "it ended {end}");
    drop((cancelled, ended, left, let_go));
    ok(())
});

/// BEHAVIOUR 35: the close policy, when the parent returns and when it fails; a terminated child takes its own along.
#[test]
fn children_are_closed_when_their_parent_ends() {
    for (how, status) in [("well", Status::Completed), ("badly", Status::Failed)] {
        let statuses = in_every_world(
            |plan| world(plan).workflow(Leaves).workflow(Tree),
            |world| {
                world.start(Leaves, "p", &how.to_owned());
                world.run_for(Duration::from_secs(2 * 60 * 60)).unwrap();
                assert_eq!(world.in_transit(), 0);
                ["p", "cancelled", "t", "tl", "tr", "left", "let go", "never held"].map(|id| world.status(id).unwrap())
            },
        );
        let [cancelled, waiting] = [Status::Cancelled, Status::Waiting];
        let expected = [
            status,
            cancelled,
            Status::Terminated,
            cancelled,
            cancelled,
            waiting,
            waiting,
            waiting,
        ];
        assert_eq!(statuses, expected, "it ended {how}");
    }
}

workflow!(Crowd, u32, (), |ctx, many| {
    let children = (0..many).map(|number| ctx.child(Waits, ()).id(format!("c{number}")).into_future());
    futures_util::future::try_join_all(children).await?;
    ok(())
});

/// FAULTS 58: a thousand children, and a crash somewhere in the middle of their being cancelled.
#[test]
fn a_thousand_children_are_cancelled() {
    let statuses = |plan| {
        let mut world = World::with_shards(plan, 2, 1).workflow(Crowd).workflow(Waits);
        world.start(Crowd, "p", &1000);
        world.after(Duration::from_secs(1), |world| world.cancel("p", "enough"));
        world.run().unwrap();
        let cancelled = (0..1000).filter(|number| world.status(&format!("c{number}")) == Some(Status::Cancelled));
        (cancelled.count(), world.status("p"), world.commits())
    };
    let (cancelled, parent, commits) = statuses(Plan::Live);
    assert_eq!((cancelled, parent), (1000, Some(Status::Cancelled)));
    for plan in [
        Plan::CrashBefore(commits / 2 + 5),
        Plan::CrashAfter(commits / 2 + 2),
        Plan::CrashAfter(commits - 500),
    ] {
        let (cancelled, parent, _) = statuses(plan);
        assert_eq!((cancelled, parent), (1000, Some(Status::Cancelled)), "{plan:?}");
    }
}

// Adds what it is told until it is told nothing, or to end.
workflow!(Adds, (), u32, |ctx, _input| {
    let mut sum = 0;
    loop {
        match ctx.receive::<Go>().await {
            Ok(Go(0)) => return ok(sum),
            Ok(Go(number)) => sum += number,
            Err(_) => return ok(1000 + sum),
        }
    }
});

impl Accepts<Go> for Adds {}

workflow!(TellsInTurns, u32, (u32, bool), |ctx, times| {
    let adds = ctx.child(Adds, ()).start().await?;
    let ends = ctx.child(Adds, ()).start().await?;
    let (tell, end) = (&adds, &ends);
    let body = |ctx: Ctx<Self>, turn: u32| async move {
        tell.send(Go(turn)).await?;
        ctx.sleep("nap", "1h").await?;
        if turn < times {
            return ok(Loop::Continue(turn + 1));
        }
        tell.send(Go(0)).await?;
        end.cancel("enough").await?;
        ok(Loop::Break(()))
    };
    ctx.repeat("turns", 1, body)
        .commit_interval(2)
        .history_keep(0)
        .history_every(1)
        .await?;
    ok((adds.await?, ends.await.is_err()))
});

/// Found in review: in a loop the handle of a child that was started before it could not be used, although a message to its
/// address could be sent: the handle asked for a place around the loop.
#[test]
fn the_handle_of_a_child_can_be_used_in_a_loop() {
    let sum = in_every_world(
        |plan| World::new(plan, 1).workflow(Adds).workflow(TellsInTurns),
        |world| {
            world.start(TellsInTurns, "p", &5);
            world.run().unwrap();
            world.end(TellsInTurns, "p")
        },
    );
    assert_eq!(sum, End::Completed((15, true)));
}
