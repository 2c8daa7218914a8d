//! Waits of every kind together, whichever ends first: BEHAVIOUR 38.

use std::future::IntoFuture;
use std::time::Duration;

use everstep::storage::record::EntryKind;
use everstep::testing::rig::{End, Plan};
use everstep::testing::world::{World, in_every_world};
use everstep::{Ctx, Message, branch, ok};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang(u32);

macro_rules! workflow {
    ($name:ident: $input:ty => $output:ty, |$ctx:ident, $given:pat_param| $body:expr) => {
        define!($name: $input => $output, accepts [News], |$ctx, $given| $body);
    };
}

workflow!(Naps: u64 => u64, |ctx, seconds| {
    ctx.sleep("nap", Duration::from_secs(seconds)).await?;
    ok(seconds)
});
workflow!(Rings: u64 => (), |ctx, seconds| {
    ctx.sleep("a while", Duration::from_secs(seconds)).await?;
    ctx.publish(Rang(7)).await?;
    ok(())
});

/// How long the timer and the child take.
type Times = (u64, u64);

workflow!(Races: Times => String, |ctx, (timer, child)| {
    let letter = branch("letter", |ctx: Ctx<Races>| async move {
        let News(number) = ctx.receive().await?;
        ok(format!("letter {number}"))
    });
    let event = branch("event", |ctx: Ctx<Races>| async move {
        let Rang(number) = ctx.wait_event().await?;
        ok(format!("event {number}"))
    });
    let timer = branch("timer", move |ctx: Ctx<Races>| async move {
        ctx.sleep("timer", Duration::from_secs(timer)).await?;
        ok("timer".to_owned())
    });
    let child = branch("child", move |ctx: Ctx<Races>| async move {
        let seconds = ctx.child(Naps, child).await?;
        ok(format!("child {seconds}"))
    });
    let first = ctx.race("first", (letter, event, timer, child)).await?;
    ctx.sleep("and on", "1h").await?;
    ok(format!("{}: {}", first.name, first.value))
});
workflow!(Selects: Times => String, |ctx, (timer, child)| {
    let first = {
        let mut letter = Box::pin(ctx.receive::<News>()).fuse();
        let mut event = Box::pin(ctx.wait_event::<Rang>()).fuse();
        let mut timer = Box::pin(ctx.sleep("timer", Duration::from_secs(timer))).fuse();
        let mut child = Box::pin(ctx.child(Naps, child).into_future()).fuse();
        futures_util::select! {
            letter = letter => format!("letter: letter {}", letter?.0),
            event = event => format!("event: event {}", event?.0),
            slept = timer => slept.map(|()| "timer: timer".to_owned())?,
            child = child => format!("child: child {}", child?),
        }
    };
    ctx.sleep("and on", "1h").await?;
    ok(first)
});

/// Each of the four ends first once, in seconds: the message, the event, the timer, the child.
const CASES: [([u64; 4], &str); 4] = [
    ([1, 5, 6, 7], "letter: letter 9"),
    ([9, 5, 6, 7], "event: event 7"),
    ([9, 8, 6, 7], "timer: timer"),
    ([9, 8, 17, 7], "child: child 7"),
];

fn world(plan: Plan) -> World {
    let world = World::new(plan, 3).workflow(Naps).workflow(Rings);
    world.workflow(Races).workflow(Selects)
}

fn send_after(world: &mut World, seconds: u64, to: impl Fn(&mut World) + Send + 'static) {
    world.after(Duration::from_secs(seconds), move |world| to(world));
}

/// What wins is the same in every mode, and is recorded; the others are let go: the child is asked to end, the topic hears
/// that nobody waits, and what comes later lies in the inbox.
#[test]
fn a_race_of_a_message_an_event_a_timer_and_a_child() {
    for ([letter, event, timer, child], expected) in CASES {
        let (end, winner) = in_every_world(world, |world| {
            world.start(Races, "r", &(timer, child));
            world.start(Rings, "rings", &event);
            send_after(world, letter, |world| world.send(Races, "r", &News(9)));
            world.run().unwrap();
            assert_eq!(world.in_transit(), 0);
            let winner = match &world.history("r")["first"].kind {
                EntryKind::Race { winner } => winner.clone(),
                other => panic!("{other:?}"),
            };
            (world.end(Races, "r"), winner)
        });
        assert_eq!(end, End::Completed(expected.to_owned()));
        assert_eq!(winner.as_deref(), expected.split(':').next());
    }
}

#[test]
fn a_select_of_a_message_an_event_a_timer_and_a_child() {
    for ([letter, event, timer, child], expected) in CASES {
        let end = in_every_world(world, |world| {
            world.start(Selects, "s", &(timer, child));
            world.start(Rings, "rings", &event);
            send_after(world, letter, |world| world.send(Selects, "s", &News(9)));
            world.run().unwrap();
            assert_eq!(world.in_transit(), 0);
            world.end(Selects, "s")
        });
        assert_eq!(end, End::Completed(expected.to_owned()));
    }
}
