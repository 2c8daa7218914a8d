//! What follows from a failure, wherever it stands: in a branch, in a child, inside an error of the user's.

use std::time::Duration;

use everstep::storage::record::{Failure, FailureKind, Status};
use everstep::testing::rig::{End, in_every_mode};
use everstep::testing::world::{World, in_every_world};
use everstep::{Ctx, Policy, Result, Strategy, Workflow, WorkflowError, branch, critical, ok, rollback};

/// A workflow without input from a name, a policy, an output type and a body.
macro_rules! workflow {
    ($name:ident, $policy:expr, $output:ty, |$ctx:ident| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = ();
            type Output = $output;

            fn policy() -> Policy {
                $policy
            }

            async fn run($ctx: Ctx<Self>, (): ()) -> Result<$output> {
                $body
            }
        }
    };
}

async fn gives_up<W>(ctx: &Ctx<W>) -> Result<()> {
    let give_up = || async { Err::<(), _>(rollback(WorkflowError::msg("stop and roll back"))) };
    Ok(ctx.step("halt", give_up).await?)
}

async fn takes_hold<W>(ctx: &Ctx<W>) -> Result<()> {
    let hold = ctx.step("hold", || async { ok(()) });
    Ok(hold.rollback(|()| async { ok(()) }).await?)
}

workflow!(Kept, Policy::new().strategy(Strategy::Quarantine), u32, |ctx| {
    takes_hold(&ctx).await?;
    gives_up(&ctx).await?;
    ok(1)
});

workflow!(
    KeptInABranch,
    Policy::new().strategy(Strategy::Quarantine),
    u32,
    |ctx| {
        takes_hold(&ctx).await?;
        let one = branch("one", |ctx: Ctx<Self>| async move { gives_up(&ctx).await });
        let two = branch("two", |_: Ctx<Self>| async { ok(()) });
        ctx.join("both", (one, two)).await?;
        ok(1)
    }
);

/// BEHAVIOUR 5. Found in review: a failure that asked for a rollback was put into quarantine by a workflow that does that
/// with failures, and nothing was undone.
#[test]
fn a_failure_that_asks_for_a_rollback_is_undone_under_every_strategy() {
    fn status<W: Workflow<Input = ()>>() -> (Status, bool)
    where
        W::Output: PartialEq + std::fmt::Debug,
    {
        in_every_mode::<W, _>(1, |rig| {
            rig.start("i", &());
            rig.run("i").unwrap();
            (rig.state("i").status, rig.history("i").contains_key("hold/rollback"))
        })
    }
    assert_eq!(status::<Kept>(), (Status::Compensated, true));
    assert_eq!(status::<KeptInABranch>(), (Status::Compensated, true));
}

