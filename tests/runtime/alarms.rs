//! Sleeping, whatever the clock does.

use std::time::Duration;

use everstep::limits::ALARM_WINDOW_MAX;
use everstep::storage::record::Status;
use everstep::{Config, Ctx, Result, Runtime, ok, workflow};
use tokio::sync::Notify;

use crate::machine::{Machine, in_virtual_time, settle};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn dozing(ctx: Ctx<Dozing>, seconds: u64) -> Result<u32> {
    ctx.sleep("doze", Duration::from_secs(seconds)).await?;
    ok(ctx.step("woken", || async { ok(1) }).await?)
}

/// Tells the one that occupies the only place to leave it.
static LEAVE: Notify = Notify::const_new();

#[workflow]
async fn occupying(ctx: Ctx<Occupying>) -> Result<()> {
    let stay = || async {
        LEAVE.notified().await;
        ok(())
    };
    ok(ctx.step("stay", stay).await?)
}

/// FAULTS 23, 24: the clock is set back or forward while an alarm is pending. It rings, once, and no later than the
/// jump explains.
#[test]
fn jumps_of_the_clock_lose_nothing() {
    in_virtual_time(async {
        for (back, idle) in [
            (true, HOUR),
            (true, Duration::ZERO),
            (false, HOUR),
            (false, Duration::ZERO),
        ] {
            let machine = Machine::new();
            let config = Config::default().idle(idle);
            let runtime = machine.open(Runtime::builder().workflow(dozing), config).await;
            let handle = runtime.start(dozing, 1800).id("a").await.unwrap();
            handle.reached(|status| status == Status::Sleeping).await.unwrap();
            tokio::time::advance(Duration::from_secs(1795)).await;
            machine.clock.jump(HOUR, back);
            let most = if back {
                HOUR + Duration::from_secs(30)
            } else {
                Duration::from_secs(30)
            };
            let result = tokio::time::timeout(most, handle.result()).await;
            assert_eq!(
                result.expect("it rings in time").unwrap(),
                1,
                "back: {back}, idle: {idle:?}"
            );
        }
    });
}

/// FAULTS 23: the clock is set back between the ring and the look. The instance finds that it is too early, and is woken
/// again.
#[test]
fn an_alarm_that_was_too_early_rings_again() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO).residents_max(1);
        let builder = Runtime::builder().workflow(dozing).workflow(occupying);
        let runtime = machine.open(builder, config).await;
        let handle = runtime.start(dozing, 5).id("a").await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
        settle().await;
        let only = runtime.start(occupying, ()).id("b").await.unwrap();
        settle().await;
        tokio::time::advance(Duration::from_secs(20)).await;
        settle().await;
        assert_eq!(runtime.stats().waiting, 1, "its alarm rang, and there is no room");
        machine.clock.jump(Duration::from_secs(60), true);
        LEAVE.notify_one();
        only.result().await.unwrap();
        let result = tokio::time::timeout(HOUR, handle.result()).await;
        assert_eq!(result.expect("it rings again").unwrap(), 1);
    });
}

/// FAULTS 25, 27, 28: more alarms than the window holds come due while no process is there. All ring after the start,
/// through the door that everybody goes through.
#[test]
fn what_came_due_meanwhile_rings_after_the_start() {
    const SLEEPERS: u32 = ALARM_WINDOW_MAX as u32 + 100;
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        {
            let runtime = machine.open(Runtime::builder().workflow(dozing), config.clone()).await;
            for number in 0..SLEEPERS {
                runtime.start(dozing, 600).id(format!("s{number}")).await.unwrap();
            }
            for number in 0..SLEEPERS {
                let handle = runtime.handle(dozing, &format!("s{number}")).unwrap();
                handle.reached(|status| status == Status::Sleeping).await.unwrap();
            }
        }
        machine.clock.jump(HOUR, false);
        let config = config.residents_max(16);
        let runtime = machine.open(Runtime::builder().workflow(dozing), config).await;
        assert_eq!(runtime.recovery().due, u64::from(SLEEPERS));
        for number in 0..SLEEPERS {
            let handle = runtime.handle(dozing, &format!("s{number}")).unwrap();
            assert_eq!(handle.result().await.unwrap(), 1);
            assert!(runtime.stats().residents <= 16);
        }
    });
}
