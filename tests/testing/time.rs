//! Virtual time: it stands still, moves as it is told, and is the same every time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep::storage::record::Status;
use everstep::testing::{Harness, Mock};
use everstep::{Ctx, Loop, Result, Runtime, activity, ok, workflow};

use crate::{assert_says, report};

#[workflow]
async fn naps(ctx: Ctx<Naps>, name: String) -> Result<u64> {
    let before = ctx.now();
    ctx.sleep(&name, "365d").await?;
    ok(ctx.now().duration_since(before)?.as_secs() / 86_400)
}

#[workflow]
async fn blinks(ctx: Ctx<Blinks>) -> Result<()> {
    let body = |ctx: Ctx<Blinks>, (): ()| async move {
        ctx.sleep("blink", "1s").await?;
        ok(Loop::Continue(()))
    };
    ctx.repeat("for ever", (), body).await
}

#[workflow]
async fn blocks(ctx: Ctx<Blocks>) -> Result<u64> {
    let sum = || ok((1..=2_000_000_u64).sum());
    ok(ctx.step_blocking("sum", sum).await?)
}

#[activity]
async fn slow(seconds: u64) -> Result<u64> {
    let never = std::future::pending::<u64>();
    ok(tokio::time::timeout(Duration::from_secs(seconds), never)
        .await
        .unwrap_or(seconds))
}

#[workflow]
async fn works(ctx: Ctx<Works>) -> Result<u64> {
    let first = ctx.run(slow, 90).await?;
    ok(first
        + ctx
            .run(slow, 7)
            .named("again")
            .timeout("5s")
            .retries(0)
            .tried()
            .await?
            .unwrap_or(0))
}

#[workflow]
async fn draws(ctx: Ctx<Draws>) -> Result<(u64, String)> {
    ok((ctx.random(), ctx.uuid()))
}

fn all() -> Harness {
    Harness::new(
        Runtime::builder()
            .workflow(naps)
            .workflow(blinks)
            .workflow(blocks)
            .workflow(works)
            .workflow(draws),
    )
}

#[test]
fn time_stands_still_until_it_is_moved() {
    let harness = all();
    let before = harness.now();
    let nap = harness.start(naps, "long".into());
    nap.assert_status(Status::Sleeping);
    assert_eq!(harness.now(), before);
    harness.advance("364d");
    nap.assert_status(Status::Sleeping);
    assert!(nap.result().is_none());
    harness.advance("1d");
    nap.assert_status(Status::Completed);
    assert_eq!(nap.result().unwrap().unwrap(), 365);
    assert_eq!(harness.now(), before + Duration::from_secs(365 * 86_400));
}

#[test]
fn a_century_of_sleep_takes_no_time() {
    let harness = all();
    for number in 0..100 {
        let nap = harness.start(naps, format!("nap {number}"));
        assert_eq!(nap.run_until_complete().unwrap(), 365);
    }
    assert!(harness.now() > UNIX_EPOCH + Duration::from_secs(150 * 365 * 86_400));
}

#[test]
fn time_is_moved_to_a_point_and_never_back() {
    let begins = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let harness = all().beginning(begins);
    let nap = harness.start(naps, "long".into());
    harness.advance_to(begins + Duration::from_secs(366 * 86_400));
    assert_eq!(nap.result().unwrap().unwrap(), 365);
    let says = report(|| harness.advance_to(begins));
    assert_says(&says, &["time does not run backwards"]);
}

#[test]
fn idle_is_when_nothing_happens_by_itself() {
    let harness = all();
    let (one, two) = (harness.start(naps, "one".into()), harness.start(works, ()));
    harness.run_until_idle();
    one.assert_status(Status::Completed);
    assert_eq!(two.result().unwrap().unwrap(), 90, "the second run took too long");
    let year = harness.now();
    harness.run_until_idle();
    assert_eq!(harness.now(), year);
}

#[test]
fn what_never_rests_is_told() {
    let harness = all();
    let blinks = harness.start(blinks, ());
    harness.advance("10s");
    blinks.assert_status(Status::Sleeping);
    let says = report(|| harness.run_until_idle());
    assert_says(&says, &["something still happens after", "use `advance`", "`blinks-1`"]);
}

/// A loop that sleeps for ever does not hang the test, and what is said of it is that it never rests: it was said not to
/// come to its end by itself, which was not known.
#[test]
fn too_many_commits_are_told_as_such() {
    let harness = all().commits_max(50);
    let instance = harness.start(blinks, ());
    let says = report(|| instance.run_until_complete());
    assert_says(
        &says,
        &[
            "something still happens after 50 commits",
            "`Harness::commits_max`",
            "`blinks-1`",
        ],
    );
    // Whatever is made of the harness has the same bounds.
    let says = report(|| {
        all()
            .commits_max(50)
            .seed(2)
            .crash_everywhere(|harness| harness.start(blinks, ()).run_until_complete())
    });
    assert_says(&says, &["something still happens after 50 commits"]);
}

/// What a step waits for that is real does not come in virtual time. The report says so.
#[test]
fn a_step_that_waits_for_something_real_is_told_apart() {
    let harness = all();
    harness.mock("slow", Mock::hangs());
    let works = harness.start(works, ());
    let says = report(|| works.assert_status(Status::Completed));
    assert_says(&says, &["1 attempts are under way", "Mock it."]);
}

#[test]
fn an_attempt_that_never_ends_is_told() {
    let harness = all();
    harness.mock("slow", Mock::hangs());
    harness.start(works, ());
    let says = report(|| harness.run_until_idle());
    assert_says(&says, &["an attempt does not end by itself", "`works-1`"]);
}

#[test]
fn what_blocks_a_thread_is_waited_for() {
    let harness = all();
    let blocks = harness.start(blocks, ());
    assert_eq!(blocks.result().unwrap().unwrap(), 2_000_001_000_000);
}

#[test]
fn the_seed_decides() {
    let drawn = |harness: Harness| harness.start(draws, ()).run_until_complete().unwrap();
    assert_eq!(drawn(all().seed(7)), drawn(all().seed(7)));
    assert_ne!(drawn(all().seed(7)), drawn(all().seed(8)));
    let harness = all();
    harness.start(draws, ());
    let says = report(|| harness.seed(8));
    assert_says(&says, &["the seed is set before anything is started"]);
}

#[test]
fn an_async_test_is_told_to_be_a_plain_one() {
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let says = report(|| executor.block_on(async { drop(all().start(draws, ())) }));
    assert_says(&says, &["use it in a plain `#[test]`"]);
}

#[test]
fn the_beginning_is_the_same_every_time() {
    let beginning: SystemTime = all().now();
    assert_eq!(beginning, UNIX_EPOCH + Duration::from_secs(1_893_456_000));
}
