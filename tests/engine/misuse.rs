//! A use of the context that can't mean anything is an error that says so: no panic, no deadlock, nothing written.

use std::time::Duration;

use everstep::storage::record::{Failure, FailureKind};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Ctx, Loop, Policy, Result, Strategy, Workflow, branch, ok};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => String, accepts [], |$ctx, _| $body);
    };
}

/// Runs code that is misused in every mode, and tells how it failed and how many entries it left.
fn failure<W: Workflow<Input = (), Output = String>>() -> (Failure, usize) {
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", &());
        match rig.run("i").unwrap() {
            End::Failed(failure) => (failure, rig.history("i").len()),
            End::Completed(output) => panic!("it completed with {output}"),
            End::Waiting => panic!("it waits"),
        }
    })
}

fn assert_misuse<W: Workflow<Input = (), Output = String>>(words: &str, entries: usize) {
    let (failure, found) = failure::<W>();
    assert_eq!(failure.kind, FailureKind::Misuse, "{failure}");
    assert!(failure.to_string().contains(words), "{failure}");
    assert_eq!(found, entries, "entries");
}

workflow!(InStep, |ctx| {
    let inside = ctx.clone();
    let outer = move || {
        let ctx = inside.clone();
        async move { ctx.step("inner", || async { ok("inner".to_owned()) }).await }
    };
    ok(ctx.step("outer", outer).await?)
});

/// FAULTS 42.
#[test]
fn a_context_used_in_a_step() {
    assert_misuse::<InStep>("not in a step", 1);
}

workflow!(DrawInStep, |ctx| {
    let inside = ctx.clone();
    let outer = move || {
        let drawn = inside.random();
        async move { ok(drawn.to_string()) }
    };
    ok(ctx.step("outer", outer).attempts(1).await?)
});

/// Found by this test: the closure of a step was called by the engine, only what it returned ran as an attempt. A
/// panic in it took the instance down, and one that blocked would have blocked the actor.
#[test]
fn chance_drawn_in_a_step() {
    let (failure, _) = failure::<DrawInStep>();
    assert!(failure.to_string().contains("not in a step"), "{failure}");
}

workflow!(OtherTask, |ctx| {
    let inside = ctx.clone();
    // On another thread, at the very moment at which this function is being polled.
    let answer = std::thread::scope(|threads| {
        let step = inside.step("elsewhere", || async { ok("done".to_owned()) });
        let answer = std::thread::Builder::new().spawn_scoped(threads, move || step.now_or_never());
        answer.unwrap().join().unwrap()
    });
    ok(answer.expect("it is answered at once")?)
});

#[test]
fn a_context_used_in_another_task() {
    assert_misuse::<OtherTask>("not in another task", 0);
}

workflow!(NoName, |ctx| ok(ctx
    .step("", || async { ok("done".to_owned()) })
    .await?));
workflow!(LongName, |ctx| {
    ctx.sleep(&"n".repeat(201), "1s").await?;
    ok(String::new())
});
workflow!(LongBranch, |ctx| {
    let name = "n".repeat(201);
    let quick = || |_: Ctx<LongBranch>| async { ok(String::new()) };
    ok(ctx
        .join("both", vec![branch("ok", quick()), branch(&name, quick())])
        .await?
        .concat())
});
workflow!(SameJoinBranch, |ctx| {
    let quick = || |_: Ctx<SameJoinBranch>| async { ok(String::new()) };
    ok(ctx
        .join("both", (branch("same", quick()), branch("same", quick())))
        .await?
        .0)
});
workflow!(SameBranch, |ctx| {
    let quick = || |_: Ctx<SameBranch>| async { ok(String::new()) };
    ok(ctx
        .race("both", vec![branch("same", quick()), branch("same", quick())])
        .await?
        .value)
});

#[test]
fn names_that_are_none() {
    assert_misuse::<NoName>("1 to 200 bytes", 0);
    assert_misuse::<LongName>("1 to 200 bytes", 0);
    assert_misuse::<LongBranch>("1 to 200 bytes", 0);
    assert_misuse::<SameBranch>("two branches have the name `same`", 0);
    assert_misuse::<SameJoinBranch>("two branches have the name `same`", 0);
}

workflow!(Parsecs, |ctx| {
    ctx.sleep("far", "5 parsecs").await?;
    ok(String::new())
});
workflow!(Eternity, |ctx| ok(ctx
    .step("s", || async { ok(String::new()) })
    .timeout(Duration::MAX)
    .await?));

