//! What a workflow did is undone when it fails: all of it, once, in the reverse order of completion, whatever crashes.

use std::sync::Mutex;
use std::time::Duration;

use everstep::storage::record::{Decided, EntryKind, FailureKind, Status};
use everstep::testing::rig::{End, Rig, in_every_mode};
use everstep::{Attempt, Ctx, Loop, Result, Step, Workflow, WorkflowError, branch, ok, rollback};

/// What was undone, in the order of the calls. Each test has a process, or at least a workflow, of its own.
static CALLS: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

fn undo(workflow: &'static str, what: String) -> Result<()> {
    CALLS.lock().unwrap().push((workflow, what));
    ok(())
}

/// The calls of a workflow. One that a crash made happen again counts once: effects happen at least once.
fn take_calls(workflow: &str) -> Vec<String> {
    let mut calls = CALLS.lock().unwrap();
    let of = calls.extract_if(.., |(of, _)| *of == workflow);
    let mut of: Vec<String> = of.map(|(_, what)| what).collect();
    of.dedup();
    of
}

/// A step that takes as long as it says, and can be undone.
fn done<W: Workflow>(ctx: &Ctx<W>, name: &str) -> Step<String> {
    let value = name.to_owned();
    let work = move || std::future::ready(ok(value.clone()));
    ctx.step(name, work)
        .rollback(|value: String| async move { undo(W::NAME, value) })
}

fn fail<T>(why: &str) -> Result<T> {
    Err(WorkflowError::msg(why))
}

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => (), accepts [], |$ctx, _| $body);
    };
}

#[derive(Debug, PartialEq)]
struct Outcome {
    end: End<()>,
    status: Status,
    /// What was called to undo something.
    calls: Vec<String>,
    /// What is recorded as undone, by path, and whether that went well.
    undone: Vec<(String, bool)>,
}

fn outcome<W: Workflow<Input = (), Output = ()>>(rig: &mut Rig<W>) -> Outcome {
    let end = rig.run("i").unwrap();
    let mut undone = Vec::new();
    for (path, entry) in rig.history("i") {
        let decided = match entry.kind {
            EntryKind::Rollback(decided) => decided.expect("an undoing that began has ended"),
            EntryKind::Compensation {
                decided: Some(decided), ..
            } => decided,
            _ => continue,
        };
        undone.push((path, matches!(decided, Decided::Completed(_))));
    }
    assert_eq!(rig.state("i").alarm_at_ms, None, "nothing is left to wake up for");
    Outcome {
        end,
        status: rig.state("i").status,
        calls: take_calls(W::NAME),
        undone,
    }
}

fn run<W: Workflow<Input = (), Output = ()>>() -> Outcome {
    in_every_mode::<W, _>(1, |rig| {
        take_calls(W::NAME);
        rig.start("i", &());
        outcome(rig)
    })
}

fn failure(outcome: &Outcome) -> &everstep::storage::record::Failure {
    match &outcome.end {
        End::Failed(failure) => failure,
        end => panic!("{end:?}"),
    }
}

workflow!(Sequence, |ctx| {
    done(&ctx, "one").await?;
    ctx.compensate("two", 2_u32, |two: u32| async move {
        undo("Sequence", format!("two is {two}"))
    });
    done(&ctx, "three").await?;
    ctx.compensate("four", 4_u32, |four: u32| async move {
        undo("Sequence", format!("four is {four}"))
    });
    ctx.compensate("five", 5_u32, |five: u32| async move {
        undo("Sequence", format!("five is {five}"))
    });
    let hopeless = || async { fail::<()>("no") };
    ctx.step("hopeless", hopeless)
        .attempts(1)
        .rollback(|(): ()| async move { undo("Sequence", "what never was".into()) })
        .await?;
    ok(())
});

/// BEHAVIOUR 31: steps and compensations, last first; what failed is not among them.
#[test]
fn undone_in_reverse_order() {
    let outcome = run::<Sequence>();
    assert_eq!(outcome.calls, ["five is 5", "four is 4", "three", "two is 2", "one"]);
    let paths: Vec<_> = outcome.undone.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["five", "four", "one/rollback", "three/rollback", "two"]);
    assert!(outcome.undone.iter().all(|(_, well)| *well));
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(failure(&outcome).kind, FailureKind::Exhausted);
}

workflow!(Fine, |ctx| {
    done(&ctx, "one").await?;
    ctx.compensate("two", (), |()| async { undo("Fine", "two".into()) });
    ok(())
});

#[test]
fn nothing_is_undone_of_what_went_well() {
    let outcome = run::<Fine>();
    assert_eq!((outcome.end, outcome.status), (End::Completed(()), Status::Completed));
    assert!(outcome.calls.is_empty() && outcome.undone.is_empty());
}

