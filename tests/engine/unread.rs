//! What came for a wait that was dropped before anybody looked: it is there for whoever waits next.

use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Ctx, Loop, Message, Result, Workflow, ok};
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Stop(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(u32))]
struct Price(u32);

macro_rules! workflow {
    ($name:ident: $input:ty => $output:ty, |$ctx:ident, $given:pat_param| $body:expr) => {
        define!($name: $input => $output, accepts [Stop, Price], |$ctx, $given| $body);
    };
}

/// Polls a wait once, lets a message come to it while the code is busy, and drops it.
macro_rules! unread {
    ($ctx:expr, $wait:expr) => {{
        let mut wait = Box::pin($wait);
        let tick = select(wait.as_mut(), $ctx.sleep("tick", "1s")).await;
        assert!(matches!(tick, Either::Right(_)));
        $ctx.sleep("work", "10s").await?;
    }};
}

workflow!(Continues: bool => u32, |ctx, again| {
    if again {
        return ok(ctx.receive::<Stop>().within("1h").await?.map_or(0, |stop| stop.0));
    }
    unread!(ctx, ctx.receive::<Stop>());
    ctx.continue_as_new(true)
});

workflow!(WaitsAgain: () => Vec<u32>, |ctx, _| {
    unread!(ctx, ctx.receive_many::<Stop>(2));
    let mut stops = Vec::new();
    for _ in 0..3 {
        stops.push(ctx.receive::<Stop>().timeout("1h").await?.0);
    }
    ctx.sleep("later", "1h").await?;
    ok(stops)
});

workflow!(LeavesTurns: () => Vec<u32>, |ctx, _| {
    let body = |ctx: Ctx<Self>, turn: u32| async move {
        let wait = ctx.receive::<Stop>();
        if turn == 0 {
            unread!(ctx, wait);
            return ok(Loop::Continue(1));
        }
        let first = wait.timeout("1h").await?.0;
        ok(Loop::Break(vec![first, ctx.receive::<Stop>().timeout("1h").await?.0]))
    };
    let turns = ctx.repeat("turns", 0, body);
    turns.commit_interval(1).history_every(1).history_keep(0).await
});

/// Found in review: a wait that had been polled took the message, nobody looked at it any more, and when the wait was
/// dropped the message was gone: neither read nor carried over to the next run.
#[test]
fn a_message_that_nobody_looked_at_is_read_by_the_next_who_waits() {
    let end = in_every_mode::<Continues, _>(1, |rig| {
        rig.start("i", &false);
        rig.send_after("i", Duration::from_secs(5), &Stop(7));
        let end = rig.run("i").unwrap();
        assert_eq!(rig.inbox_len("i"), 0);
        end
    });
    assert_eq!(end, End::Completed(7));
}

/// FAULTS 19.
#[test]
fn messages_that_nobody_looked_at_keep_their_order() {
    fn stops<W: Workflow<Input = (), Output = Vec<u32>> + Accepts<Stop>>(many: u32) -> End<Vec<u32>> {
        in_every_mode::<W, _>(1, |rig| {
            rig.start("i", &());
            for number in 1..=many {
                rig.send_after("i", Duration::from_secs(5 + u64::from(number / 3)), &Stop(number));
            }
            let end = rig.run("i").unwrap();
            assert_eq!(rig.inbox_len("i"), 0);
            assert_eq!(rig.replay("i").unwrap().as_ref(), Some(&end));
            end
        })
    }
    assert_eq!(stops::<WaitsAgain>(3), End::Completed(vec![1, 2, 3]));
    assert_eq!(stops::<LeavesTurns>(2), End::Completed(vec![1, 2]));
}

workflow!(Asked: bool => u32, |ctx, again| {
    if !again {
        unread!(ctx, ctx.question::<Price>());
        return ctx.continue_as_new(true);
    }
    let asked = ctx.question::<Price>().timeout("1h").await?;
    let price = asked.0 + 1;
    asked.reply(&price)?;
    ok(price)
});

/// Found in review, with the message: whoever had asked waited for ever.
#[test]
fn a_question_that_nobody_looked_at_is_answered_by_the_next_who_waits() {
    in_every_mode::<Asked, _>(1, |rig| {
        rig.start("i", &false);
        let question = rig.ask_after("i", Duration::from_secs(5), &Price(7));
        assert_eq!(rig.run("i").unwrap(), End::Completed(8));
        rig.answer::<Price>("i", &question).unwrap().unwrap()
    });
}

/// Code of one workflow that is deployed again.
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

        impl Accepts<Stop> for $name {}
        impl Accepts<Price> for $name {}
    };
}

code!(Ignores, |ctx| {
    unread!(ctx, ctx.receive::<Stop>());
    ok(ctx.question::<Price>().await?.0)
});
code!(Looks, |ctx| {
    let wait = ctx.receive::<Stop>();
    let (stop, slept) = futures_util::join!(wait, async {
        ctx.sleep("tick", "1s").await?;
        ctx.sleep("work", "10s").await
    });
    slept?;
    ok(stop?.0)
});

#[test]
fn code_that_looks_at_what_went_back_diverges() {
    let mut rig = Rig::<Ignores>::new(Plan::Evict, 1);
    rig.start("i", &());
    rig.send_after("i", Duration::from_secs(5), &Stop(7));
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    assert_eq!(rig.inbox_len("i"), 1);
    let divergence = rig.deploy::<Looks>().run("i").unwrap_err();
    let recorded = Some("receive whose message went back unread");
    assert_eq!(
        (divergence.path.as_str(), divergence.recorded.as_deref()),
        ("Stop~0", recorded)
    );
}
