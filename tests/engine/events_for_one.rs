//! An event for one has one reader, whatever becomes of those that it was handed to. BEHAVIOUR 37.

use std::time::Duration;

use everstep::storage::record::{Entry, EntryKind};
use everstep::testing::rig::{End, Plan};
use everstep::testing::world::{World, in_every_world};
use everstep::{ClosePolicy, Ctx, Loop, Message, Workflow, ok};
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};

/// The topic of [`Rang`].
const TOPIC: &str = "__topic Rang";

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang(u32);

macro_rules! workflow {
    ($name:ident: $input:ty => $output:ty, |$ctx:ident, $given:pat_param| $body:expr) => {
        define!($name: $input => $output, accepts [], |$ctx, $given| $body);
    };
}

/// Polls a wait once, lets an event come to it while the code is busy, and drops it.
macro_rules! unread {
    ($ctx:expr) => {{
        let mut wait = Box::pin($ctx.wait_event::<Rang>());
        let tick = select(wait.as_mut(), $ctx.sleep("tick", "1s")).await;
        assert!(matches!(tick, Either::Right(_)));
        $ctx.sleep("work", "1h").await?;
    }};
}

// Rings every so many seconds, so often.
workflow!(Rings: (u32, u32) => (), |ctx, (seconds, times)| {
    for number in 1..=times {
        ctx.sleep(&format!("until {number}"), Duration::from_secs(seconds.into())).await?;
        ctx.publish(Rang(number)).to_one().keep("10h").await?;
    }
    ok(())
});
workflow!(Listens: () => Option<u32>, |ctx, _| {
    let rang = ctx.wait_event::<Rang>().within("5h").await?;
    ok(rang.map(|Rang(number)| number))
});
workflow!(Leaves: () => (), |ctx, _| {
    unread!(ctx);
    ctx.sleep("and on", "5h").await?;
    ok(())
});
workflow!(Ends: () => (), |ctx, _| {
    let mut wait = Box::pin(ctx.wait_event::<Rang>());
    let tick = select(wait.as_mut(), ctx.sleep("tick", "1s")).await;
    assert!(matches!(tick, Either::Right(_)));
    ctx.sleep("work", "1h").await?;
    std::mem::forget(wait);
    ok(())
});
workflow!(Continues: bool => u32, |ctx, again| {
    if again {
        return ok(ctx.wait_event::<Rang>().within("3h").await?.map_or(0, |rang| rang.0));
    }
    unread!(ctx);
    ctx.continue_as_new(true)
});
workflow!(LeavesTurns: () => u32, |ctx, _| {
    let body = |ctx: Ctx<Self>, turn: u32| async move {
        if turn == 0 {
            unread!(ctx);
            return ok(Loop::Continue(1));
        }
        ok(Loop::Break(ctx.wait_event::<Rang>().within("3h").await?.map_or(0, |rang| rang.0)))
    };
    let turns = ctx.repeat("turns", 0, body);
    turns.commit_interval(1).history_every(1).history_keep(0).await
});
// Looks at what came long after it came.
workflow!(LooksLate: () => u32, |ctx, _| {
    let mut wait = Box::pin(ctx.wait_event::<Rang>());
    let tick = select(wait.as_mut(), ctx.sleep("tick", "1s")).await;
    assert!(matches!(tick, Either::Right(_)));
    ctx.sleep("work", "1h").await?;
    ok(wait.await?.0)
});
// Ends one who has an event and has not looked at it.
workflow!(EndsOne: () => (), |ctx, _| {
    let child = ctx.child(Leaves, ()).id("ended").close(ClosePolicy::Terminate).start().await?;
    ctx.sleep("a while", "30m").await?;
    drop(child);
    ctx.sleep("and on", "5h").await?;
    ok(())
});

fn world(plan: Plan) -> World {
    let world = World::new(plan, 7).workflow(Rings).workflow(Listens).workflow(Leaves);
    let world = world.workflow(Ends).workflow(Continues).workflow(LeavesTurns);
    world.workflow(LooksLate).workflow(EndsOne)
}

/// One comes first and is rung for; half an hour later another one waits.
fn second_hears<W: Workflow<Input = ()> + Copy>(first: W) -> End<Option<u32>> {
    in_every_world(world, |world| {
        world.start(first, "first", &());
        world.start(Rings, "rings", &(10, 1));
        world.after(Duration::from_secs(5), |world| world.start(Listens, "second", &()));
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0);
        assert_eq!(have(world, &["first", "second", "ended"]), 1);
        world.end(Listens, "second")
    })
}

/// How many of these have an event.
fn have(world: &World, ids: &[&str]) -> usize {
    let entries = ids.iter().flat_map(|id| world.history(id).into_values());
    entries.filter(has_event).count()
}

fn has_event(entry: &Entry) -> bool {
    matches!(&entry.kind, EntryKind::Event { decided: Some(_), .. })
}

