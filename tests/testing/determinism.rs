//! FAULTS 46: code that does something else when it is run again is found, and told where.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::testing::{Harness, Mock};
use everstep::{Ctx, Message, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::{assert_says, report};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Go;

/// A number that no two runs have in common.
#[expect(clippy::disallowed_methods, reason = "this is what is to be found")]
fn drawn() -> u64 {
    RandomState::new().hash_one(1)
}

#[activity]
async fn charge(amount: u64) -> Result<u64> {
    ok(amount)
}

#[workflow]
async fn random_names(ctx: Ctx<RandomNames>) -> Result<()> {
    let name = format!("step {}", drawn());
    ok(ctx.step(&name, || async { ok(()) }).await?)
}

#[workflow]
async fn random_input(ctx: Ctx<RandomInput>) -> Result<u64> {
    ok(ctx.run(charge, drawn()).await?)
}

#[workflow]
async fn random_sleep(ctx: Ctx<RandomSleep>) -> Result<()> {
    ok(ctx.sleep("pause", Duration::from_secs(drawn() % 100_000)).await?)
}

#[workflow]
async fn unordered(ctx: Ctx<Unordered>) -> Result<()> {
    let rooms: HashMap<u32, u32> = (0..20).map(|room| (room, room)).collect();
    for room in rooms.into_keys() {
        ctx.step(&format!("room {room}"), || async { ok(()) }).await?;
    }
    ok(())
}

/// What a clock does that goes on between two runs.
#[workflow(accepts(Go))]
async fn by_the_clock(ctx: Ctx<ByTheClock>) -> Result<()> {
    static CLOCK: AtomicU32 = AtomicU32::new(0);
    if CLOCK.fetch_add(1, Ordering::SeqCst) == 0 {
        ctx.step("early", || async { ok(()) }).await?;
    } else {
        ctx.step("late", || async { ok(()) }).await?;
    }
    ctx.receive::<Go>().await?;
    ok(())
}

#[workflow]
async fn random_child(ctx: Ctx<RandomChild>) -> Result<()> {
    ctx.child(given, drawn()).await?;
    ok(())
}

#[workflow]
async fn given(ctx: Ctx<Given>, number: u64) -> Result<u64> {
    ok(number + ctx.random() % 2)
}

#[workflow(accepts(Go))]
async fn sound(ctx: Ctx<Sound>) -> Result<u64> {
    let rooms: HashMap<u32, u32> = (0..20).map(|room| (room, room)).collect();
    let mut rooms: Vec<_> = rooms.into_keys().collect();
    rooms.sort_unstable();
    for room in rooms {
        ctx.step(&format!("room {room}"), || async { ok(drawn()) }).await?;
    }
    ctx.receive::<Go>().timeout("1d").await?;
    let (one, two) = futures_util::join!(ctx.run(charge, ctx.random()), ctx.child(given, 7).into_future());
    ctx.sleep("pause", Duration::from_secs(ctx.random() % 100_000)).await?;
    ok(one? ^ two?)
}

fn all() -> Harness {
    let builder = Runtime::builder()
        .workflow(random_names)
        .workflow(random_input)
        .workflow(random_sleep);
    let builder = builder
        .workflow(unordered)
        .workflow(by_the_clock)
        .workflow(random_child);
    Harness::new(builder.workflow(given).workflow(sound))
}

#[test]
fn chance_in_a_name_is_found() {
    let says = report(|| all().double_run(|h| h.start(random_names, ()).run_until_complete()));
    assert_says(
        &says,
        &[
            "`random_names-1` did something else",
            "first, it asked for nothing",
            "tests/testing/determinism.rs:",
            "ctx.random()",
        ],
    );
}

#[test]
fn chance_in_an_input_is_found() {
    let says = report(|| all().double_run(|h| h.start(random_input, ()).run_until_complete().is_ok()));
    assert_says(
        &says,
        &[
            "at `charge`",
            "first, it asked for a step (3 attempts) with ",
            "again, it asked for a step",
        ],
    );
}

#[test]
fn chance_in_a_duration_is_found() {
    let says = report(|| all().double_run(|h| h.start(random_sleep, ()).run_until_complete()));
    assert_says(&says, &["at `pause`", "first, it asked for a sleep (for "]);
}

#[test]
fn chance_in_a_child_is_found() {
    let says = report(|| all().double_run(|h| h.start(random_child, ()).run_until_complete()));
    assert_says(&says, &["at `given~0`", "a child (given as "]);
}

#[test]
fn the_order_of_a_map_is_found() {
    let says = report(|| all().double_run(|h| h.start(unordered, ()).run_until_complete()));
    assert_says(
        &says,
        &["`unordered-1` did something else", "room ", "order of a `HashMap`"],
    );
}

#[test]
fn a_clock_that_goes_on_is_found() {
    let says = report(|| all().double_run(|h| drop(h.start(by_the_clock, ()))));
    assert_says(
        &says,
        &["at `late`", "first, it asked for nothing", "again, it asked for a step"],
    );
}

#[workflow]
async fn long(ctx: Ctx<Long>) -> Result<()> {
    ok(ctx.step("work", || async { ok(()) }).await?)
}

/// Run again beside, code that was never dropped from memory does the same; what differs when it is dropped is found by
/// dropping it.
#[test]
fn being_dropped_from_memory_is_tried_as_well() {
    let harness = Harness::new(Runtime::builder().workflow(long));
    harness.mock("work", Mock::returns(()).taking("10s"));
    let says = report(|| {
        harness.double_run(|harness| {
            harness.start(long, ()).output();
            harness.calls("work").len()
        })
    });
    assert_says(&says, &["being dropped from memory made a difference", "expected: 1"]);
}

#[test]
fn what_is_deterministic_passes() {
    let ended = all().double_run(|harness| {
        let sound = harness.start(sound, ());
        sound.send(Go);
        harness.run_until_idle();
        sound.run_until_complete().is_ok()
    });
    assert!(ended);
}