#[derive(Debug, thiserror::Error)]
#[error("shipping failed")]
struct Shipping(#[source] Failure);

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Everstep(#[from] Failure),
    #[error("deeper")]
    Deeper(#[source] Shipping),
}

fn five_runs() -> Policy {
    Policy::new().retries(4).delay(Duration::from_millis(1))
}

async fn ships<W>(ctx: &Ctx<W>) -> Result<(), Failure> {
    let work = || async { Err::<(), _>(critical(WorkflowError::msg("never again"))) };
    ctx.step("ship", work).await
}

workflow!(Wraps, five_runs(), u32, |ctx| {
    ships(&ctx).await.map_err(Shipping)?;
    ok(1)
});

workflow!(Forwards, five_runs(), u32, |ctx| {
    ships(&ctx).await.map_err(Trouble::from)?;
    ok(1)
});

workflow!(WrapsTwice, five_runs(), u32, |ctx| {
    ships(&ctx)
        .await
        .map_err(|failure| Trouble::Deeper(Shipping(failure)))?;
    ok(1)
});

/// Found in review: a critical failure inside an error of the user's was one like any other, and the workflow was tried
/// five times.
#[test]
fn a_failure_inside_an_error_keeps_what_is_known_about_it() {
    fn end<W: Workflow<Input = (), Output = u32>>() -> (u32, Failure) {
        in_every_mode::<W, _>(1, |rig| {
            rig.start("i", &());
            match rig.run("i").unwrap() {
                End::Failed(failure) => (rig.state("i").run, failure),
                other => panic!("{other:?}"),
            }
        })
    }
    let texts = [
        "`ship` failed: shipping failed: never again",
        "`ship` failed: never again",
        "`ship` failed: deeper: shipping failed: never again",
    ];
    for ((run, failure), text) in [end::<Wraps>(), end::<Forwards>(), end::<WrapsTwice>()]
        .into_iter()
        .zip(texts)
    {
        assert_eq!(
            (run, failure.kind, failure.attempts),
            (1, FailureKind::Critical, 1),
            "{failure}"
        );
        assert_eq!(failure.to_string(), text);
    }
}

workflow!(RollsBack, Policy::new(), u32, |ctx| {
    gives_up(&ctx).await?;
    ok(1)
});

workflow!(Sleeps, Policy::new(), u32, |ctx| {
    ctx.sleep("long", "10d").await?;
    ok(1)
});

workflow!(Catches, Policy::new(), (bool, bool), |ctx| {
    let rolled_back = ctx.try_scope(
        "one",
        |ctx: Ctx<Self>| async move { ok(ctx.child(RollsBack, ()).await?) },
    );
    let rolled_back = rolled_back.await?;
    let cancelled = ctx.try_scope("two", |ctx: Ctx<Self>| async move {
        ok(ctx.child(Sleeps, ()).id("c").await?)
    });
    ok((rolled_back.is_err(), cancelled.await?.is_err()))
});

/// BEHAVIOUR 9 and 34. Found in review: a child that had rolled back, or that somebody had cancelled, was raised through
/// the scope that was there to catch its failure.
#[test]
fn whatever_a_child_failed_with_can_be_caught() {
    let end = in_every_world(
        |plan| {
            World::new(plan, 1)
                .workflow(RollsBack)
                .workflow(Sleeps)
                .workflow(Catches)
        },
        |world| {
            world.start(Catches, "p", &());
            world.after(Duration::from_secs(60), |world| world.cancel("c", "by an operator"));
            world.run().unwrap();
            world.end(Catches, "p")
        },
    );
    assert_eq!(end, End::Completed((true, true)));
}

workflow!(TriesAgain, five_runs(), u32, |ctx| {
    let number = ctx.run_number();
    if number < 3 {
        ctx.child(RollsBack, ()).await?;
    }
    ok(number)
});

/// BEHAVIOUR 32: nor does what a child failed with say whether its parent is worth another run.
#[test]
fn a_parent_is_tried_again_whatever_its_child_failed_with() {
    let end = in_every_world(
        |plan| World::new(plan, 1).workflow(RollsBack).workflow(TriesAgain),
        |world| {
            world.start(TriesAgain, "p", &());
            world.run().unwrap();
            world.end(TriesAgain, "p")
        },
    );
    assert_eq!(end, End::Completed(3));
}

workflow!(
    Limited,
    Policy::new().deadline(Duration::from_secs(3_600)),
    u32,
    |ctx| {
        ctx.sleep("long", "10d").await?;
        ok(1)
    }
);

workflow!(StartsLimited, Policy::new(), FailureKind, |ctx| {
    let failure = ctx.child(Limited, ()).await.unwrap_err();
    ok(failure.branches[0].1.kind)
});

/// BEHAVIOUR 33. Found in review: the deadline of a workflow did not hold for an instance that another one had started.
#[test]
fn a_child_has_the_deadline_of_its_workflow() {
    let end = in_every_world(
        |plan| World::new(plan, 1).workflow(Limited).workflow(StartsLimited),
        |world| {
            world.start(StartsLimited, "p", &());
            world.run().unwrap();
            world.end(StartsLimited, "p")
        },
    );
    assert_eq!(end, End::Completed(FailureKind::DeadlineExceeded));
}