/// Found in review: a wait that had been polled took the event and told the topic so, and when it was dropped unread the
/// event was gone for everybody.
#[test]
fn an_event_that_nobody_looked_at_goes_to_the_next_who_waits() {
    assert_eq!(second_hears(Leaves), End::Completed(Some(1)));
    assert_eq!(second_hears(Ends), End::Completed(Some(1)));
}

#[test]
fn an_event_that_nobody_looked_at_goes_to_the_next_run_or_turn() {
    let heard = in_every_world(world, |world| {
        world.start(Continues, "runs", &false);
        world.start(Rings, "rings", &(10, 1));
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0);
        world.end(Continues, "runs")
    });
    assert_eq!(heard, End::Completed(1));
    let heard = in_every_world(world, |world| {
        world.start(LeavesTurns, "turns", &());
        world.start(Rings, "rings", &(10, 1));
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0);
        world.end(LeavesTurns, "turns")
    });
    assert_eq!(heard, End::Completed(1));
}

/// The same for one who is ended at once, and has no say in it: it has the event in its history, and never saw it.
#[test]
fn an_event_that_nobody_looked_at_outlives_who_is_ended() {
    for plan in [Plan::Live, Plan::Evict] {
        let mut world = world(plan);
        world.start(EndsOne, "parent", &());
        world.start(Rings, "rings", &(10, 1));
        world.after(Duration::from_secs(5), |world| world.start(Listens, "second", &()));
        world.run().unwrap();
        assert_eq!(world.end(Listens, "second"), End::Completed(Some(1)), "{plan:?}");
        assert_eq!(world.in_transit(), 0);
    }
}

/// Who looks late has it all the same, and nobody else.
#[test]
fn an_event_that_is_looked_at_late_has_one_reader() {
    let heard = in_every_world(world, |world| {
        world.start(LooksLate, "first", &());
        world.start(Rings, "rings", &(10, 1));
        world.after(Duration::from_secs(5), |world| world.start(Listens, "second", &()));
        world.run().unwrap();
        assert_eq!(world.in_transit(), 0);
        (world.end(LooksLate, "first"), world.end(Listens, "second"))
    });
    assert_eq!(heard, (End::Completed(1), End::Completed(None)));
}

/// Found in review: every note to a topic left a row by which its duplicates are known, and a topic never ends: the store
/// grew by three rows with every event.
#[test]
fn a_topic_does_not_remember_what_it_was_told() {
    let remembers = |times: u32| {
        let mut world = world(Plan::Evict);
        world.start(Rings, "rings", &(10, times));
        for number in 0..times {
            world.start(Listens, &format!("w{number}"), &());
        }
        world.run().unwrap();
        let ids: Vec<_> = (0..times).map(|number| format!("w{number}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        assert_eq!(have(&world, &ids), times as usize);
        world.remembers(TOPIC)
    };
    assert_eq!((remembers(3), remembers(30)), (0, 0));
}

/// What is on its way when the process dies is delivered again, and is known again.
#[test]
fn a_note_that_is_carried_again_after_a_crash_changes_nothing() {
    let heard = in_every_world(world, |world| {
        for id in ["w0", "w1", "w2"] {
            world.start(Listens, id, &());
        }
        world.start(Rings, "rings", &(10, 2));
        world.run().unwrap();
        let mut heard: Vec<_> = ["w0", "w1", "w2"].map(|id| world.end(Listens, id)).into();
        heard.sort_by_key(|end| format!("{end:?}"));
        heard
    });
    let expected = [Some(1), Some(2), None].map(End::Completed);
    let mut expected: Vec<_> = expected.into();
    expected.sort_by_key(|end| format!("{end:?}"));
    assert_eq!(heard, expected);
}

/// Code of one workflow that is deployed again.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = ();

            async fn run($ctx: Ctx<Self>, (): ()) -> everstep::Result<()> {
                $body
            }
        }
    };
}

code!(Drops, |ctx| {
    unread!(ctx);
    ctx.sleep("and on", "5h").await?;
    ok(())
});
code!(Looks, |ctx| {
    let (rang, slept) = futures_util::join!(ctx.wait_event::<Rang>(), async {
        ctx.sleep("tick", "1s").await?;
        ctx.sleep("work", "1h").await
    });
    rang?;
    slept?;
    ctx.sleep("and on", "5h").await?;
    ok(())
});

#[test]
fn code_that_looks_at_what_went_back_diverges() {
    let mut world = World::new(Plan::Evict, 7).workflow(Rings).workflow(Drops);
    world.start(Drops, "first", &());
    world.start(Rings, "rings", &(10, 1));
    world.run_for(Duration::from_secs(2 * 3600)).unwrap();
    let divergence = world.workflow(Looks).run().unwrap_err();
    let recorded = Some("event that went back unread");
    assert_eq!(
        (divergence.path.as_str(), divergence.recorded.as_deref()),
        ("Rang~0", recorded)
    );
}
