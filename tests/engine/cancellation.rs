//! Cancellation is cooperative: what waits ends, what is shielded goes on, and replay gives the same.

use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::testing::harness::{End, Harness, Plan, in_every_mode};
use everstep::{Ctx, Loop, Message, Workflow, branch, ok};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<String>, accepts [News], |$ctx, _| $body);
    };
}

/// Cancels an instance a minute after its start, in every mode, and tells how and in which state it ended.
fn cancelled<W: Workflow<Input = (), Output = Vec<String>>>() -> (End<Vec<String>>, Status) {
    in_every_mode::<W, _>(1, |harness| {
        harness.start("i", &());
        harness.cancel_after("i", Duration::from_secs(60), "enough");
        harness.cancel_after("i", Duration::from_secs(60), "and once more");
        harness.cancel_after("i", Duration::from_secs(61), "and again");
        let end = harness.run("i").unwrap();
        assert_eq!(harness.replay("i").unwrap().as_ref(), Some(&end));
        let status = harness.state("i").status;
        assert_eq!(harness.state("i").alarm_at_ms, None);
        harness.cancel("i", "after the end");
        assert_eq!(harness.run("i").unwrap(), end, "after the end it is harmless");
        (end, status)
    })
}

workflow!(Sleeping, |ctx| {
    ctx.step("s", || async { ok(()) }).await?;
    ctx.sleep("long", "30d").await?;
    ok(vec![])
});

workflow!(Waiting, |ctx| {
    ctx.receive::<News>().await?;
    ok(vec![])
});

workflow!(Joined, |ctx| {
    let sleep = |ctx: Ctx<Joined>| async move { ok(ctx.sleep("long", "30d").await?) };
    ctx.join("both", (branch("one", sleep), branch("two", sleep))).await?;
    ok(vec![])
});

workflow!(Looping, |ctx| {
    let body = |ctx: Ctx<Looping>, (): ()| async move {
        ctx.sleep("short", "7s").await?;
        ok(Loop::<(), ()>::Continue(()))
    };
    ctx.repeat("for ever", (), body)
        .commit_interval(3)
        .history_keep(1)
        .await?;
    ok(vec![])
});

workflow!(BackingOff, |ctx| {
    let fails = || async { Err::<(), _>(everstep::WorkflowError::msg("no")) };
    ctx.step("fails", fails).attempts(99).delay("50s").await?;
    ok(vec![])
});

#[test]
fn whatever_it_waits_for_ends() {
    for (end, status) in [
        cancelled::<Sleeping>(),
        cancelled::<Waiting>(),
        cancelled::<Joined>(),
        cancelled::<Looping>(),
        cancelled::<BackingOff>(),
    ] {
        let End::Failed(failure) = end else {
            panic!("{end:?}");
        };
        assert!(failure.to_string().contains("enough"), "{failure}");
        assert_eq!(status, Status::Cancelled, "{failure}");
    }
}

workflow!(CleansUp, |ctx| {
    let mut seen = Vec::new();
    let failure = ctx.sleep("long", "30d").await.unwrap_err();
    seen.push(format!("{:?} {}", failure.kind, ctx.is_cancelled()));
    let refused = ctx.step("unshielded", || async { ok(()) }).await.unwrap_err();
    seen.push(format!("{:?}", refused.kind));
    let shield = ctx.shield();
    shield.sleep("calm down", "1h").await?;
    seen.push(shield.step("release", || async { ok("released".to_owned()) }).await?);
    let branches = vec![branch("b", |ctx: Ctx<CleansUp>| async move {
        ok(ctx.step("s", || async { ok("in a branch".to_owned()) }).await?)
    })];
    seen.extend(shield.join("more", branches).await?);
    ok(seen)
});

#[test]
fn code_may_clean_up_under_a_shield() {
    let (end, status) = cancelled::<CleansUp>();
    let seen = ["Cancelled true", "Cancelled", "released", "in a branch"];
    assert_eq!(end, End::Completed(seen.map(str::to_owned).to_vec()));
    assert_eq!(status, Status::Completed, "it came to its end all the same");
}

workflow!(Shielded, |ctx| {
    ctx.shield().sleep("must be", "1h").await?;
    let seen = vec![ctx.is_cancelled().to_string()];
    ctx.sleep("need not be", "1h").await?;
    ok(seen)
});

#[test]
fn what_is_shielded_goes_on() {
    let (end, status) = cancelled::<Shielded>();
    let End::Failed(failure) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (failure.kind, failure.path.as_str()),
        (FailureKind::Cancelled, "need not be")
    );
    assert_eq!(status, Status::Cancelled);
}

workflow!(Selecting, |ctx| {
    let mut seen = Vec::new();
    for turn in 0..8 {
        let (one, two) = (format!("one {turn}"), format!("two {turn}"));
        let (mut one, mut two) = (ctx.sleep(&one, "30d").fuse(), ctx.sleep(&two, "30d").fuse());
        let first = futures_util::select! { one = one => one, two = two => two };
        seen.push(first.unwrap_err().path.clone());
    }
    ok(seen)
});

/// Found by thinking about `select!`, which draws one of several branches that are ready: a cancellation made all of
/// them ready at once, and every replay drew another.
#[test]
fn operations_end_one_at_a_time() {
    let (end, _) = cancelled::<Selecting>();
    let End::Completed(seen) = end else {
        panic!("{end:?}");
    };
    assert!(seen.iter().all(|path| path.starts_with("one")), "{seen:?}");
}

workflow!(Stepping, |ctx| {
    ctx.step("long", || async { ok(()) }).await?;
    ok(vec![])
});

#[test]
fn running_steps_get_the_cancellation() {
    let mut harness = Harness::<Stepping>::new(Plan::Live, 4).spread(u64::MAX, Duration::from_millis(1));
    harness.start("i", &());
    harness.cancel_after("i", Duration::from_secs(1), "enough");
    assert!(matches!(harness.run("i").unwrap(), End::Failed(_)));
    assert_eq!(harness.cancelled_attempts(), 1);
    assert_eq!(harness.state("i").status, Status::Cancelled);
}