#[test]
fn durations_that_are_none() {
    assert_misuse::<Parsecs>("is not a duration", 0);
    assert_misuse::<Eternity>("longest wait", 0);
}

fn nest(ctx: Ctx<Deep>, depth: u32) -> BoxFuture<'static, Result<String>> {
    async move {
        if depth == 0 {
            return ok(ctx.step("bottom", || async { ok("done".to_owned()) }).await?);
        }
        let deeper = branch("in", move |ctx| nest(ctx, depth - 1));
        ok(ctx.join("j", vec![deeper]).await?.concat())
    }
    .boxed()
}

workflow!(Deep, |ctx| nest(ctx, 40).await);

/// FAULTS 68.
#[test]
fn nesting_deeper_than_the_limit() {
    let (failure, _) = failure::<Deep>();
    assert!(failure.to_string().contains("more than 64 deep"), "{failure}");
}

workflow!(Forever, |_ctx| {
    std::future::pending::<()>().await;
    ok(String::new())
});

workflow!(Timer, |ctx| {
    ctx.step("s", || async { ok(()) }).await?;
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    let ended = receive.await;
    drop(send);
    ok(format!("{ended:?}"))
});

workflow!(FromStep, |ctx| {
    let (send, receive) = tokio::sync::mpsc::channel::<()>(1);
    let mut receive = Some(receive);
    let tell = move || {
        let send = send.clone();
        async move { ok(send.try_send(()).is_ok()) }
    };
    let step = ctx.step("tells", tell);
    let heard = receive.as_mut().unwrap().recv();
    let (done, heard) = futures_util::join!(step, heard);
    ok(format!("{done:?} {heard:?}"))
});

#[test]
fn a_wait_for_something_that_is_not_an_operation() {
    assert_misuse::<Forever>("not an operation of its context", 0);
    assert_misuse::<Timer>("not an operation of its context", 1);
    assert_misuse::<FromStep>("not an operation of its context", 0);
}

workflow!(Channel, |ctx| {
    let (send, receive) = tokio::sync::oneshot::channel::<u32>();
    let one = async {
        let sent = ctx.step("s", || async { ok(7_u32) }).await?;
        let _ = send.send(sent);
        ok(())
    };
    let two = async { ok(receive.await?) };
    let ((), heard) = futures_util::try_join!(one, two)?;
    ok(heard.to_string())
});

#[test]
fn parts_of_a_function_may_tell_each_other_things() {
    let mut rig = Rig::<Channel>::new(Plan::Evict, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Completed("7".into()));
    assert_eq!(rig.replay("i").unwrap(), Some(End::Completed("7".into())));
}

workflow!(Outliving, |ctx| {
    let mut kept = Vec::new();
    let body = |ctx: Ctx<Outliving>, (): ()| {
        let mut sleep = Box::pin(ctx.sleep("nap", "1h"));
        assert!((&mut sleep).now_or_never().is_none());
        kept.push(sleep);
        kept.push(Box::pin(ctx.sleep("never polled", "1h")));
        async { ok(Loop::Break(())) }
    };
    ctx.repeat("once", (), body).await?;
    let ends: Vec<_> = futures_util::future::join_all(kept).await;
    ok(format!("{ends:?}"))
});

/// Found by reading: what an iteration had asked for was forgotten when it ended, so a future that outlived it never
/// woke, and its entry, when it came, was one that nobody had asked for: the live instance was stuck.
#[test]
fn a_future_that_outlives_its_iteration() {
    let mut rig = Rig::<Outliving>::new(Plan::Live, 1);
    rig.start("i", &());
    let End::Completed(ends) = rig.run("i").unwrap() else {
        panic!("it completes");
    };
    assert_eq!(ends.matches("after the iteration had ended").count(), 2, "{ends}");
}

/// Without a strategy it would be run again.
struct Panics;

impl Workflow for Panics {
    const NAME: &'static str = "Panics";
    type Input = ();
    type Output = String;

    fn policy() -> Policy {
        Policy::new().strategy(Strategy::Compensate)
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<String> {
        ctx.step("s", || async { ok(()) }).await?;
        panic!("a mistake")
    }
}

/// FAULTS 32.
#[test]
fn a_panic_is_a_failure_of_the_workflow() {
    let (failure, entries) = failure::<Panics>();
    assert_eq!((failure.kind, entries), (FailureKind::Panicked, 1));
    assert!(failure.to_string().contains("a mistake"), "{failure}");
}
