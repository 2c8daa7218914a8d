//! Cancellation is cooperative: what waits ends, what is shielded goes on, and replay gives the same.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Bounds, Ctx, Loop, Message, Workflow, branch, ok};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<String>, accepts [News], |$ctx, _| $body);
    };
}

/// Cancels an instance a minute after its start, in every mode, and tells how and in which state it ended, and what its
/// code had to say before.
fn cancelled<W: Workflow<Input = (), Output = Vec<String>>>() -> (End<Vec<String>>, Status, Vec<String>) {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        rig.cancel_after("i", Duration::from_secs(60), "enough");
        rig.cancel_after("i", Duration::from_secs(60), "and once more");
        rig.cancel_after("i", Duration::from_secs(61), "and again");
        let end = rig.run("i").unwrap();
        assert!(rig.replay("i").unwrap().is_some(), "it replays to its end");
        let status = rig.state("i").status;
        assert_eq!(rig.state("i").alarm_at_ms, None);
        rig.cancel("i", "after the end");
        assert_eq!(rig.run("i").unwrap(), end, "after the end it is harmless");
        (end, status, rig.published("i", "seen").unwrap_or_default())
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
    for (end, status, _) in [
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
    ctx.set("seen", &seen)?;
    ok(seen)
});

#[test]
fn code_may_clean_up_under_a_shield() {
    let (end, status, seen) = cancelled::<CleansUp>();
    assert_eq!(seen, ["Cancelled true", "Cancelled", "released", "in a branch"]);
    assert_ended_by_cancellation(&end, status);
}

/// Cancelled, for the reason that was given, and not with what the code made of it.
fn assert_ended_by_cancellation(end: &End<Vec<String>>, status: Status) {
    let End::Failed(failure) = end else { panic!("{end:?}") };
    let found = (failure.kind, failure.message.as_str(), status);
    assert_eq!(found, (FailureKind::Cancelled, "enough", Status::Cancelled));
}

workflow!(Swallows, |ctx| {
    let _ = ctx.sleep("long", "30d").await;
    ok(vec!["as if nothing had happened".to_owned()])
});

workflow!(SwallowsInABranch, |ctx| {
    let sleep = branch("sleep", |ctx: Ctx<Self>| async move {
        ok(ctx.sleep("long", "30d").await.is_ok())
    });
    let step = branch("step", |ctx: Ctx<Self>| async move {
        ok(ctx.shield().step("step", || async { ok(true) }).await?)
    });
    ctx.join("both", (sleep, step)).await?;
    ok(vec!["as if nothing had happened".to_owned()])
});

workflow!(Asks, |ctx| {
    for number in 0.. {
        if ctx.is_cancelled() {
            break;
        }
        ctx.shield().sleep(&format!("nap {number}"), "7s").await?;
    }
    ok(vec!["it asked, and stopped".to_owned()])
});

/// BEHAVIOUR 45, FAULTS 56. Found in review: code that took no notice of its cancellation completed, and whoever had
/// cancelled it found a result.
#[test]
fn a_cancellation_that_the_code_heard_of_never_turns_into_success() {
    for (end, status, _) in [
        cancelled::<Swallows>(),
        cancelled::<SwallowsInABranch>(),
        cancelled::<Asks>(),
    ] {
        assert_ended_by_cancellation(&end, status);
    }
}

workflow!(Unreached, |ctx| {
    ctx.shield().sleep("must be", "1h").await?;
    ok(vec!["done".to_owned()])
});

/// One that has all that it waited for completes: the cancellation never reached it.
#[test]
fn a_cancellation_that_the_code_never_heard_of_changes_nothing() {
    let (end, status, _) = cancelled::<Unreached>();
    assert_eq!(
        (end, status),
        (End::Completed(vec!["done".to_owned()]), Status::Completed)
    );
}

workflow!(Shielded, |ctx| {
    ctx.shield().sleep("must be", "1h").await?;
    let seen = vec![ctx.is_cancelled().to_string()];
    ctx.sleep("need not be", "1h").await?;
    ok(seen)
});

#[test]
fn what_is_shielded_goes_on() {
    let (end, status, _) = cancelled::<Shielded>();
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
    ctx.set("seen", &seen)?;
    ok(seen)
});

/// Found by thinking about `select!`, which draws one of several branches that are ready: a cancellation made all of
/// them ready at once, and every replay drew another.
#[test]
fn operations_end_one_at_a_time() {
    let (_, _, seen) = cancelled::<Selecting>();
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|path| path.starts_with("one")), "{seen:?}");
}

workflow!(Stepping, |ctx| {
    ctx.step("long", || async { ok(()) }).await?;
    ok(vec![])
});

#[test]
fn running_steps_get_the_cancellation() {
    let mut rig = Rig::<Stepping>::new(Plan::Live, 4).spread(u64::MAX, Duration::from_millis(1));
    rig.start("i", &());
    rig.cancel_after("i", Duration::from_secs(1), "enough");
    assert!(matches!(rig.run("i").unwrap(), End::Failed(_)));
    assert_eq!(rig.cancelled_attempts(), 1);
    assert_eq!(rig.state("i").status, Status::Cancelled);
}

static CHARGED: AtomicU32 = AtomicU32::new(0);

workflow!(Charges, |ctx| {
    ctx.sleep("nap", "1s").await?;
    let charge = || async {
        CHARGED.fetch_add(1, Ordering::Relaxed);
        ok(())
    };
    ctx.step("charge", charge).await?;
    ok(vec![])
});

/// BEHAVIOUR 33 and 45. Found in review: an instance that was loaded with a cancellation in its inbox began its step
/// again, and cancelled it then.
#[test]
fn nothing_begins_when_a_cancellation_is_there() {
    let mut rig = Rig::<Charges>::new(Plan::CrashBefore(3), 1).spread(1_000, Duration::from_secs(1));
    rig.start("i", &());
    rig.cancel_after("i", Duration::from_secs(2), "enough");
    assert!(matches!(rig.run("i").unwrap(), End::Failed(_)));
    assert_eq!(rig.commits(), 5, "the one that took the cancellation was lost");
    assert_eq!(CHARGED.load(Ordering::Relaxed), 1, "once, before the cancellation");
}

workflow!(Stubborn, |ctx| {
    loop {
        if let Ok(Some(news)) = ctx.receive::<News>().within("1h").await {
            return ok(vec![news.0.to_string()]);
        }
    }
});

/// Found in review: each wait that such code begins after its cancellation ends at once, and so it began one after the
/// other for ever, and took a thread along. It ends when it has asked for more than it may.
#[test]
fn code_that_goes_on_after_every_error_ends_all_the_same() {
    let bounds = Bounds {
        scope_entries_max: 1_000,
        ..Bounds::default()
    };
    let mut rig = Rig::<Stubborn>::new(Plan::Live, 1).bounds(bounds);
    rig.start("i", &());
    rig.cancel_after("i", Duration::from_secs(60), "enough");
    let end = rig.run("i").unwrap();
    assert!(matches!(end, End::Failed(_)), "{end:?}");
    assert_eq!(rig.state("i").status, Status::Cancelled);
}