workflow!(Stubborn, |ctx| {
    done(&ctx, "one").await?;
    ctx.compensate("never", (), |()| async { fail::<()>("can't be undone") })
        .attempts(2);
    ctx.compensate("third time", (), |(), attempt: Attempt| async move {
        if attempt.number() < 3 {
            return fail("not yet");
        }
        undo(
            "Stubborn",
            attempt.idempotency_key().split('#').next().unwrap().to_owned(),
        )
    })
    .delay("1h");
    fail("enough")
});

/// BEHAVIOUR 31: each undoing is tried by its own options, across crashes and evictions, and one that fails for good
/// does not keep the others from being done. FAULTS 16.
#[test]
fn an_undoing_is_tried_and_a_failed_one_is_passed_over() {
    let outcome = run::<Stubborn>();
    assert_eq!(outcome.calls, ["i/1/third time", "one"]);
    let expected = [("never", false), ("one/rollback", true), ("third time", true)];
    assert_eq!(outcome.undone, expected.map(|(path, well)| (path.to_owned(), well)));
    assert_eq!(outcome.status, Status::Failed);
    let failure = failure(&outcome);
    assert_eq!(failure.message, "enough");
    assert_eq!(failure.branches[0].0, "never");
    assert_eq!(failure.branches[0].1.attempts, 2);
}

workflow!(Nested, |ctx| {
    let slow = |name: &'static str, nap: &'static str| {
        move |ctx: Ctx<Nested>| async move {
            done(&ctx, name).await?;
            ctx.sleep("nap", nap).await?;
            done(&ctx, &format!("{name} late")).await?;
            fail::<()>("this branch fails")
        }
    };
    let joined = ctx.join("both", (branch("a", slow("a1", "2s")), branch("b", slow("b1", "1s"))));
    assert!(joined.await.is_err(), "caught");
    let quick = |ctx: Ctx<Nested>| async move {
        ctx.sleep("nap", "1s").await?;
        done(&ctx, "won").await?;
        ok(())
    };
    let race = ctx.race("race", (branch("quick", quick), branch("slow", slow("lost", "1h"))));
    race.await?;
    let items = |ctx: Ctx<Nested>, item: u64| async move {
        ctx.sleep("nap", Duration::from_secs(3 - item)).await?;
        done(&ctx, &format!("item {item}")).await?;
        ok(())
    };
    ctx.map("items", [0, 1, 2], 3, items).await?;
    Err(rollback(WorkflowError::msg("all of it")))
});

/// BEHAVIOUR 31, 54: in join branches, in winners and losers of a race, in maps, after a failure that was caught.
#[test]
fn undone_wherever_it_was_done() {
    let outcome = run::<Nested>();
    let (last, first) = outcome.calls.split_at(7);
    let expected = ["item 0", "item 1", "item 2", "won", "lost", "a1 late", "b1 late"];
    assert_eq!(last, expected);
    let mut first = first.to_vec();
    first.sort();
    assert_eq!(first, ["a1", "b1"], "these ended together");
    assert_eq!(outcome.status, Status::Compensated);
}

workflow!(Cancelled, |ctx| {
    done(&ctx, "one").await?;
    ctx.compensate("slow", (), |(), attempt: Attempt| async move {
        if attempt.number() == 1 {
            return fail("try again in a while");
        }
        undo("Cancelled", "slow".into())
    });
    ctx.sleep("long", "30d").await?;
    ok(())
});

/// BEHAVIOUR 31, 45, FAULTS 57: a cancellation undoes too, and does not reach what undoes.
#[test]
fn a_cancelled_workflow_is_undone() {
    let outcome = in_every_mode::<Cancelled, _>(1, |rig| {
        take_calls("Cancelled");
        rig.start("i", &());
        rig.cancel_after("i", Duration::from_secs(60), "enough");
        rig.cancel_after("i", Duration::from_millis(60_100), "while it is undone");
        outcome(rig)
    });
    assert_eq!(outcome.calls, ["slow", "one"]);
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(failure(&outcome).message, "enough");
}

workflow!(Visible, |ctx| {
    ctx.compensate("slow", (), |(), attempt: Attempt| async move {
        if attempt.number() == 1 {
            return fail("try again in a while");
        }
        ok(())
    })
    .delay("30s");
    fail("enough")
});

/// BEHAVIOUR 32: that it is being undone is visible, and an alarm stands for the next attempt.
#[test]
fn undoing_is_visible() {
    in_every_mode::<Visible, _>(1, |rig| {
        rig.start("i", &());
        assert_eq!(rig.run_for("i", Duration::from_secs(1)).unwrap(), End::Waiting);
        let state = rig.state("i");
        assert_eq!(state.status, Status::Compensating);
        assert!(state.alarm_at_ms.is_some());
        rig.run("i").unwrap();
        assert_eq!(rig.state("i").status, Status::Compensated);
    });
}

