//! What the code may do fits into commits, however much of it comes together; and what no commit could hold is refused
//! with a code, instead of being put aside because no store takes it.

use std::time::Duration;

use everstep::limits::{EVENT_WAITS_MAX, PAYLOAD_BYTES_MAX};
use everstep::storage::record::FailureKind;
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Attempt, Ctx, Loop, Message, Workflow, WorkflowError, critical, ok};
use futures_util::future::select_all;
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident, $many:pat_param| $body:expr) => {
        define!($name: usize => usize, accepts [], |$ctx, $many| $body);
    };
}

fn run<W: Workflow<Input = usize, Output = usize>>(many: usize) -> End<usize> {
    run_as::<W>("i", many)
}

fn run_as<W: Workflow<Input = usize, Output = usize>>(id: &str, many: usize) -> End<usize> {
    let mut rig = Rig::<W>::new(Plan::Live, 1).spread(1, Duration::ZERO);
    rig.start(id, &many);
    let end = rig.run(id).unwrap();
    if let End::Completed(_) = end {
        assert!(rig.replay(id).unwrap() == Some(End::Completed(many)), "it replays");
    }
    end
}

/// The code of the error that it fails with.
fn refused<W: Workflow<Input = usize, Output = usize>>(many: usize) -> String {
    match run::<W>(many) {
        End::Failed(failure) => failure.code.clone().unwrap_or_else(|| panic!("{failure:?}")),
        End::Completed(_) | End::Waiting => panic!("it does not fail"),
    }
}

workflow!(Emits, |ctx, many| {
    let part = |ctx: Ctx<Emits>, number: usize| async move {
        ctx.step("s", || async { ok(()) }).await?;
        ctx.emit((number, "x".repeat(200_000)))?;
        ok(())
    };
    ctx.map("m", 0..many, 1_000, part).await?;
    ok(many)
});

/// Found in review: what one part may say was bounded, and any number of parts go on after one commit. The commit with
/// all that they said was one that no store takes.
#[test]
fn what_many_parts_say_together_is_stored_once() {
    let script = |rig: &mut Rig<Emits>| {
        rig.start("i", &45);
        assert_eq!(rig.run("i").unwrap(), End::Completed(45));
        let items = rig.emitted::<(usize, String)>("i").into_iter();
        let mut items: Vec<usize> = items.map(|(_, (number, _))| number).collect();
        items.sort_unstable();
        assert_eq!(items, (0..45).collect::<Vec<_>>());
    };
    let spread = |plan| Rig::<Emits>::new(plan, 1).spread(1, Duration::ZERO);
    let mut live = spread(Plan::Live);
    script(&mut live);
    let commits = live.commits();
    assert!(commits > 7, "{commits}");
    script(&mut spread(Plan::Evict));
    for commit in [2, commits / 2, commits - 2] {
        script(&mut spread(Plan::CrashBefore(commit)));
        script(&mut spread(Plan::CrashAfter(commit)));
    }
}

workflow!(Fail, |ctx, many| {
    let part = |ctx: Ctx<Fail>, _| async move {
        let work = |attempt: Attempt| async move {
            everstep::ensure!(attempt.number() > 1, "{}", "x".repeat(4_000));
            ok(())
        };
        ok(ctx.step("s", work).await?)
    };
    ctx.map("m", 0..many, 5_000, part).await?;
    ok(many)
});

/// Found in review: all attempts that had failed together were told in one commit.
#[test]
fn attempts_that_fail_together_fit() {
    assert_eq!(run::<Fail>(2_500), End::Completed(2_500));
}

workflow!(Shortly, |ctx, many| {
    let part = |ctx: Ctx<Shortly>, _| async move {
        let work = || async { ok("x".repeat(500_000)) };
        ok(ctx.step("s", work).ephemeral().await?.len())
    };
    let lengths = ctx.map("m", 0..many, 1_000, part).await?;
    ok(lengths.len())
});

/// The results of ephemeral steps are stored with the next commit, and not all of them in one.
#[test]
fn ephemeral_results_that_come_together_fit() {
    assert_eq!(run::<Shortly>(30), End::Completed(30));
}

workflow!(Compensates, |ctx, bytes| {
    ctx.compensate("undo", "x".repeat(bytes), |_: String| async { ok(()) });
    ctx.step("s", || async { ok(()) }).await?;
    ok(bytes)
});

workflow!(CompensatesOften, |ctx, many| {
    for number in 0..many {
        let undo = |_: String| async { ok(()) };
        ctx.compensate(&format!("undo {number}"), "x".repeat(1_900_000), undo);
    }
    ctx.step("s", || async { ok(()) }).await?;
    ok(many)
});

define!(Grows: String => usize, accepts [], |ctx, given| {
    if ctx.run_number() > 1 {
        return ok(given.len());
    }
    ctx.continue_as_new("x".repeat(9_000_000))
});

workflow!(Undoes, |ctx, bytes| {
    let undo = move |_: u32| async move { ok("x".repeat(bytes)) };
    ctx.step("s", || async { ok(1_u32) }).rollback(undo).await?;
    Err(WorkflowError::msg("no"))
});

/// Found in review: what is registered to undo something, what an undoing returns and what the next run begins with
/// were not weighed.
#[test]
fn what_is_too_large_to_be_stored_is_refused() {
    assert_eq!(run::<Compensates>(1_900_000), End::Completed(1_900_000));
    assert_eq!(refused::<Compensates>(5_000_000), "ES0301");
    assert_eq!(run::<CompensatesOften>(2), End::Completed(2));
    assert_eq!(refused::<CompensatesOften>(5), "ES0305");
    let mut grows = Rig::<Grows>::new(Plan::Live, 1);
    grows.start("i", &String::new());
    match grows.run("i").unwrap() {
        End::Failed(failure) => assert_eq!(failure.code.as_deref(), Some("ES0301")),
        other => panic!("{other:?}"),
    }
    let End::Failed(failure) = run::<Undoes>(9_000_000) else {
        panic!("it fails, and so does its undoing");
    };
    let (_, undoing) = failure.branches.first().expect("what could not be undone is told");
    assert_eq!(undoing.kind, FailureKind::Limit, "{undoing:?}");
}

