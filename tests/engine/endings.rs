//! How a workflow ends: failures as values, new runs, quarantine, deadlines, and the next run of one that goes on.

use std::sync::Mutex;
use std::time::Duration;

use everstep::storage::record::{EntryKind, Failure, FailureKind, Status};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Attempt, Backoff, Ctx, Message, Policy, Result, Strategy, Workflow, WorkflowError};
use everstep::{branch, critical, ok, rollback};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

/// What was undone, by workflow: once for each run that did it, however often a crash repeats a call.
static CALLS: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

fn take_calls(workflow: &str) -> Vec<String> {
    let mut calls = CALLS.lock().unwrap();
    let mut of: Vec<String> = calls
        .extract_if(.., |(of, _)| *of == workflow)
        .map(|(_, what)| what)
        .collect();
    of.dedup();
    of
}

fn fail<T>(why: &str) -> Result<T> {
    Err(WorkflowError::msg(why))
}

macro_rules! workflow {
    ($name:ident, $policy:expr, |$ctx:ident, $input:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = u32;
            type Output = Vec<String>;

            fn policy() -> Policy {
                $policy
            }

            async fn run($ctx: Ctx<Self>, $input: u32) -> Result<Vec<String>> {
                $body
            }
        }

        impl Accepts<News> for $name {}
    };
}

/// How it ended, in which state, after how many runs and retries, and what was undone.
type Outcome = (End<Vec<String>>, Status, (u32, u32), Vec<String>);

fn outcome<W: Workflow<Input = u32, Output = Vec<String>>>(rig: &mut Rig<W>) -> Outcome {
    let end = rig.run("i").unwrap();
    let state = rig.state("i");
    (end, state.status, (state.run, state.retries), take_calls(W::NAME))
}

fn run<W: Workflow<Input = u32, Output = Vec<String>>>(input: u32) -> Outcome {
    in_every_mode::<W, _>(1, |rig| {
        take_calls(W::NAME);
        rig.start("i", &input);
        outcome(rig)
    })
}

fn failure((end, ..): &Outcome) -> &Failure {
    match end {
        End::Failed(failure) => failure,
        end => panic!("{end:?}"),
    }
}

workflow!(Caught, Policy::new(), |ctx, _input| {
    let mut seen = Vec::new();
    let mut tell = |what: &str, failure: Failure| seen.push(format!("{what}: {:?} {}", failure.kind, failure.attempts));
    let no = || async { fail::<()>("no") };
    tell(
        "exhausted",
        ctx.step("exhausted", no).attempts(2).tried().await?.unwrap_err(),
    );
    let critical = || async { Err::<(), _>(critical(WorkflowError::msg("never"))) };
    tell("critical", ctx.try_step("critical", critical).await?.unwrap_err());
    let slow = ctx.step("slow", std::future::pending::<Result<()>>).timeout("1s");
    tell("slow", slow.tried().await?.unwrap_err());
    let undo = || async { Err::<(), _>(rollback(WorkflowError::msg("undo"))) };
    tell(
        "asked",
        ctx.try_step("asked", undo).catch_rollback().await?.unwrap_err(),
    );
    let joined = ctx.try_scope("scope", |ctx: Ctx<Caught>| async move {
        let no = |ctx: Ctx<Caught>| async move { ok(ctx.step("no", || async { fail::<()>("no") }).attempts(1).await?) };
        ctx.join("both", (branch("a", no), branch("b", no))).await?;
        ok(())
    });
    tell("joined", joined.await?.unwrap_err());
    assert_eq!(ctx.try_scope("fine", |_| async { ok(7) }).await?, Ok(7));
    let raised = ctx.try_scope("raised", |ctx: Ctx<Caught>| async move {
        let undo = |ctx: Ctx<Caught>| async move {
            let undo = || async { Err::<(), _>(rollback(WorkflowError::msg("undo"))) };
            ok(ctx.step("undo", undo).await?)
        };
        ctx.join("both", vec![branch("a", undo)]).await?;
        ok(())
    });
    let raised = raised.await.unwrap_err();
    tell("raised", raised.failure().clone());
    let twice = ctx.try_scope("fine", |_| async { ok(()) }).await.unwrap_err();
    tell("twice", twice.failure().clone());
    ok(seen)
});

