//! Messages are taken once, in their order, by whoever waits for them: one, one of several types, or many. BEHAVIOUR
//! 16 to 18.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Ctx, Loop, Message, Messages, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Left(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
struct Right(u32);

#[derive(Debug, Messages)]
enum Either {
    Left(Left),
    Right(Right),
}

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<String>, accepts [Left, Right], |$ctx, _| $body);
    };
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Sends left and right messages in turn, one a second, and tells what was taken and how many were left.
fn taken<W: Workflow<Input = (), Output = Vec<String>> + Accepts<Left> + Accepts<Right>>() -> (Vec<String>, usize) {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        for number in 0..6 {
            if number % 2 == 0 {
                rig.send_after("i", secs(number), &Left(number as u32));
            } else {
                rig.send_after("i", secs(number), &Right(number as u32));
            }
        }
        let end = rig.run("i").unwrap();
        assert_eq!(rig.replay("i").unwrap().as_ref(), Some(&end));
        let End::Completed(taken) = end else {
            panic!("{end:?}");
        };
        (taken, rig.inbox_len("i"))
    })
}

workflow!(Any, |ctx| {
    let mut seen = Vec::new();
    loop {
        match ctx.receive_any::<Either>().within("10s").await? {
            Some(Either::Left(left)) => seen.push(format!("left {}", left.0)),
            Some(Either::Right(right)) => seen.push(format!("right {}", right.0)),
            None => return ok(seen),
        }
        // What comes meanwhile waits, and is taken in the order in which it came, whatever its type.
        if seen.len() == 2 {
            ctx.sleep("a while", "3s").await?;
        }
    }
});

#[test]
fn whichever_came_first_is_taken_first() {
    let expected = ["left 0", "right 1", "left 2", "right 3", "left 4", "right 5"];
    assert_eq!(taken::<Any>(), (expected.map(str::to_owned).to_vec(), 0));
}

workflow!(Many, |ctx| {
    ctx.sleep("a while", "30s").await?;
    let two = ctx.receive_many::<Left>(2).await?;
    let rest = ctx.receive_many::<Left>(9).timeout("1s").await?;
    let none = ctx.receive_many::<Left>(9).within("1s").await?;
    let late = ctx.receive_many::<Left>(9).timeout("1s").await.unwrap_err();
    let numbers = |lefts: Vec<Left>| format!("{:?}", lefts.iter().map(|left| left.0).collect::<Vec<_>>());
    ok(vec![
        numbers(two),
        numbers(rest),
        numbers(none),
        format!("{:?}", late.kind),
    ])
});

#[test]
fn up_to_so_many_are_taken_at_once_and_the_others_stay() {
    let expected = ["[0, 2]", "[4]", "[]", "TimedOut"];
    assert_eq!(taken::<Many>(), (expected.map(str::to_owned).to_vec(), 3));
}

workflow!(Until, |ctx| {
    // The beginning of 2030, when the rig begins, and four seconds.
    let time = UNIX_EPOCH + Duration::from_millis(1_893_456_004_500);
    let mut seen = Vec::new();
    while let Some(right) = ctx.receive::<Right>().until(time).or_none().await? {
        seen.push(format!("right {}", right.0));
    }
    let past = ctx.receive::<Right>().until(UNIX_EPOCH).await.unwrap_err();
    seen.push(format!("{:?}", past.kind));
    seen.push(format!("{}", ctx.receive::<Left>().until(UNIX_EPOCH).await?.0));
    ok(seen)
});

#[test]
fn a_wait_ends_at_a_time_and_one_that_has_passed_still_takes_what_is_there() {
    let expected = ["right 1", "right 3", "TimedOut", "0"];
    assert_eq!(taken::<Until>().0, expected);
}

workflow!(InALoop, |ctx| {
    let body = |ctx: Ctx<InALoop>, seen: Vec<String>| async move {
        let mut seen = seen;
        seen.push(match ctx.receive::<Left>().within("1500ms").await? {
            Some(left) => format!("left {}", left.0),
            None => "nothing".to_owned(),
        });
        ok(if seen.len() == 7 {
            Loop::Break(seen)
        } else {
            Loop::Continue(seen)
        })
    };
    ctx.repeat("loop", Vec::new(), body)
        .commit_interval(2)
        .history_keep(0)
        .await
});

/// BEHAVIOUR 18: a timeout in a loop does not give the message of the iteration before once more.
#[test]
fn a_timeout_in_a_loop_is_its_own() {
    let expected = ["left 0", "nothing", "left 2", "nothing", "left 4", "nothing", "nothing"];
    assert_eq!(taken::<InALoop>(), (expected.map(str::to_owned).to_vec(), 3));
}

workflow!(Heavy, |ctx| {
    ctx.sleep("a while", "30s").await?;
    let first = ctx.receive_many::<Heap>(9).await?;
    let second = ctx.receive_many::<Heap>(9).await?;
    ok(vec![first.len().to_string(), second.len().to_string()])
});

#[derive(Debug, Message, Serialize, Deserialize)]
struct Heap(String);

impl Accepts<Heap> for Heavy {}

/// What is taken becomes one entry, and an entry has a largest size: many large messages are taken in turns.
#[test]
fn large_messages_are_taken_in_turns() {
    let end = in_every_mode::<Heavy, _>(1, |rig| {
        rig.start("i", &());
        for number in 0..5 {
            rig.send_after("i", secs(number), &Heap("x".repeat(300_000)));
        }
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed(vec!["3".to_owned(), "2".to_owned()]));
}

static FOLLOWED: AtomicU32 = AtomicU32::new(0);

workflow!(Follows, |ctx| {
    let Left(number) = ctx.receive::<Left>().await?;
    let follow = move || async move {
        FOLLOWED.fetch_add(1, Ordering::Relaxed);
        ok(number)
    };
    ok(vec![ctx.step("follow", follow).await?.to_string()])
});

/// A message is given to the code before its taking is stored, since it lies in the inbox. A step that follows from it
/// begins only when it is: here the process dies just before, and the step has run once in all.
#[test]
fn nothing_follows_from_a_message_before_it_is_taken_for_good() {
    for (plan, why) in [
        (Plan::Live, "nothing dies"),
        (Plan::CrashBefore(1), "it dies before the first commit"),
    ] {
        FOLLOWED.store(0, Ordering::Relaxed);
        let mut rig = Rig::<Follows>::new(plan, 1);
        rig.start("i", &());
        rig.send("i", &Left(7));
        let end = rig.run("i").unwrap();
        assert_eq!(end, End::Completed(vec!["7".to_owned()]), "{why}");
        assert_eq!(FOLLOWED.load(Ordering::Relaxed), 1, "{why}");
        assert_eq!(rig.inbox_len("i"), 0, "{why}");
    }
}
