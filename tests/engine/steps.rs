//! What a step owes its user when it fails, hangs, is large, or dies with the process.

use std::sync::atomic::{AtomicU32, Ordering};

use everstep::storage::record::{Entry, EntryKind, FailureKind};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{
    Attempt, Bounds, Consequence, Ctx, Loop, Message, Result, Workflow, WorkflowError, critical, ensure, ok,
};
use serde::{Deserialize, Serialize};

/// A workflow without input from a name, an output type and a body.
macro_rules! workflow {
    ($name:ident, $output:ty, |$ctx:ident| $body:expr) => {
        define!($name: () => $output, accepts [], |$ctx, _| $body);
    };
}

fn run<W: Workflow<Input = ()>>() -> End<W::Output>
where
    W::Output: PartialEq + std::fmt::Debug,
{
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        rig.run("i").unwrap()
    })
}

workflow!(Choosy, (FailureKind, u32, u32), |ctx| {
    let work =
        |attempt: Attempt| async move { Err::<(), _>(WorkflowError::msg(format!("error {}", attempt.number()))) };
    let refused = ctx
        .step("refused", work)
        .retry_if(|failure| failure.message == "error 1");
    let refused = refused.await.unwrap_err();
    let tried = ctx.step("tried", work).retry_if(|_| true).await.unwrap_err();
    ok((refused.kind, refused.attempts, tried.attempts))
});

/// BEHAVIOUR 3: a predicate says which failures are worth another attempt.
#[test]
fn a_predicate_says_what_is_worth_another_attempt() {
    assert_eq!(run::<Choosy>(), End::Completed((FailureKind::Critical, 2, 3)));
}

workflow!(Beating, (u32, Option<u32>), |ctx| {
    let copy = |attempt: Attempt| async move {
        let done: Option<u32> = attempt.progress()?;
        if attempt.number() == 1 {
            attempt.heartbeat(&41)?;
            attempt.heartbeat(&42)?;
            // And is never heard of again.
            std::future::pending::<()>().await;
        }
        ok((attempt.number(), done))
    };
    ok(ctx.step("copy", copy).heartbeat("10s").await?)
});

/// BEHAVIOUR 11: a missed heartbeat fails the attempt, and the next one goes on from what was said last.
#[test]
fn the_next_attempt_finds_what_the_last_heartbeat_said() {
    assert_eq!(run::<Beating>(), End::Completed((2, Some(42))));
}

#[everstep::activity(heartbeat = "10s", retries = 1)]
async fn silent(attempt: Attempt) -> Result<u32> {
    if attempt.number() == 1 {
        std::future::pending::<()>().await;
    }
    ok(attempt.number())
}

workflow!(Listening, u32, |ctx| ok(ctx.run(silent, ()).await?));

/// BEHAVIOUR 11: so is the silence of an activity, as its attribute says.
#[test]
fn the_silence_of_an_activity_fails_its_attempt() {
    assert_eq!(run::<Listening>(), End::Completed(2));
}

workflow!(Blocking, (bool, u32), |ctx| {
    let here = std::thread::current().id();
    let elsewhere = ctx
        .step_blocking("where", move || ok(std::thread::current().id() != here))
        .await?;
    let number = |attempt: Attempt| {
        assert!(attempt.number() > 1, "the first one panics");
        ok(attempt.number())
    };
    ok((elsewhere, ctx.step_blocking("number", number).await?))
});

/// FAULTS 31, 35: blocking work runs on a thread of its own, and a panic there is a failed attempt.
#[test]
fn blocking_work_is_a_step_like_any_other() {
    assert_eq!(run::<Blocking>(), End::Completed((true, 2)));
}

workflow!(Careless, (), |ctx| {
    drop(ctx.step("forgotten", || async { ok(1) }));
    ctx.step("done", || async { ok(()) }).await?;
    ok(())
});

workflow!(Refused, (), |ctx| {
    let bad = ctx.step("bad", || async { ok(1) }).timeout("5 parsecs").await;
    let inside = ctx.clone();
    let elsewhere = ctx.step("outer", move || {
        let inner = inside.step("inner", || async { ok(1) });
        async move { ok(inner.await?) }
    });
    ensure!(bad.is_err() && elsewhere.attempts(1).await.is_err(), "both are refused");
    let ready = std::future::ready(());
    let never_polled = ctx.step("beside", || async { ok(1) });
    futures_util::future::select(ready, never_polled).await;
    ok(())
});