/// BEHAVIOUR 4, 5, 9: what is a value, and what is raised all the same.
#[test]
fn failures_as_values() {
    let expected = [
        "exhausted: Exhausted 2",
        "critical: Critical 1",
        "slow: TimedOut 1",
        "asked: Rollback 1",
        "joined: Branches 0",
        "raised: Branches 0",
        "twice: Misuse 0",
    ];
    let (end, ..) = run::<Caught>(0);
    assert_eq!(end, End::Completed(expected.map(str::to_owned).to_vec()));
}

workflow!(CancelledInside, Policy::new(), |ctx, _input| {
    let tried = ctx.try_scope("scope", |ctx: Ctx<CancelledInside>| async move {
        let sleep = |ctx: Ctx<CancelledInside>| async move { ok(ctx.sleep("long", "30d").await?) };
        ctx.join("both", (branch("a", sleep), branch("b", sleep))).await?;
        ok(())
    });
    let failure = tried.await?.unwrap_err();
    ok(vec![format!("went on after {failure}")])
});

/// BEHAVIOUR 9: a cancellation is never a value, also out of a join.
#[test]
fn a_cancellation_passes_through() {
    let outcome = in_every_mode::<CancelledInside, _>(1, |rig| {
        rig.start("i", &0);
        rig.cancel_after("i", Duration::from_secs(60), "enough");
        outcome(rig)
    });
    assert_eq!(outcome.1, Status::Cancelled);
    assert_eq!(failure(&outcome).kind, FailureKind::Branches);
}

fn undoable<W: Workflow>(ctx: &Ctx<W>) -> everstep::Step<String> {
    let work = |attempt: Attempt| async move { ok(attempt.idempotency_key().to_owned()) };
    ctx.step("done", work).rollback(|key: String| async move {
        // Without the digits that only this instance has.
        let (readable, _) = key.split_once('#').unwrap();
        CALLS.lock().unwrap().push((W::NAME, readable.to_owned()));
        ok(())
    })
}

workflow!(
    Retried,
    Policy::new().retries(3).delay(Duration::from_secs(3_600)),
    |ctx, input| {
        undoable(&ctx).await?;
        let news = ctx.receive::<News>().await?;
        if ctx.run_number() < input {
            return fail("not yet");
        }
        ok(vec![format!("{} in run {}", news.0, ctx.run_number())])
    }
);

fn retried(input: u32) -> (Outcome, u64) {
    in_every_mode::<Retried, _>(1, |rig| {
        take_calls("Retried");
        let began = rig.now_ms();
        rig.start("i", &input);
        for number in 1..=5 {
            rig.send("i", &News(number));
        }
        let outcome = outcome(rig);
        let hours = (rig.now_ms() - began) / 3_600_000;
        (outcome, hours)
    })
}

/// BEHAVIOUR 32: a new run from the start, after what the one before it did was undone; unread messages stay, and the
/// keys of steps are new ones.
#[test]
fn a_failed_run_is_followed_by_another() {
    let ((end, status, runs, undone), hours) = retried(3);
    assert_eq!(end, End::Completed(vec!["3 in run 3".to_owned()]));
    assert_eq!((status, runs), (Status::Completed, (3, 2)));
    assert_eq!(undone, ["i/1/done", "i/2/done"]);
    assert!(hours >= 1, "it backs off, {hours}");
}

#[test]
fn retries_come_to_an_end() {
    let (outcome, _) = retried(99);
    assert_eq!(failure(&outcome).message, "not yet");
    assert_eq!((outcome.1, outcome.2), (Status::Compensated, (4, 3)));
    assert_eq!(outcome.3, ["i/1/done", "i/2/done", "i/3/done", "i/4/done"]);
}

