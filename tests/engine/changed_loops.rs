//! Loops whose body changes while they run, or after they have run.

use std::sync::atomic::{AtomicU32, Ordering};

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Ctx, Loop, Message, Result, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

/// Attempts at what was put into an iteration that was over.
static AUDITS: AtomicU32 = AtomicU32::new(0);

/// Code of the one workflow that these tests deploy again and again.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = u32;

            async fn run($ctx: Ctx<Self>, _: ()) -> Result<u32> {
                $body
            }
        }

        impl Accepts<News> for $name {}
    };
}

fn started<W: Workflow<Input = (), Output = u32>>() -> Rig<W> {
    let mut rig = Rig::new(Plan::Evict, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    rig
}

/// Three iterations, and a fourth that waits.
macro_rules! tail {
    ($name:ident, $tail:expr) => {
        code!($name, |ctx| {
            let body = |ctx: Ctx<$name>, turn: u32| async move {
                ctx.step("first", || async { ok(()) }).await?;
                if turn == 3 {
                    return ok(Loop::Break(ctx.receive::<News>().await?.0));
                }
                if $tail {
                    ctx.step("last", || async { ok(()) }).await?;
                }
                ok(Loop::Continue(turn + 1))
            };
            ctx.repeat("loop", 0, body).await
        });
    };
}

tail!(WithTail, true);
tail!(WithoutTail, false);

/// Found in review: what was recorded at the end of an iteration was put away with it, whether the code had asked for it
/// or not.
#[test]
fn a_step_that_is_gone_from_the_end_of_an_iteration_is_divergence() {
    let mut changed = started::<WithTail>().deploy::<WithoutTail>();
    let divergence = changed.run("i").unwrap_err();
    assert_eq!(
        (divergence.path.as_str(), divergence.recorded.as_deref()),
        ("loop/loop~0/last", Some("step"))
    );
    let mut same = changed.deploy::<WithTail>();
    same.send("i", &News(7));
    assert_eq!(same.run("i").unwrap(), End::Completed(7));
}

/// A loop that is over, and whose last iteration can still be undone.
macro_rules! retained {
    ($name:ident, |$inside:ident| $more:expr) => {
        code!($name, |ctx| {
            let body = |$inside: Ctx<$name>, turn: u32| async move {
                $inside.checkpoint("here")?;
                let book = $inside.step("book", move || async move { ok(turn) });
                book.rollback(|_: u32| async { ok(()) }).await?;
                $more;
                ok(if turn == 2 {
                    Loop::Break(())
                } else {
                    Loop::Continue(turn + 1)
                })
            };
            ctx.repeat("rooms", 0, body).await?;
            ok(ctx.receive::<News>().await?.0)
        });
    };
}

/// A step that was put in later.
macro_rules! audit {
    ($ctx:expr) => {
        $ctx.step("audit", || async {
            AUDITS.fetch_add(1, Ordering::Relaxed);
            ok(())
        })
        .await?
    };
}

retained!(Books, |ctx| _ = ctx.now());
retained!(Audits, |ctx| audit!(ctx));
retained!(AuditsFromNowOn, |ctx| if ctx.patched("audit")? {
    audit!(ctx);
});

/// Found in review: the last iteration of a loop that is over is gone through again, so that it can be undone. A step that
/// new code had put there was done, and a gate sent the code there.
#[test]
fn an_iteration_that_is_over_does_nothing_new() {
    let mut changed = started::<Books>().deploy::<Audits>();
    let divergence = changed.run("i").unwrap_err();
    assert_eq!(
        (divergence.path.as_str(), divergence.asked.as_deref()),
        ("rooms/rooms~2/audit", Some("step"))
    );
    let mut gated = changed.deploy::<AuditsFromNowOn>();
    gated.send("i", &News(7));
    assert_eq!(gated.run("i").unwrap(), End::Completed(7));
    assert_eq!(AUDITS.load(Ordering::Relaxed), 0);
}