/// Found in review: a step that was awaited, and refused for an option or because it was awaited elsewhere, was reported
/// as one that nobody had ever awaited.
#[test]
fn a_step_that_was_awaited_is_not_reported() {
    let mut rig = Rig::<Refused>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Completed(()));
    assert_eq!(rig.unawaited(), ["beside"], "only this was never polled");
}

workflow!(CarelessForLong, (), |ctx| {
    let many = |ctx: Ctx<Self>, round: u32| async move {
        drop(ctx.step("each time", || async { ok(1) }));
        drop(ctx.step(&format!("in round {round}"), || async { ok(1) }));
        ok(if round == 999 {
            Loop::Break(())
        } else {
            Loop::Continue(round + 1)
        })
    };
    ctx.repeat("rounds", 0, many).await?;
    if ctx.run_number() == 1 {
        return ctx.continue_as_new(());
    }
    ok(())
});

/// Found in review: names of such steps were gathered without bound, and those of a run that went on were never told.
#[test]
fn each_run_tells_of_a_few_steps_that_were_never_awaited() {
    let mut rig = Rig::<CarelessForLong>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.run("i").unwrap();
    let times = rig.unawaited().iter().filter(|name| *name == "each time").count();
    assert_eq!((times, rig.unawaited().len()), (2, 64), "of each run, a few");
}

/// BEHAVIOUR 8: a step that was never awaited is reported when the function returns, once.
#[test]
fn a_step_that_was_never_awaited_is_reported() {
    for plan in [
        Plan::Live,
        Plan::Evict,
        Plan::CrashBefore(1),
        Plan::CrashAfter(1),
        Plan::CrashBefore(2),
    ] {
        let mut rig = Rig::<Careless>::new(plan, 1);
        rig.start("i", &());
        rig.run("i").unwrap();
        assert_eq!(rig.unawaited(), ["forgotten"], "{plan:?}");
    }
}

workflow!(Failing, (), |ctx| {
    let fails = || async { Err::<(), _>(WorkflowError::msg("no")) };
    ctx.step("caught", fails).attempts(1).await.unwrap_err();
    ctx.sleep("a while", "1h").await?;
    ok(ctx.step("fails", fails).attempts(2).await?)
});

/// BEHAVIOUR 12: an observer hears of each failure that is durable exactly once, and of none again in replay.
#[test]
fn an_observer_hears_of_each_failure_once() {
    let script = |rig: &mut Rig<Failing>| {
        rig.start("i", &());
        rig.run("i").unwrap();
        let heard = rig.incidents().iter().map(|incident| {
            let consequence = match incident.consequence {
                Consequence::Retry { .. } => "retry",
                Consequence::StepFailed => "step",
                Consequence::WorkflowFailed => "workflow",
                _ => "?",
            };
            format!("{consequence} {}", incident.failure.path)
        });
        heard.collect::<Vec<_>>()
    };
    let all = ["step caught", "retry fails", "step fails", "workflow fails"];
    assert_eq!(script(&mut Rig::new(Plan::Live, 1)), all);
    assert_eq!(script(&mut Rig::new(Plan::Evict, 1)), all);
    for commit in 1..=6 {
        assert_eq!(script(&mut Rig::new(Plan::CrashBefore(commit), 1)), all, "{commit}");
    }
}

workflow!(Patient, u32, |ctx| {
    let first = |attempt: Attempt| async move {
        everstep::ensure!(attempt.number() > 1, "once");
        ok(attempt.number())
    };
    let second = |attempt: Attempt| async move { ok(attempt.number()) };
    let (first, second) = futures_util::join!(
        ctx.step("backing off", first).delay("1h").attempts(9),
        ctx.step("running", second).attempts(9),
    );
    ok(first? * 10 + second?)
});