workflow!(Loops, |ctx, bytes| {
    let body = |ctx: Ctx<Loops>, (turn, state): (u32, String)| async move {
        ctx.checkpoint("here")?;
        ctx.step("s", || async { ok(()) }).await?;
        ok(if turn == 2 {
            Loop::Break(state)
        } else {
            Loop::Continue((turn + 1, state))
        })
    };
    let state = (0, "s".repeat(bytes));
    let broken = ctx.repeat("loop", state, body).commit_interval(1).await?;
    ctx.step("after", || async { ok(()) }).await?;
    ok(broken.len())
});

/// Found in review: the state of a loop, the one that it can be taken back to and what it broke with are one row, and
/// each was weighed on its own.
#[test]
fn all_of_a_loop_fits_into_its_row() {
    assert_eq!(run::<Loops>(1_500_000), End::Completed(1_500_000));
    assert_eq!(refused::<Loops>(PAYLOAD_BYTES_MAX - 100), "ES0301");
}

workflow!(Counts, |ctx, times| {
    let body = |_: Ctx<Counts>, number: usize| async move {
        ok(if number == times {
            Loop::Break(number)
        } else {
            Loop::Continue(number + 1)
        })
    };
    let number = ctx.repeat("count", 0, body).await?;
    ctx.step("s", || async { ok(()) }).await?;
    ok(number)
});

/// Found in review: a turn of a loop that recorded nothing was removed from the store all the same, each with a range of
/// its own.
#[test]
fn a_long_loop_that_records_nothing_fits() {
    assert_eq!(run_as::<Counts>(&"i".repeat(200), 40_000), End::Completed(40_000));
}

workflow!(Undone, |ctx, many| {
    for number in 0..many {
        let undo = |_: usize| async { Err::<(), _>(critical(WorkflowError::msg("x".repeat(4_000)))) };
        ctx.compensate(&format!("undo {number}"), number, undo);
    }
    ctx.step("s", || async { ok(()) }).await?;
    Err(WorkflowError::msg("no"))
});

/// Found in review: what could not be undone was told in full, however much it was.
#[test]
fn many_undoings_may_fail() {
    assert!(matches!(run::<Undone>(1_200), End::Failed(_)));
}

workflow!(Waits, |ctx, many| {
    let waits = (0..many).map(|_| ctx.wait_event::<News>());
    let (first, _, rest) = select_all(waits).await;
    let refused = first.expect_err("nothing is published");
    everstep::ensure!(refused.code.as_deref() == Some("ES0308"), "{refused:?}");
    drop(rest);
    ctx.step("s", || async { ok(()) }).await?;
    ok(many)
});

/// Found in review: an instance could wait for more events than one commit can tell their topics of.
#[test]
fn waits_for_events_can_be_dropped_together() {
    let (id, many) = ("i".repeat(200), EVENT_WAITS_MAX + 1);
    assert_eq!(run_as::<Waits>(&id, many), End::Completed(many));
}

workflow!(Outgrows, |ctx, bytes| {
    let body = |ctx: Ctx<Outgrows>, (turn, _): (u32, String)| async move {
        ctx.checkpoint("here")?;
        let undo = |_: u32| async { ok(()) };
        ctx.step("s", move || async move { ok(turn) }).rollback(undo).await?;
        let bytes = if turn == 0 { 1 } else { bytes };
        ok(Loop::<_, usize>::Continue((turn + 1, "s".repeat(bytes))))
    };
    let turns = ctx.repeat("loop", (0, String::new()), body);
    let outgrown = turns.commit_interval(1).history_every(1).history_keep(0).await;
    ctx.step("after", || async { ok(()) }).await?;
    outgrown
});

/// Found in review: a loop whose state was too large, with the one that it can be taken back to, had removed the history of
/// its old iterations by then. After a crash while it was undone, replay did not find what it had recorded. And code that
/// went on from the error did so.
#[test]
fn a_loop_that_is_refused_keeps_its_history() {
    let code = in_every_mode::<Outgrows, _>(1, |rig| {
        rig.start("i", &(PAYLOAD_BYTES_MAX - 100));
        match rig.run("i").unwrap() {
            End::Failed(failure) => failure.code.clone(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(code.as_deref(), Some("ES0301"));
}

workflow!(OutgrowsAtOnce, |ctx, bytes| {
    let body = |ctx: Ctx<OutgrowsAtOnce>, _: String| async move {
        ctx.step("s", || async { ok(()) }).await?;
        ok(Loop::<_, usize>::Continue("s".repeat(bytes)))
    };
    let refused = ctx.repeat("loop", String::new(), body).await;
    ctx.step("after", || async { ok(()) }).await?;
    ok(usize::from(refused.is_err()))
});

/// Found in review: a state that was too large was noticed when it was to be recorded, which is not at each turn; and code
/// could go on from the error.
#[test]
fn a_state_that_is_too_large_ends_the_function() {
    let code = in_every_mode::<OutgrowsAtOnce, _>(1, |rig| {
        rig.start("i", &(PAYLOAD_BYTES_MAX + 1));
        match rig.run("i").unwrap() {
            End::Failed(failure) => failure.code.clone(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(code.as_deref(), Some("ES0301"));
}