/// Between two runs nothing is begun, also when it is woken; and asking it to end ends it at once.
#[test]
fn between_two_runs_it_rests() {
    let outcome = in_every_mode::<Retried, _>(1, |rig| {
        take_calls("Retried");
        rig.start("i", &99);
        rig.send("i", &News(1));
        assert_eq!(rig.run_for("i", Duration::from_secs(60)).unwrap(), End::Waiting);
        assert_eq!(rig.state("i").status, Status::BackingOff);
        assert!(rig.history("i").is_empty());
        rig.send("i", &News(2));
        assert_eq!(rig.run_for("i", Duration::from_secs(60)).unwrap(), End::Waiting);
        assert_eq!((rig.inbox_len("i"), rig.state("i").run), (1, 2));
        rig.cancel("i", "enough");
        outcome(rig)
    });
    assert_eq!((outcome.1, outcome.2), (Status::Cancelled, (2, 1)));
    assert_eq!(failure(&outcome).message, "enough");
}

workflow!(Final, Policy::new().retries(3), |ctx, input| {
    undoable(&ctx).await?;
    match input {
        0 => Err(critical(WorkflowError::msg("final"))),
        1 => Err(rollback(WorkflowError::msg("final"))),
        _ => {
            undoable(&ctx).await?;
            ok(vec![])
        }
    }
});

/// BEHAVIOUR 5, 32: what is not worth another attempt is not worth another run.
#[test]
fn a_final_failure_is_not_followed_by_another_run() {
    for input in 0..3 {
        let (_, status, runs, undone) = run::<Final>(input);
        assert_eq!((status, runs), (Status::Compensated, (1, 0)), "{input}");
        assert_eq!(undone, ["i/1/done"]);
    }
}

workflow!(
    Quarantined,
    Policy::new().retries(1).strategy(Strategy::Quarantine),
    |ctx, _input| {
        undoable(&ctx).await?;
        ctx.sleep("nap", "1s").await?;
        fail("look at this")
    }
);

/// BEHAVIOUR 32: kept as it is: the history stays, the last run is not undone, and waking it changes nothing.
#[test]
fn quarantine_keeps_everything() {
    let ((end, status, runs, undone), paths) = in_every_mode::<Quarantined, _>(1, |rig| {
        take_calls("Quarantined");
        rig.start("i", &0);
        let found = outcome(rig);
        rig.send("i", &News(1));
        let commits = rig.commits();
        assert_eq!(rig.run("i").unwrap(), End::Waiting);
        assert_eq!(rig.commits(), commits, "it is left alone");
        assert_eq!(rig.hold("i").unwrap().reason, "look at this");
        let paths: Vec<_> = rig.history("i").into_keys().collect();
        (found, paths)
    });
    assert_eq!((end, status, runs), (End::Waiting, Status::Quarantined, (2, 1)));
    assert_eq!(
        undone,
        ["i/1/done"],
        "the first run was tried again, the second is kept"
    );
    assert_eq!(paths, ["done", "nap"]);
}

workflow!(Continued, Policy::new(), |ctx, input| {
    undoable(&ctx).await?;
    let news = ctx.receive::<News>().await?;
    let drawn = ctx.random();
    if input < 3 {
        return ctx.continue_as_new(input + news.0);
    }
    if news.0 == 9 {
        return fail("the last run fails");
    }
    ok(vec![format!("{input} {} {drawn}", ctx.run_number())])
});

fn continued(last: u32) -> (Outcome, usize, Vec<String>) {
    in_every_mode::<Continued, _>(1, |rig| {
        take_calls("Continued");
        rig.start("i", &0);
        for number in [1, 2, last, 4] {
            rig.send("i", &News(number));
        }
        let outcome = outcome(rig);
        let paths = rig.history("i").into_keys().collect();
        (outcome, rig.inbox_len("i"), paths)
    })
}