/// A loop in whose iterations something is done that can be undone, if they say so.
async fn looping<W: Workflow>(ctx: &Ctx<W>, name: &str, times: u32, marks: fn(u32) -> bool) -> Result<()> {
    let body = move |ctx: Ctx<W>, number: u32| async move {
        if marks(number) {
            ctx.checkpoint("from here on")?;
            done(&ctx, &format!("one of {number}")).await?;
            ctx.sleep("nap", "1s").await?;
            let other = format!("other of {number}");
            ctx.compensate("other", other, |other: String| async move { undo(W::NAME, other) });
        }
        ctx.step("more", || async { ok(()) }).await?;
        if number == 19 {
            return fail("the last one fails");
        }
        ok(match number + 1 {
            next if next == times => Loop::Break(()),
            next => Loop::Continue(next),
        })
    };
    let repeat = ctx.repeat(name, 0_u32, body).commit_interval(2).history_every(1);
    repeat.history_keep(1).await
}

workflow!(LoopOver, |ctx| {
    done(&ctx, "before").await?;
    looping(&ctx, "loop", 9, |number| number % 3 == 0).await?;
    done(&ctx, "after").await?;
    fail("enough")
});

/// BEHAVIOUR 31: of a loop that is over, the last iteration with a checkpoint takes part, however long ago it was, and
/// nothing of the iterations before it.
#[test]
fn a_loop_that_is_over_is_undone() {
    let outcome = run::<LoopOver>();
    assert_eq!(outcome.calls, ["after", "other of 6", "one of 6", "before"]);
    assert_eq!(outcome.status, Status::Compensated);
}

workflow!(LoopRunning, |ctx| {
    let branches = |ctx: Ctx<LoopRunning>| async move { looping(&ctx, "loop", 99, |number| number == 3).await };
    let fails = |ctx: Ctx<LoopRunning>| async move {
        ctx.sleep("nap", "10s").await?;
        done(&ctx, "beside").await?;
        fail::<()>("enough")
    };
    let both = (branch("loop", branches), branch("fails", fails));
    ctx.join("both", both).await?;
    ok(())
});

/// The same while it runs, and far behind the iteration that counts.
#[test]
fn a_loop_that_runs_is_undone() {
    let outcome = run::<LoopRunning>();
    assert_eq!(outcome.calls, ["beside", "other of 3", "one of 3"]);
}

workflow!(LoopInLoop, |ctx| {
    let outer = |ctx: Ctx<LoopInLoop>, number: u32| async move {
        looping(&ctx, "inner", 3, |inner| inner < 2).await?;
        if number == 2 {
            return fail("the third time");
        }
        ok(Loop::<u32, ()>::Continue(number + 1))
    };
    let repeat = ctx.repeat("outer", 0_u32, outer).commit_interval(1).history_every(1);
    repeat.history_keep(0).await
});

/// BEHAVIOUR 54: a loop in a loop: a checkpoint counts for all iterations around it.
#[test]
fn a_loop_in_a_loop_is_undone() {
    let outcome = run::<LoopInLoop>();
    assert_eq!(outcome.calls, ["other of 1", "one of 1"]);
}

workflow!(NoCheckpoint, |ctx| {
    done(&ctx, "before").await?;
    let body = |ctx: Ctx<NoCheckpoint>, number: u32| async move {
        if number == 0 {
            ctx.checkpoint("only here")?;
        }
        done(&ctx, "in the loop").await?;
        ok(Loop::<u32, ()>::Continue(number + 1))
    };
    ctx.repeat("loop", 0, body).await
});

workflow!(NoCheckpointEither, |ctx| {
    let body = |ctx: Ctx<NoCheckpointEither>, number: u32| async move {
        ctx.compensate("in the loop", (), |()| async { ok(()) });
        ctx.sleep("never", "1s").await?;
        ok(Loop::<u32, ()>::Continue(number + 1))
    };
    ctx.repeat("loop", 0, body).await
});

/// BEHAVIOUR 31: without a checkpoint before it, in the same iteration, a clear error; what was done is undone.
#[test]
fn a_loop_needs_a_checkpoint() {
    let outcome = run::<NoCheckpoint>();
    assert_eq!(failure(&outcome).kind, FailureKind::Misuse);
    assert!(
        failure(&outcome).message.contains("ctx.checkpoint"),
        "{:?}",
        outcome.end
    );
    assert_eq!(outcome.calls, ["in the loop", "before"]);
    let outcome = run::<NoCheckpointEither>();
    assert!(
        failure(&outcome).message.contains("ctx.checkpoint"),
        "{:?}",
        outcome.end
    );
    assert_eq!(outcome.status, Status::Failed);
}

workflow!(FailsOnAReading, |ctx| {
    done(&ctx, "a").await?;
    ctx.step("read", || async { ok(()) }).ephemeral().await?;
    fail("what was read is bad")
});

/// What the code saw of an ephemeral step is stored once, with its failure, and the undoing goes on from there. It once
/// was stored again and again, and nothing was ever undone.
#[test]
fn a_failure_over_an_ephemeral_result_is_undone() {
    let outcome = in_every_mode::<FailsOnAReading, _>(1, |rig| {
        take_calls("FailsOnAReading");
        rig.start("i", &());
        outcome(rig)
    });
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(outcome.calls, ["a"]);
}
