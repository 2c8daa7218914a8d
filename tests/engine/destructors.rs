//! What a closure holds is dropped when nobody needs it any more, live or in replay, and its destructor may use the
//! context: the code of users never runs under a lock.

use std::sync::Mutex;

use everstep::storage::record::Status;
use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Ctx, Loop, Message, Policy, Result, Retry, Workflow, WorkflowError, ok};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

/// Publishes something when it is dropped, as a guard would.
struct Guard<W: 'static>(Ctx<W>, &'static str);

impl<W> Drop for Guard<W> {
    fn drop(&mut self) {
        let _ = self.0.set(self.1, "is gone");
    }
}

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => u32, accepts [News], |$ctx, _| $body);
    };
}

/// A closure with a guard in it.
macro_rules! guarded {
    ($ctx:expr, $value:expr) => {{
        let guard = Guard($ctx.clone(), "guard");
        move || {
            let _held = &guard;
            async { $value }
        }
    }};
}

workflow!(Holds, |ctx| {
    let promise = ctx.promise::<u32>("promise")?;
    let tell = move || {
        let token = promise.token();
        async move { ok(token.len()) }
    };
    ctx.step("tell", tell).await?;
    ctx.step("work", guarded!(ctx, ok(()))).await?;
    ok(ctx.receive::<News>().await?.0)
});

workflow!(Drops, |ctx| {
    let mut step = ctx.step("dropped", guarded!(ctx, ok(())));
    assert!((&mut step).now_or_never().is_none());
    drop(step);
    let twice = ctx.step("twice", guarded!(ctx, ok(()))).await;
    let refused = ctx.step("twice", guarded!(ctx, ok(()))).await;
    assert!(twice.is_ok() && refused.is_err());
    assert!(ctx.step("", guarded!(ctx, ok(()))).await.is_err());
    ok(ctx.receive::<News>().await?.0)
});

/// Something to undo, with a guard in it.
macro_rules! undo {
    ($ctx:expr) => {{
        let guard = Guard($ctx.clone(), "guard");
        move |_: u32| {
            let _held = &guard;
            async { ok(()) }
        }
    }};
}

workflow!(Undoes, |ctx| {
    let body = |ctx: Ctx<Self>, round: u32| async move {
        ctx.checkpoint("here")?;
        ctx.step("book", || async { ok(1_u32) }).rollback(undo!(ctx)).await?;
        ok(if round == 3 {
            Loop::Break(())
        } else {
            Loop::Continue(round + 1)
        })
    };
    ctx.repeat("rooms", 0, body).await?;
    let unmarked = |ctx: Ctx<Self>, (): ()| async move {
        let refused = ctx.step("book", || async { ok(1_u32) }).rollback(undo!(ctx)).await;
        assert!(refused.is_err());
        ok(Loop::Break(()))
    };
    ctx.repeat("unmarked", (), unmarked).await?;
    let _ = ctx.compensate("release", 1, undo!(ctx));
    let failed = ctx.step("fails", || async { Err::<u32, _>(WorkflowError::msg("no")) });
    assert!(failed.attempts(1).rollback(undo!(ctx)).await.is_err());
    Err(WorkflowError::msg("all of it is undone"))
});

/// Found in review: in replay the closure of a step that is recorded was dropped while the journal was locked. If there
/// was a promise in it, or a guard that publishes something, the thread waited for itself for ever.
#[test]
fn the_code_of_users_is_dropped_outside_of_every_lock() {
    fn runs<W: Workflow<Input = (), Output = u32> + everstep::Accepts<News>>() {
        for plan in [Plan::Live, Plan::Evict] {
            let mut rig = Rig::<W>::new(plan, 1).audited();
            rig.start("i", &());
            assert_eq!(rig.run("i").unwrap(), End::Waiting);
            rig.send("i", &News(7));
            assert_eq!(rig.run("i").unwrap(), End::Completed(7));
            assert_eq!(rig.replay("i").unwrap(), Some(End::Completed(7)));
        }
    }
    runs::<Holds>();
    runs::<Drops>();
}

#[test]
fn what_undoes_something_is_dropped_outside_of_every_lock() {
    let mut live = Rig::<Undoes>::new(Plan::Live, 1);
    live.start("i", &());
    assert!(matches!(live.run("i").unwrap(), End::Failed(_)));
    for commit in 1..=live.commits() {
        for plan in [Plan::CrashBefore(commit), Plan::CrashAfter(commit)] {
            let mut rig = Rig::<Undoes>::new(plan, 1);
            rig.start("i", &());
            assert!(matches!(rig.run("i").unwrap(), End::Failed(_)));
            assert_eq!(rig.state("i").status, Status::Compensated);
        }
    }
}

workflow!(IsCancelled, |ctx| {
    let steps = futures_util::future::join(
        ctx.step("one", guarded!(ctx, ok(()))),
        ctx.step("two", guarded!(ctx, ok(()))),
    );
    ctx.sleep("nap", "1h").await.ok();
    let (one, _) = steps.await;
    one?;
    ok(1)
});

#[test]
fn what_a_cancellation_ends_is_dropped_outside_of_every_lock() {
    let mut rig = Rig::<IsCancelled>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.cancel_after("i", std::time::Duration::from_secs(60), "enough");
    assert!(matches!(rig.run("i").unwrap(), End::Failed(_)));
    assert_eq!(rig.state("i").status, Status::Cancelled);
}

/// The context of whoever starts the child, for its policy to use.
static PARENT: Mutex<Option<Ctx<LetsGo>>> = Mutex::new(None);

struct Looks;

impl Workflow for Looks {
    const NAME: &'static str = "looks";
    type Input = ();
    type Output = u32;

    fn policy() -> Policy {
        let parent = PARENT.lock().unwrap().take();
        let now = parent.map(|parent| parent.now());
        assert!(now != Some(std::time::UNIX_EPOCH), "the parent has a time");
        Policy::new()
    }

    async fn run(_: Ctx<Self>, (): ()) -> Result<u32> {
        ok(1)
    }
}

workflow!(LetsGo, |ctx| {
    *PARENT.lock().unwrap() = Some(ctx.clone());
    ctx.child(Looks, ()).rollback(undo!(ctx)).detach().await?;
    let guard = Guard(ctx.clone(), "guard");
    let picky = Retry::default().only_if(move |_| guard.1.is_empty());
    let release = ctx.compensate("release", 1, |_: u32| async { ok(()) });
    let _ = release.retry(picky).retry(Retry::default());
    ok(1)
});

/// Found in review: the policy of a child was asked, and the undoing of one that is let go dropped, while the journal was
/// locked; and so was a predicate of a compensation that was given another one.
#[test]
fn what_is_said_of_a_child_runs_outside_of_every_lock() {
    let mut rig = Rig::<LetsGo>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Completed(1));
}