/// BEHAVIOUR 39, FAULTS 19: the same id, unread messages carry over, history does not, and what a run did that went on is settled.
#[test]
fn the_next_run_goes_on() {
    let ((end, status, runs, undone), unread, paths) = continued(3);
    let End::Completed(output) = end else { panic!("{end:?}") };
    assert!(output[0].starts_with("3 3 "), "{output:?}");
    assert_eq!((status, runs, unread), (Status::Completed, (3, 0), 1));
    assert!(undone.is_empty());
    assert_eq!(paths, ["News~0", "done"]);
    let (outcome, ..) = continued(9);
    assert_eq!(
        (outcome.1, outcome.3),
        (Status::Compensated, vec!["i/3/done".to_owned()])
    );
}

workflow!(GoesOnAnyway, Policy::new(), |ctx, input| {
    let slept = ctx.sleep("long", "30d").await;
    assert!(slept.is_err());
    ctx.continue_as_new(input)
});

#[test]
fn what_was_cancelled_does_not_go_on() {
    let outcome = in_every_mode::<GoesOnAnyway, _>(1, |rig| {
        rig.start("i", &0);
        rig.cancel_after("i", Duration::from_secs(60), "enough");
        outcome(rig)
    });
    assert_eq!((outcome.1, outcome.2), (Status::Cancelled, (1, 0)));
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

workflow!(Late, Policy::new().deadline(TEN_MINUTES).retries(9), |ctx, input| {
    undoable(&ctx).await?;
    let no = || async { fail::<()>("no") };
    match input {
        0 => ctx.sleep("long", "30d").await?,
        1 => {
            ctx.receive::<News>().await?;
        }
        2 => {
            ctx.step("fails", no)
                .attempts(999)
                .delay("7m")
                .backoff(Backoff::Fixed)
                .await?;
        }
        4 => {
            ctx.sleep("long", "30d")
                .await
                .map_err(|_| WorkflowError::msg("in other words"))?;
        }
        _ => {
            ctx.sleep("long", "30d").await.unwrap_err();
            let refused = ctx.step("late", || async { ok(()) }).await.unwrap_err();
            let shielded = ctx
                .shield()
                .step("clean up", || async { ok("clean".to_owned()) })
                .await?;
            ctx.set("seen", [format!("{:?}", refused.kind), shielded])?;
        }
    }
    ok(vec![])
});

/// BEHAVIOUR 33: what waits ends, no step and no retry begins, what was done is undone, and there is no other run.
#[test]
fn a_deadline_ends_it() {
    for input in 0..3 {
        let outcome = run::<Late>(input);
        assert_eq!(failure(&outcome).kind, FailureKind::DeadlineExceeded);
        assert_eq!((outcome.1, outcome.2), (Status::Compensated, (1, 0)));
        assert_eq!(outcome.3, ["i/1/done"]);
    }
}

/// BEHAVIOUR 33: what is shielded goes on; the instance has failed all the same, whatever its code makes of it.
#[test]
fn a_deadline_can_not_be_swallowed() {
    let (outcome, seen) = in_every_mode::<Late, _>(1, |rig| {
        take_calls("Late");
        rig.start("i", &3);
        let outcome = outcome(rig);
        (outcome, rig.published::<[String; 2]>("i", "seen").unwrap())
    });
    assert_eq!(seen, ["DeadlineExceeded", "clean"]);
    assert_eq!(failure(&outcome).kind, FailureKind::DeadlineExceeded);
    assert_eq!(
        (outcome.1, outcome.3),
        (Status::Compensated, vec!["i/1/done".to_owned()])
    );
    let outcome = run::<Late>(4);
    let failure = failure(&outcome);
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::DeadlineExceeded, "in other words")
    );
}

/// BEHAVIOUR 33: it ends when the time is over, and that is recorded among the completions.
#[test]
fn a_deadline_comes_in_time() {
    let mut rig = Rig::<Late>::new(Plan::Live, 1).audited();
    let began = rig.now_ms();
    rig.start("i", &0);
    rig.run("i").unwrap();
    assert_eq!(rig.now_ms() - began, 600_000);
    let history = rig.history("i");
    let deadlines = history.values().filter(|entry| entry.kind == EntryKind::Deadline);
    assert_eq!(deadlines.filter_map(|entry| entry.completed).count(), 1);
}
