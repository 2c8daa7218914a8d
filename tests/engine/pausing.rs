//! An instance that is held begins nothing, loses nothing, and goes on where it was. BEHAVIOUR 44.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Ctx, Message, Policy, Result, Workflow, WorkflowError, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => Vec<u32>, accepts [News], |$ctx, _| $body);
    };
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Holds an instance from second 10 to second 100, in every mode, and tells how it looked at second 60 and how and
/// when it ended.
fn held<W: Workflow<Input = (), Output = Vec<u32>> + Accepts<News>>() -> (End<Vec<u32>>, u64) {
    in_every_mode::<W, _>(1, |rig| {
        let begin = rig.now_ms();
        rig.start("i", &());
        rig.pause_after("i", secs(10));
        rig.pause_after("i", secs(11));
        rig.send_after("i", secs(20), &News(1));
        rig.send_after("i", secs(21), &News(2));
        rig.resume_after("i", secs(100));
        rig.resume_after("i", secs(101));
        assert_eq!(rig.run_for("i", secs(60)).unwrap(), End::Waiting);
        let state = rig.state("i");
        assert_eq!((state.status, state.paused), (Status::Paused, true));
        assert_eq!(state.alarm_at_ms, None, "alarms that come due wait");
        assert_eq!(rig.inbox_len("i"), 2, "messages stay");
        let end = rig.run("i").unwrap();
        assert_eq!(rig.replay("i").unwrap().as_ref(), Some(&end));
        (end, (rig.now_ms() - begin) / 1_000)
    })
}

workflow!(Sleeps, |ctx| {
    ctx.sleep("s", "30s").await?;
    ok(vec![])
});

workflow!(SleepsLonger, |ctx| {
    ctx.sleep("s", "200s").await?;
    ok(vec![])
});

workflow!(Receives, |ctx| {
    let first = ctx.receive::<News>().timeout("50s").await?;
    let second = ctx.receive::<News>().await?;
    ok(vec![first.0, second.0])
});

#[test]
fn what_waits_goes_on_when_the_instance_does() {
    assert_eq!(held::<Sleeps>(), (End::Completed(vec![]), 100));
    assert_eq!(held::<SleepsLonger>(), (End::Completed(vec![]), 200));
    // The message came before the time was over, and was there when the instance went on.
    assert_eq!(held::<Receives>(), (End::Completed(vec![1, 2]), 100));
}

static ATTEMPTS: AtomicU32 = AtomicU32::new(0);

workflow!(Retries, |ctx| {
    let fails = || async {
        let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        if attempt == 0 {
            Err(WorkflowError::msg("no"))
        } else {
            ok(attempt)
        }
    };
    let attempts = ctx.step("s", fails).delay("40s").await?;
    ok(vec![attempts])
});

#[test]
fn no_attempt_begins_meanwhile() {
    let mut rig = Rig::<Retries>::new(Plan::Live, 1);
    ATTEMPTS.store(0, Ordering::Relaxed);
    rig.start("i", &());
    rig.pause_after("i", secs(10));
    assert_eq!(rig.run_for("i", secs(600)).unwrap(), End::Waiting);
    assert_eq!(ATTEMPTS.load(Ordering::Relaxed), 1);
    rig.resume_after("i", secs(0));
    assert_eq!(rig.run("i").unwrap(), End::Completed(vec![1]));
}

static SECOND: AtomicU32 = AtomicU32::new(0);

workflow!(Steps, |ctx| {
    let first = ctx.step("first", || async { ok(1) }).await?;
    let second = || async {
        SECOND.fetch_add(1, Ordering::Relaxed);
        ok(2)
    };
    ok(vec![first, ctx.step("second", second).await?])
});

/// An attempt that runs when the instance is held finishes and is recorded; the next one does not begin.
#[test]
fn what_runs_finishes_and_is_recorded() {
    SECOND.store(0, Ordering::Relaxed);
    let mut rig = Rig::<Steps>::new(Plan::Live, 5).spread(u64::MAX, Duration::from_millis(1));
    rig.start("i", &());
    rig.pause_after("i", Duration::ZERO);
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    assert!(rig.history("i")["first"].completed.is_some());
    assert_eq!(SECOND.load(Ordering::Relaxed), 0);
    assert_eq!(rig.state("i").status, Status::Paused);
    rig.resume_after("i", Duration::ZERO);
    assert_eq!(rig.run("i").unwrap(), End::Completed(vec![1, 2]));
}

/// Found by thinking: an instance that is held from its first moment has not called its code at all.
#[test]
fn an_instance_can_be_held_before_it_runs_and_cancelled_while_it_is_held() {
    let end = in_every_mode::<Sleeps, _>(1, |rig| {
        rig.start("i", &());
        rig.pause("i");
        rig.cancel_after("i", secs(5), "enough");
        rig.resume_after("i", secs(50));
        rig.run_for("i", secs(20)).unwrap();
        assert_eq!(rig.state("i").status, Status::Paused);
        assert_eq!(rig.inbox_len("i"), 1, "that it is to end, it is told when it goes on");
        let end = rig.run("i").unwrap();
        assert_eq!(rig.state("i").status, Status::Cancelled);
        end
    });
    assert!(matches!(end, End::Failed(_)));
}

/// Fails once, and begins again an hour later.
struct Again;

impl Workflow for Again {
    const NAME: &'static str = "again";
    type Input = ();
    type Output = Vec<u32>;

    fn policy() -> Policy {
        Policy::new().retries(1).delay(secs(3_600))
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<Vec<u32>> {
        everstep::ensure!(ctx.run_number() > 1, "a glitch");
        ctx.sleep("a moment", "1s").await?;
        ok(vec![2])
    }
}

/// Found in review: the time at which the next run is due went with the alarm when the instance was paused, and it began
/// when it was resumed.
#[test]
fn a_pause_does_not_cut_the_wait_between_two_runs() {
    let took = |pauses: &[u64]| {
        in_every_mode::<Again, _>(1, |rig| {
            let begin = rig.now_ms();
            rig.start("i", &());
            for at in pauses {
                rig.pause_after("i", secs(*at));
                rig.resume_after("i", secs(at + 60));
            }
            assert_eq!(rig.run("i").unwrap(), End::Completed(vec![2]));
            (rig.now_ms() - begin) / 1_000
        })
    };
    let undisturbed = took(&[]);
    assert!(undisturbed > 1_800, "{undisturbed}");
    assert_eq!(took(&[60]), undisturbed);
    assert_eq!(took(&[60, 600]), undisturbed);
    assert_eq!(took(&[undisturbed - 31]), undisturbed + 30, "it is due when it is held");
}
