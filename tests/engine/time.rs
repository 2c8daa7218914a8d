//! What the code reads as the time: when the last thing that it has seen was decided, and before that, when its run
//! began.

use std::time::{Duration, UNIX_EPOCH};

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Ctx, Policy, Result, Workflow, WorkflowError, ok};

const HOUR: Duration = Duration::from_secs(3600);

/// The time that the code reads, in milliseconds.
fn now<W>(ctx: &Ctx<W>) -> u64 {
    u64::try_from(ctx.now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

define!(Beats: u32 => u64, accepts [], |ctx, beats| {
    if beats == 5 {
        return ok(now(&ctx));
    }
    ctx.sleep_until("next", ctx.now() + HOUR).await?;
    ctx.continue_as_new(beats + 1)
});

/// Found in review: every run read the time at which the instance had been created. A beat that slept until an hour from
/// now and began anew went round without sleeping, as fast as it could.
#[test]
fn time_goes_on_from_run_to_run() {
    in_every_mode::<Beats, _>(1, |rig| {
        let start = rig.now_ms();
        rig.start("i", &0);
        let read = rig.run("i").unwrap();
        assert_eq!(rig.now_ms() - start, 5 * 3_600_000, "five beats are five hours");
        assert_eq!(read, End::Completed(rig.now_ms()));
    });
}

struct TriesAgain;

impl Workflow for TriesAgain {
    const NAME: &'static str = "TriesAgain";
    type Input = ();
    type Output = u64;

    fn policy() -> Policy {
        Policy::new().retries(1).delay(HOUR)
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u64> {
        if ctx.run_number() == 1 {
            return Err(WorkflowError::msg("not yet"));
        }
        ok(now(&ctx))
    }
}

/// Found in review, with the beat.
#[test]
fn a_run_after_a_failure_begins_when_its_time_has_come() {
    for plan in [Plan::Live, Plan::Evict, Plan::CrashAfter(1), Plan::CrashBefore(2)] {
        let mut rig = Rig::<TriesAgain>::new(plan, 1);
        rig.start("i", &());
        let read = rig.run("i").unwrap();
        assert_eq!(read, End::Completed(rig.now_ms()), "{plan:?}");
    }
}
