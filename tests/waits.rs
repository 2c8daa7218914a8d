//! Instances that wait: what is recorded of it, how it looks from outside, and that restarts neither shorten nor
//! prolong it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::testing::harness::{End, Harness, Plan, in_every_mode};
use everstep::{Attempt, Backoff, Ctx, Result, Workflow, ok};

const HOUR: Duration = Duration::from_secs(3_600);

struct Flaky;

impl Workflow for Flaky {
    const NAME: &'static str = "flaky";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let flaky = |attempt: Attempt| async move {
            everstep::ensure!(attempt.number() == 3, "attempt {} fails", attempt.number());
            ok(attempt.number())
        };
        let step = ctx.step("flaky", flaky).delay("40s").backoff(Backoff::Fixed);
        Ok(step.await?)
    }
}

#[test]
fn a_step_that_backs_off_keeps_its_attempts_and_its_time() {
    let waited = in_every_mode::<Flaky, _>(1, |harness| {
        let begin = harness.now_ms();
        harness.start("i", &());
        assert_eq!(harness.run_for("i", Duration::from_secs(1)).unwrap(), End::Waiting);
        let state = harness.state("i");
        assert_eq!(state.status, Status::BackingOff);
        assert!(state.alarm_at_ms.is_some_and(|at| at > harness.now_ms()));
        assert_eq!(harness.attempts_len("i"), 1);
        assert_eq!(harness.run("i").unwrap(), End::Completed(3));
        harness.now_ms() - begin
    });
    assert!((40_000..=80_000).contains(&waited), "two waits with jitter: {waited}");
}

struct Naps;

impl Workflow for Naps {
    const NAME: &'static str = "naps";
    type Input = Vec<u64>;
    type Output = u64;

    async fn run(ctx: Ctx<Self>, naps: Vec<u64>) -> Result<u64> {
        let begin = ctx.now();
        for (number, secs) in naps.into_iter().enumerate() {
            ctx.sleep(&format!("nap {number}"), Duration::from_secs(secs)).await?;
        }
        ok(ctx.now().duration_since(begin)?.as_secs())
    }
}

#[test]
fn a_sleep_of_no_time_is_recorded_with_one_commit_and_another_with_two() {
    let commits = |naps: Vec<u64>| {
        let mut harness = Harness::<Naps>::new(Plan::Live, 1).audited();
        harness.start("i", &naps);
        assert_eq!(harness.run("i").unwrap(), End::Completed(naps.iter().sum()));
        assert_eq!(harness.history("i").len(), naps.len());
        harness.commits() - 1
    };
    assert_eq!(commits(vec![0]), 1);
    assert_eq!(commits(vec![5]), 2);
}

/// Found by reading: a sleep that was taken up again was recorded again, so every restart wrote once for each sleeper.
#[test]
fn taking_a_sleep_up_again_writes_nothing() {
    let mut harness = Harness::<Naps>::new(Plan::Live, 1);
    harness.start("i", &vec![7_200]);
    for _ in 0..3 {
        assert_eq!(harness.run_for("i", HOUR / 2).unwrap(), End::Waiting);
        assert_eq!(harness.state("i").status, Status::Sleeping);
        assert_eq!(harness.commits(), 1);
    }
    assert_eq!(harness.run("i").unwrap(), End::Completed(7_200));
}
