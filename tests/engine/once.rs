//! What is done is done once: a stored result is given again and the code that made it is not called. BEHAVIOUR 1, 4,
//! 6, 21 and 22.

use std::cell::RefCell;

use everstep::storage::record::{Decided, EntryKind, FailureKind};
use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Attempt, Ctx, Loop, Result, Workflow, ok};

thread_local! {
    /// What was called, in the thread of the rig.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn call(what: impl Into<String>) {
    CALLS.with_borrow_mut(|calls| calls.push(what.into()));
}

macro_rules! workflow {
    ($name:ident, $input:ty, $output:ty, |$ctx:ident, $in:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = $input;
            type Output = $output;

            async fn run($ctx: Ctx<Self>, $in: $input) -> Result<$output> {
                $body
            }
        }
    };
}

/// Runs an instance under a plan. Gives its end, what was called, and how many commits it took.
fn calls<W: Workflow>(plan: Plan, input: &W::Input) -> (End<W::Output>, Vec<String>, u64) {
    let mut rig = Rig::<W>::new(plan, 1);
    CALLS.take();
    rig.start("i", input);
    let end = rig.run("i").unwrap();
    let made = CALLS.take();
    rig.replay("i").unwrap();
    assert_eq!(CALLS.take(), Vec::<String>::new(), "{plan:?}: replay called something");
    (end, made, rig.commits())
}

workflow!(Sequence, (), u32, |ctx, _input| {
    ctx.step("nothing", || async {
        call("nothing");
        ok(())
    })
    .await?;
    ctx.sleep("a while", "1h").await?;
    let one = || async {
        call("one");
        ok(1)
    };
    ok(ctx.step("one", one).await?)
});

/// BEHAVIOUR 1: whenever it is dropped from memory, and whenever the process dies with everything stored, no step is
/// called a second time; also one that gives nothing. Dying right before a commit calls again what that commit had.
#[test]
fn a_stored_result_is_given_and_the_closure_is_not_called() {
    let (end, all, commits) = calls::<Sequence>(Plan::Live, &());
    assert_eq!(
        (end, &all[..]),
        (End::Completed(1), &["nothing".to_owned(), "one".to_owned()][..])
    );
    let plans = (1..=commits).map(Plan::CrashAfter).chain([Plan::Evict]);
    for plan in plans {
        assert_eq!(calls::<Sequence>(plan, &()).1, all, "{plan:?}");
    }
    let again = calls::<Sequence>(Plan::CrashBefore(1), &()).1;
    assert_eq!(again, ["nothing", "nothing", "one"]);
}

workflow!(Hopeless, (), (FailureKind, u32, String), |ctx, _input| {
    let hopeless = |attempt: Attempt| async move {
        call(format!("attempt {}", attempt.number()));
        everstep::ensure!(attempt.number() > 9, "attempt {} failed", attempt.number());
        ok(1)
    };
    let failure = ctx.step("hopeless", hopeless).await.unwrap_err();
    ctx.sleep("a while", "1h").await?;
    ok((failure.kind, failure.attempts, failure.message.clone()))
});

/// BEHAVIOUR 4, 6: the last error and the number of attempts come out; what is stored is a failure and no output; and
/// that is final, however often it is replayed.
#[test]
fn an_exhausted_step_stays_exhausted() {
    let expected = (FailureKind::Exhausted, 3, "attempt 3 failed".to_owned());
    let (end, all, commits) = calls::<Hopeless>(Plan::Live, &());
    assert_eq!(end, End::Completed(expected.clone()));
    assert_eq!(all, ["attempt 1", "attempt 2", "attempt 3"]);
    for plan in (1..=commits).map(Plan::CrashAfter).chain([Plan::Evict]) {
        assert_eq!(calls::<Hopeless>(plan, &()).1, all, "{plan:?}");
    }
    let mut rig = Rig::<Hopeless>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.run("i").unwrap();
    let EntryKind::Step(Some(Decided::Failed(failure))) = &rig.history("i")["hopeless"].kind else {
        panic!("{:?}", rig.history("i"));
    };
    assert_eq!((failure.kind, failure.attempts), (expected.0, expected.1));
}

workflow!(Rounds, u32, u32, |ctx, rounds| {
    let body = move |ctx: Ctx<Rounds>, round: u32| async move {
        call(format!("round {round}"));
        let work = move || async move {
            call(format!("step {round}"));
            ok(())
        };
        ctx.step("step", work).await?;
        ok(if round + 1 == rounds {
            Loop::Break(round)
        } else {
            Loop::Continue(round + 1)
        })
    };
    let last = ctx.repeat("rounds", 0, body).await?;
    ctx.sleep("a while", "1h").await?;
    ok(last)
});

fn steps(calls: &[String]) -> Vec<&String> {
    calls.iter().filter(|call| call.starts_with("step")).collect()
}

/// BEHAVIOUR 22: the state is stored every twenty iterations. After a crash it goes on from there: rounds since then run
/// again, but none of their steps that were stored. BEHAVIOUR 21: a loop that is over is not run again at all.
#[test]
fn a_loop_goes_on_from_its_last_stored_state() {
    let (end, all, commits) = calls::<Rounds>(Plan::Live, &25);
    assert_eq!(end, End::Completed(24));
    assert_eq!((steps(&all).len(), all.len()), (25, 50));
    for commit in 1..=commits {
        let (end, made, _) = calls::<Rounds>(Plan::CrashAfter(commit), &25);
        assert_eq!(end, End::Completed(24));
        assert_eq!(steps(&made), steps(&all), "after commit {commit} no step is made again");
        let again = made.len() - all.len();
        assert!(again <= 20, "after commit {commit} {again} rounds ran again");
    }
    // With twenty-three steps stored, the three rounds since the twentieth run again, and the one that was under way.
    let (_, made, _) = calls::<Rounds>(Plan::CrashAfter(23), &25);
    let mut again: Vec<_> = made.iter().filter(|call| call.starts_with("round")).collect();
    again.drain(..23);
    assert!(
        again
            .iter()
            .all(|round| ["round 20", "round 21", "round 22", "round 23", "round 24"].contains(&round.as_str())),
        "{again:?}"
    );
}

workflow!(Stateless, u32, u32, |ctx, rounds| {
    let body = move |ctx: Ctx<Stateless>, (): ()| async move {
        let drawn = ctx.step("draw", || async { ok(CALLS.with_borrow(Vec::len)) }).await?;
        call("round");
        ok(if drawn + 1 >= rounds as usize {
            Loop::Break(7)
        } else {
            Loop::Continue(())
        })
    };
    ok(ctx.repeat("rounds", (), body).history_every(1).history_keep(0).await?)
});

/// BEHAVIOUR 21, 23: a loop needs no state; one that is trimmed at every iteration, or that ends before it is ever
/// trimmed, works.
#[test]
fn a_loop_needs_no_state_and_may_end_early() {
    for rounds in [1, 2, 45] {
        let (end, made, _) = calls::<Stateless>(Plan::Live, &rounds);
        assert_eq!((end, made.len()), (End::Completed(7), rounds as usize));
    }
}