/// BEHAVIOUR 3, FAULTS 2 and 40: an attempt that ended with the process counts; one that was not due yet does not.
#[test]
fn a_crash_is_charged_to_what_was_running() {
    // Of two attempts that are seen to end one after the other, the second is running when the process dies.
    let numbers = |plan| {
        let mut rig = Rig::<Patient>::new(plan, 1).charged();
        rig.start("i", &());
        match rig.run("i").unwrap() {
            End::Completed(numbers) => (numbers / 10, numbers % 10),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(numbers(Plan::Live), (2, 1));
    let mut charged = Vec::new();
    for commit in 1..=3 {
        for plan in [Plan::CrashBefore(commit), Plan::CrashAfter(commit)] {
            charged.push(numbers(plan));
        }
    }
    assert!(charged.contains(&(2, 2)), "the running one is charged: {charged:?}");
    assert!(charged.iter().all(|(first, _)| *first <= 3), "{charged:?}");
}

workflow!(Picky, u32, |ctx| {
    let work = |attempt: Attempt| async move { ok(attempt.number()) };
    let worth = |failure: &everstep::storage::record::Failure| failure.message.contains("unavailable");
    ok(ctx.step("pay", work).retry_if(worth).await?)
});

/// Found in review: a predicate that names the errors that pass was asked about the death of the process.
#[test]
fn a_predicate_is_not_asked_about_a_crash() {
    for commit in 1..=2 {
        for plan in [Plan::CrashBefore(commit), Plan::CrashAfter(commit)] {
            let mut rig = Rig::<Picky>::new(plan, 1).charged();
            rig.start("i", &());
            let end = rig.run("i").unwrap();
            assert!(matches!(end, End::Completed(_)), "{plan:?}: {end:?}");
        }
    }
}

static READS: AtomicU32 = AtomicU32::new(0);

workflow!(Slow, u64, |ctx| {
    let work = |attempt: Attempt| async move {
        everstep::ensure!(attempt.number() > 1, "busy");
        ok(())
    };
    let before = ctx.now();
    ctx.step("s", work).delay("10m").await?;
    ok(ctx.now().duration_since(before)?.as_secs())
});

/// BEHAVIOUR 3. Found in review: a minute was the longest wait, whatever had been asked for.
#[test]
fn a_delay_of_ten_minutes_is_not_one_of_a_minute() {
    let End::Completed(waited) = run::<Slow>() else {
        panic!("it completes")
    };
    assert!((300..=600).contains(&waited), "{waited} s");
}

workflow!(Cheap, u32, |ctx| {
    let mut sum = 0;
    for name in ["a", "b", "c"] {
        let read = || async {
            READS.fetch_add(1, Ordering::Relaxed);
            ok(1)
        };
        sum += ctx.step(name, read).ephemeral().await?;
    }
    ok(ctx.step("charge", move || async move { ok(sum) }).await?)
});

workflow!(CheapFailure, bool, |ctx| {
    let slow = ctx.step("slow", || async { ok(()) });
    let quick = async {
        let no = || async { Err::<(), _>(critical(WorkflowError::msg("no"))) };
        ctx.step("quick", no).ephemeral().await.is_err()
    };
    ok(futures_util::join!(slow, quick).1)
});

/// BEHAVIOUR 12. Found in review: a failure that came without a commit of its own was never told.
#[test]
fn an_observer_hears_of_the_failure_of_an_ephemeral_step() {
    for seed in 0..4 {
        let mut rig = Rig::<CheapFailure>::new(Plan::Live, seed);
        rig.start("i", &());
        assert_eq!(rig.run("i").unwrap(), End::Completed(true));
        assert_eq!(rig.incidents().len(), 1, "seed {seed}");
    }
}

static TOLD: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

define!(Binding: bool => (), accepts [News], |ctx, waits| {
    let tell = || async {
        TOLD.fetch_add(1, Ordering::Relaxed);
        ok(())
    };
    if waits {
        ctx.receive::<News>().await?;
        ctx.step("of a message", tell).ephemeral().await?;
    } else {
        let promise = ctx.promise::<u32>("promise")?;
        ctx.step("of a promise", tell).ephemeral().await?;
        drop(promise);
    }
    ok(())
});

/// BEHAVIOUR 10. Found in review: an ephemeral step began before the promise that it told others of was durable, and a
/// crash then made the token unknown; or before a message was taken that another wait might have taken then.
#[test]
fn an_ephemeral_step_waits_for_what_is_not_ephemeral() {
    for waits in [false, true] {
        TOLD.store(0, Ordering::Relaxed);
        let mut rig = Rig::<Binding>::new(Plan::CrashBefore(1), 1);
        rig.start("i", &waits);
        rig.send("i", &News(1));
        assert_eq!(rig.run("i").unwrap(), End::Completed(()));
        assert_eq!(TOLD.load(Ordering::Relaxed), 1, "nothing had begun before the crash");
    }
}

/// BEHAVIOUR 10: ephemeral results are stored with the next commit; what follows from them waits for that.
#[test]
fn ephemeral_steps_cost_no_commit_of_their_own() {
    assert_eq!(run::<Cheap>(), End::Completed(3));
    let mut rig = Rig::<Cheap>::new(Plan::Live, 1);
    rig.start("i", &());
    READS.store(0, Ordering::Relaxed);
    rig.run("i").unwrap();
    assert_eq!(rig.commits(), 3, "what was read, the charge, the end");
    let mut rig = Rig::<Cheap>::new(Plan::CrashBefore(2), 1);
    rig.start("i", &());
    rig.run("i").unwrap();
    let before = rig.at_crash();
    assert!(
        before.contains_key("c") && !before.contains_key("charge"),
        "the charge had begun when the readings were durable: {before:?}"
    );
}

workflow!(Large, String, |ctx| {
    let failure = ctx
        .step("large", || async { ok("x".repeat(8 << 20)) })
        .await
        .unwrap_err();
    ok(format!(
        "{:?} {} {}",
        failure.kind,
        failure.attempts,
        failure.code.clone().unwrap_or_default()
    ))
});

/// FAULTS 39: a result that is too large fails the step, without another attempt and before it is written.
#[test]
fn a_result_that_is_too_large_fails_the_step() {
    assert_eq!(run::<Large>(), End::Completed("Limit 1 ES0301".into()));
}

workflow!(Endless, (), |ctx| {
    for number in 0_u32.. {
        ctx.step(&format!("{number}"), move || async move { ok(number) })
            .await?;
    }
    ok(())
});

/// FAULTS 64: a history warns, and fails its instance before it exceeds its bound; it can be read.
#[test]
fn a_history_that_is_too_long_fails_its_instance() {
    let bounds = Bounds {
        history_entries_warn: 5,
        history_entries_max: 9,
        ..Bounds::default()
    };
    let (failure, entries) = in_every_mode::<Endless, _>(1, |rig| {
        let mut bounded = std::mem::replace(rig, Rig::new(Plan::Live, 1)).bounds(bounds);
        bounded.start("i", &());
        let End::Failed(failure) = bounded.run("i").unwrap() else {
            panic!("it fails")
        };
        assert!(bounded.warnings().iter().any(|warning| warning.contains("6 entries")));
        let found = (failure.code.clone(), bounded.history("i").len());
        *rig = bounded;
        found
    });
    assert_eq!((failure.as_deref(), entries), (Some("ES0302"), 9));
}

/// FAULTS 43, 68: so does a scope with too many operations.
#[test]
fn a_scope_that_is_too_large_fails_its_instance() {
    let bounds = Bounds {
        scope_entries_max: 4,
        ..Bounds::default()
    };
    in_every_mode::<Endless, _>(1, |rig| {
        let mut bounded = std::mem::replace(rig, Rig::new(Plan::Live, 1)).bounds(bounds);
        bounded.start("i", &());
        let End::Failed(failure) = bounded.run("i").unwrap() else {
            panic!("it fails")
        };
        assert_eq!(failure.code.as_deref(), Some("ES0304"));
        let history = bounded.history("i");
        assert_eq!(history.len(), 4);
        let is_done = |entry: &Entry| matches!(entry.kind, EntryKind::Step(Some(_)));
        assert!(history.values().all(is_done));
        *rig = bounded;
    });
}

workflow!(Named, Vec<String>, |ctx| {
    let key = |attempt: Attempt| async move { ok(attempt.idempotency_key().to_owned()) };
    let slash = ctx.step("a/b", key).await?;
    let inside = everstep::branch("a", |ctx: Ctx<Self>| async move { ok(ctx.step("b", key).await?) });
    let other = everstep::branch("b", |_: Ctx<Self>| async move { ok(String::new()) });
    let (inside, _) = ctx.join("a", (inside, other)).await?;
    ok(vec![slash, inside])
});

/// BEHAVIOUR 13 and 52: keys name the instance, the run and the place, and free text in names makes no two alike.
#[test]
fn idempotency_keys_tell_places_apart() {
    let End::Completed(keys) = run::<Named>() else {
        panic!("it completes")
    };
    let readable: Vec<_> = keys.iter().map(|key| key.split('#').next().unwrap()).collect();
    assert_eq!(readable, ["i/1/a\\/b", "i/1/a/a/b"]);
}

/// Found in review: an instance that was deleted and started again under its id had the keys of the one before, and a
/// bank would have taken its first payment for one that was made already.
#[test]
fn idempotency_keys_tell_instances_of_one_id_apart() {
    // What a start draws, the rig takes from its seed.
    let keys = |seed| {
        let mut rig = Rig::<Named>::new(Plan::Live, seed);
        rig.start("i", &());
        match rig.run("i").unwrap() {
            End::Completed(keys) => keys,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(keys(1), keys(1));
    assert!(keys(1).iter().zip(keys(2)).all(|(one, two)| *one != two));
}
