//! Sleeping, whatever the clock does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::limits::{ALARM_WINDOW_MAX, WAKE_QUEUE_MAX};
use everstep::storage::record::Status;
use everstep::{Config, Ctx, Message, Result, Runtime, ok, workflow};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::machine::{Machine, in_virtual_time, settle, yields};

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

/// Sleeps for about ten minutes, and then works for a month.
#[workflow]
async fn nodding(ctx: Ctx<Nodding>) -> Result<()> {
    let seconds = if ctx.random().is_multiple_of(2) { 600 } else { 660 };
    ctx.sleep("nod", Duration::from_secs(seconds)).await?;
    let work = || async {
        let month = Duration::from_secs(30 * 24 * 3600);
        let _ = tokio::time::timeout(month, std::future::pending::<()>()).await;
        ok(())
    };
    ok(ctx.step("work", work).await?)
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

/// Found in review: each time that an alarm was earlier than all before it, a timer was begun, and the one that it took
/// the place of went on, and was begun anew again and again.
#[test]
fn an_earlier_alarm_leaves_no_timer_behind() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        let runtime = machine.open(Runtime::builder().workflow(dozing), config).await;
        runtime.start(dozing, 30 * 24 * 3600).await.unwrap();
        settle().await;
        let metrics = tokio::runtime::Handle::current().metrics();
        let before = metrics.num_alive_tasks();
        for _ in 0..50 {
            runtime.start(dozing, 1).await.unwrap().result().await.unwrap();
        }
        settle().await;
        assert_eq!(metrics.num_alive_tasks(), before);
    });
}

/// FAULTS 28, 67: found in review. As many alarms as the window holds were due and had no room, and none of another
/// workflow rang any more.
#[test]
fn alarms_without_room_keep_no_others_from_ringing() {
    const SLEEPERS: usize = ALARM_WINDOW_MAX + 500;
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        let builder = || {
            Runtime::builder()
                .workflow(dozing)
                .workflow(occupying)
                .workflow(nodding)
        };
        {
            let runtime = machine.open(builder(), config.clone()).await;
            for number in 0..SLEEPERS {
                runtime.start(nodding, ()).id(format!("n{number}")).await.unwrap();
            }
            runtime
                .handle(nodding, "n0")
                .unwrap()
                .reached(|status| status == Status::Sleeping)
                .await
                .unwrap();
            settle().await;
        }
        // Half of them are due at the start, the others come due a minute later.
        machine.clock.jump(Duration::from_secs(600), false);
        let config = config.workflow_residents_max("nodding", 1);
        let runtime = machine.open(builder(), config).await;
        settle().await;
        let other = runtime.start(dozing, 120).await.unwrap();
        let result = tokio::time::timeout(Duration::from_secs(180), other.result()).await;
        assert_eq!(result.expect("its alarm rings").unwrap(), 1);
        assert!(runtime.stats().alarms_due > 0, "the others wait for room");
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

/// Tells `engaged` that it may end.
static FREE: Notify = Notify::const_new();

#[workflow]
async fn engaged(ctx: Ctx<Engaged>) -> Result<()> {
    let stay = || async {
        FREE.notified().await;
        ok(())
    };
    ok(ctx.step("stay", stay).await?)
}

/// Found in review: an alarm rang while an operator had the instance, who saw to it that it was woken afterwards. When
/// there was no room then, only those who have something to do were read from the store, and an alarm is not among them.
#[test]
fn an_alarm_that_rings_while_an_operator_has_the_instance_is_not_lost() {
    const OTHERS: usize = WAKE_QUEUE_MAX / 6;
    in_virtual_time(async {
        let mut machine = Machine::new();
        machine.yields = 200;
        let config = Config::default().idle(Duration::ZERO).residents_max(1);
        let builder = Runtime::builder().workflow(engaged).workflow(dozing);
        let runtime = machine.open(builder, config).await;
        let delayed = runtime.start(dozing, 1).after("1000s").await.unwrap();
        settle().await;
        delayed.pause().await.unwrap();
        let occupant = runtime.start(engaged, ()).await.unwrap();
        settle().await;
        let others = (0..OTHERS).map(|_| runtime.start(dozing, 1).into_future());
        join_all(others).await;
        let resume = async { delayed.resume().await.unwrap() };
        let ring = async {
            yields(50).await;
            tokio::time::advance(Duration::from_secs(2000)).await;
        };
        tokio::join!(resume, ring);
        FREE.notify_one();
        occupant.result().await.unwrap();
        let result = tokio::time::timeout(Duration::from_secs(24 * 3600), delayed.result()).await;
        assert_eq!(result.expect("its alarm rings").unwrap(), 1);
    });
}

#[derive(Message, Serialize, Deserialize)]
struct Word(u64);

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Waits for a word for an hour, and for another one for ever.
#[workflow(accepts(Word))]
async fn patient(ctx: Ctx<Patient>) -> Result<u64> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let first = ctx.receive::<Word>().within("1h").await?.map_or(0, |word| word.0);
    ok(first + ctx.receive::<Word>().await?.0)
}

/// FAULTS 29, found in an audit: an alarm that was taken back stayed in the memory of the scheduler, and when its time came
/// it brought its instance into memory, for nothing.
#[test]
fn an_alarm_that_was_taken_back_activates_nobody() {
    const PATIENTS: u64 = 20;

    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        let runtime = machine.open(Runtime::builder().workflow(patient), config).await;
        let mut patients = Vec::new();
        for number in 0..PATIENTS {
            let patient = runtime.start(patient, ()).id(format!("p{number}")).await.unwrap();
            patient.reached(|status| status == Status::Waiting).await.unwrap();
            patients.push(patient);
        }
        settle().await;
        for patient in &patients[1..] {
            patient.send(Word(1)).await.unwrap();
        }
        settle().await;
        assert_eq!(runtime.stats().residents, 0);
        let before = CALLS.swap(0, Ordering::Relaxed);
        assert!(u64::from(before) >= 2 * PATIENTS - 1, "they came and went: {before}");
        tokio::time::advance(2 * HOUR).await;
        settle().await;
        assert_eq!(CALLS.load(Ordering::Relaxed), 1, "the one whose hour was over");
        for patient in &patients {
            patient.send(Word(1)).await.unwrap();
        }
        let heard = join_all(patients.iter().map(|patient| patient.result().into_future())).await;
        let heard: u64 = heard.into_iter().map(std::result::Result::unwrap).sum();
        assert_eq!(heard, 2 * PATIENTS - 1);
    });
}
