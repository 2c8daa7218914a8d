//! Histories from production against today's code.

use std::fs;

use everstep::testing::{Harness, replay_check};
use everstep::{Builder, Ctx, Result, Runtime, Workflow, ok};

use crate::{assert_says, report};

/// Versions of the code of one workflow.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = u32;

            async fn run($ctx: Ctx<Self>, (): ()) -> Result<u32> {
                $body
            }
        }
    };
}

code!(Original, |ctx| {
    let price = ctx.step("price", || async { ok(20) }).await?;
    ctx.sleep("wait", "1d").await?;
    ok(price)
});

code!(Renamed, |ctx| {
    let price = ctx.step("quote", || async { ok(20) }).await?;
    ctx.sleep("wait", "1d").await?;
    ok(price)
});

code!(OtherKind, |ctx| {
    ctx.sleep("price", "1d").await?;
    ok(0)
});

code!(Shorter, |ctx| ok(ctx.step("price", || async { ok(20) }).await?));

code!(Patched, |ctx| {
    let price = ctx.step("price", || async { ok(20) }).await?;
    ctx.sleep("wait", "1d").await?;
    if ctx.patched("receipt")? {
        ctx.step("receipt", || async { ok(()) }).await?;
    }
    ok(price)
});

fn app<W: Workflow>(code: W) -> Builder {
    Runtime::builder().workflow(code)
}

/// A directory with the history of an instance that sleeps, and of one that has ended.
fn histories() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let harness = Harness::new(app(Original));
    let ended = harness.start(Original, ());
    ended.run_until_complete().unwrap();
    let sleeps = harness.start(Original, ());
    for (instance, extension) in [(ended, "ndjson"), (sleeps, "jsonl")] {
        let file = directory.path().join(format!("{}.{extension}", instance.id()));
        fs::write(file, instance.export()).unwrap();
    }
    fs::write(directory.path().join("README.md"), "not a history").unwrap();
    directory
}

#[test]
fn code_that_fits_passes() {
    let histories = histories();
    assert_eq!(replay_check(app(Original), histories.path()), 2);
    assert_eq!(replay_check(app(Patched), histories.path()), 2);
    assert_eq!(
        replay_check(app(Original), histories.path().join("deployed-1.ndjson")),
        1
    );
}

#[test]
fn code_that_does_not_fit_is_told_with_place_and_line() {
    let histories = histories();
    let says = report(|| replay_check(app(Renamed), histories.path()));
    assert_says(
        &says,
        &[
            "deployed-1.ndjson: today's code does not fit `deployed-1`",
            "deployed-2.jsonl: today's code does not fit `deployed-2`",
            "history has a step at `price`, the code asked for a step `quote` at tests/testing/recorded.rs:",
            "> step `price`",
            "guard the change with `patched`",
        ],
    );
    let says = report(|| replay_check(app(OtherKind), histories.path()));
    assert_says(
        &says,
        &["history has a step at `price`, the code asked for a sleep at tests/testing/recorded.rs:"],
    );
    let says = report(|| replay_check(app(Shorter), histories.path()));
    assert_says(&says, &["history has a sleep at `wait`, the code came to its end"]);
}

#[test]
fn what_can_not_be_checked_is_told() {
    let histories = histories();
    let says = report(|| replay_check(Runtime::builder(), histories.path()));
    assert_says(&says, &["no workflow `deployed` is registered"]);
    let says = report(|| replay_check(app(Original), histories.path().join("README.md")));
    assert_says(&says, &["README.md is not a whole export"]);
    let says = report(|| replay_check(app(Original), histories.path().join("gone.ndjson")));
    assert_says(&says, &["gone.ndjson can't be read"]);
    let empty = tempfile::tempdir().unwrap();
    assert_says(
        &report(|| replay_check(app(Original), empty.path())),
        &["holds no history"],
    );
}
