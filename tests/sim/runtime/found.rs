//! Bugs that the simulation has found, each as small as it gets.

mod events;
mod pauses;
mod promises;
mod resets;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use everstep::storage::Pace;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Plan};
use everstep::{Config, Ctx, Loop, Result, Runtime, Simulated, Workflow, WorkflowError, ok};
use futures_util::future::{Either, join, select};

use super::ledger;
use super::machine::{Machine, Odds, Platter};
use crate::chance::Chance;

/// Plays a script on a machine on which nothing goes wrong.
fn play<F: Future<Output = ()>>(script: impl FnOnce(Simulated) -> F) {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    ledger::open(Chance::new(0));
    executor.block_on(async {
        let machine = Machine::new(&Platter::default(), 1, &mut Chance::new(0), Odds::default(), None);
        // In virtual time: what waits for nothing waits no longer.
        let patience = Duration::from_secs(30 * 24 * 3_600);
        let played = tokio::time::timeout(patience, script(machine.simulated())).await;
        assert!(played.is_ok(), "somebody waits for ever");
    });
}

/// How long a commit takes where it takes time.
const COMMIT: Duration = Duration::from_millis(20);

/// The same machine, on which commits take a while.
fn slow(machine: Simulated) -> Simulated {
    let wait = || -> futures_util::future::BoxFuture<'static, ()> { Box::pin(tokio::time::sleep(COMMIT)) };
    Simulated {
        pace: Pace::new(wait),
        ..machine
    }
}

/// Continues as new when the first of two steps has returned; in the second run it waits for both.
struct Hasty;

impl Workflow for Hasty {
    const NAME: &'static str = "hasty";
    type Input = ();
    type Output = (u32, u32);

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<(u32, u32)> {
        let run = ctx.run_number();
        let quick = ctx.step("quick", move || async move { ok(run) });
        let slow = ctx.step("slow", move || async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            ok(run)
        });
        if run == 1 {
            match select(quick, slow).await {
                Either::Left((quick, _)) => quick?,
                Either::Right((slow, _)) => slow?,
            };
            return ctx.continue_as_new(());
        }
        let (quick, slow) = join(quick, slow).await;
        ok((quick?, slow?))
    }
}

/// A step of the first run returned while the commit that began the second run was on its way. What it returned was
/// taken for what the same step of the second run returned. BEHAVIOUR 39.
#[test]
fn what_a_step_returns_too_late_is_not_taken_for_that_of_the_next_run() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Hasty).open_simulated(slow(machine));
        let runtime = opening.await.unwrap();
        let hasty = runtime.start(Hasty, ()).await.unwrap();
        assert_eq!(hasty.result().await.unwrap(), (2, 2));
    });
}

/// Two steps at once.
struct Twins;

impl Workflow for Twins {
    const NAME: &'static str = "twins";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        let twin = |name: &'static str| {
            ctx.step(name, move || async move {
                ledger::with(|ledger| ledger.note(name));
                tokio::time::sleep(Duration::from_secs(1)).await;
                ok(())
            })
        };
        let (first, second) = join(twin("first"), twin("second")).await;
        first.and(second)?;
        ok(())
    }
}

/// An attempt that waited for another one to make room began when both were cancelled: the room was there a moment
/// before it looked whether anybody still wanted it. BEHAVIOUR 45.
#[test]
fn an_attempt_that_is_cancelled_while_it_waits_for_its_turn_does_not_begin() {
    play(|machine| async {
        let config = Config::default().attempts_max(1);
        let opening = Runtime::builder()
            .workflow(Twins)
            .config(config)
            .open_simulated(machine);
        let runtime = opening.await.unwrap();
        let twins = runtime.start(Twins, ()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        twins.cancel("enough").await.unwrap();
        assert!(twins.result().await.is_err());
        let said = ledger::with(|ledger| ledger.trace.join("\n"));
        assert!(said.contains("first") && !said.contains("second"), "{said}");
    });
}

/// A step, and nothing behind it.
struct Short;

impl Workflow for Short {
    const NAME: &'static str = "short";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        let body = |ctx: Ctx<Self>, ()| async move {
            ctx.step("work", || async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                ok(())
            })
            .await?;
            ok(Loop::Break(()))
        };
        ctx.repeat("once", (), body).await
    }
}

/// An instance was paused behind its last step. The message that resumed it made it runnable, and it ended at once:
/// its end did not know of the row, which stayed behind. BEHAVIOUR 44.
#[test]
fn an_instance_that_ends_when_it_is_resumed_leaves_nothing_behind() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Short).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let short = runtime.start(Short, ()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        short.pause().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        short.resume().await.unwrap();
        short.result().await.unwrap();
        let report = runtime.store().verify().unwrap();
        assert!(report.is_clean(), "{report}");
    });
}

/// Passes a gate and does something in passing, and then fails.
struct Fleeting;

impl Workflow for Fleeting {
    const NAME: &'static str = "fleeting";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        let undo = |(): ()| async {
            ledger::with(|ledger| ledger.note("undone"));
            ok(())
        };
        ctx.step("reserve", || async { ok(()) })
            .rollback(undo)
            .ephemeral()
            .await?;
        ctx.version("gate", 2)?;
        Err(WorkflowError::msg("no"))
    }
}

/// The last thing that a function had seen before it failed was not durable yet (the result of an ephemeral step, a
/// version). Each turn of its undoing found that worth a commit, and waited for the commit: the undoing never began, and
/// commits without end were made. BEHAVIOUR 10, 31.
#[test]
fn what_was_seen_in_passing_does_not_keep_an_undoing_from_beginning() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Fleeting).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let fleeting = runtime.start(Fleeting, ()).await.unwrap();
        let patience = async {
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = fleeting.result() => assert!(result.is_err()),
            () = patience => panic!("it goes round in circles"),
        }
        assert!(ledger::with(|ledger| ledger.trace.join("\n")).contains("undone"));
    });
}

/// Has something to write before anything else.
struct Sleeper;

impl Workflow for Sleeper {
    const NAME: &'static str = "sleeper";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        ok(ctx.sleep("a while", "1s").await?)
    }
}

/// The store could not be reached for a while. Each commit that failed was counted against the instance that made it,
/// and healthy instances were put into quarantine.
#[test]
fn an_instance_is_not_blamed_for_a_store_that_can_not_be_reached() {
    play(|machine| async move {
        let plan = Plan::new();
        let machine = Simulated {
            engine: Arc::new(Faulty::new(machine.engine, plan.clone())),
            ..machine
        };
        let opening = Runtime::builder().workflow(Sleeper).open_simulated(machine);
        let runtime = opening.await.unwrap();
        // The start is stored; what the instance writes first is not, again and again.
        for commit in 2..7 {
            plan.at_commit(commit, CommitFault::Fail(ErrorKind::TimedOut));
        }
        let sleeper = runtime.start(Sleeper, ()).await.unwrap();
        sleeper.result().await.unwrap();
    });
}
