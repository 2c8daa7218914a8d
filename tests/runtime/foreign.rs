//! BEHAVIOUR 28: what waits for something that is no operation of its context is refused as soon as that wakes it,
//! whether it was idle for long enough to leave memory or not.

use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::{Config, Ctx, Error, Handle, Message, Result, Runtime, Workflow, ok, workflow};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::machine::{Machine, in_virtual_time, settle};

#[derive(Message, Serialize, Deserialize)]
struct Tick(u32);

const SOON: Duration = Duration::from_millis(50);

#[workflow(accepts(Tick))]
async fn timer_beside_a_receive(ctx: Ctx<TimerBesideAReceive>) -> Result<bool> {
    ok(tokio::time::timeout(SOON, ctx.receive::<Tick>()).await.is_ok())
}

#[workflow]
async fn timer_beside_a_sleep(ctx: Ctx<TimerBesideASleep>) -> Result<bool> {
    ok(tokio::time::timeout(SOON, ctx.sleep("long", "3s")).await.is_ok())
}

#[workflow]
async fn timer_in_a_select(ctx: Ctx<TimerInASelect>) -> Result<bool> {
    let timer = tokio::time::timeout(SOON, std::future::pending::<()>());
    tokio::select! {
        slept = ctx.sleep("long", "1h") => ok(slept.is_ok()),
        over = timer => ok(over.is_ok()),
    }
}

/// Long enough to stay, and no time at all.
const IDLE: [Duration; 2] = [Duration::from_secs(3600), Duration::ZERO];

async fn assert_refused<W: Workflow<Output = bool>>(handle: &Handle<W>, idle: Duration) {
    let told = handle.result().timeout("1m").await;
    let Err(Error::Failed(failure)) = told else {
        panic!("{}, idle {idle:?}: {told:?}", W::NAME);
    };
    assert_eq!(
        failure.kind,
        FailureKind::Misuse,
        "{}, idle {idle:?}: {failure}",
        W::NAME
    );
    let words = "not an operation of its context";
    assert!(failure.to_string().contains(words), "{}: {failure}", W::NAME);
}

/// Found in review: nobody was told that a timer of the executor had woken the function. The instance waited for ever; or
/// it failed when the sleep beside the timer was over; or it went on as if there had been no timer, if it had left
/// memory meanwhile.
#[test]
fn a_timer_of_the_executor_is_refused_when_it_is_over() {
    for idle in IDLE {
        in_virtual_time(async {
            let builder = Runtime::builder()
                .workflow(timer_beside_a_receive)
                .workflow(timer_beside_a_sleep)
                .workflow(timer_in_a_select);
            let runtime = Machine::new().open(builder, Config::default().idle(idle)).await;
            assert_refused(&runtime.start(timer_beside_a_receive, ()).await.unwrap(), idle).await;
            assert_refused(&runtime.start(timer_beside_a_sleep, ()).await.unwrap(), idle).await;
            assert_refused(&runtime.start(timer_in_a_select, ()).await.unwrap(), idle).await;
        });
    }
}

static ELSEWHERE: Notify = Notify::const_new();

#[workflow(accepts(Tick))]
async fn listens_elsewhere(ctx: Ctx<ListensElsewhere>) -> Result<bool> {
    tokio::select! {
        heard = ctx.receive::<Tick>() => ok(heard.is_ok()),
        () = ELSEWHERE.notified() => ok(false),
    }
}

#[test]
fn a_channel_from_elsewhere_is_refused_when_it_tells_something() {
    for idle in IDLE {
        in_virtual_time(async {
            let builder = Runtime::builder().workflow(listens_elsewhere);
            let runtime = Machine::new().open(builder, Config::default().idle(idle)).await;
            let handle = runtime.start(listens_elsewhere, ()).await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            settle().await;
            ELSEWHERE.notify_waiters();
            assert_refused(&handle, idle).await;
        });
    }
}

#[workflow]
async fn unordered(ctx: Ctx<Unordered>) -> Result<usize> {
    let sleeps: FuturesUnordered<_> = (0..40).map(|n| ctx.sleep(&n.to_string(), "1h")).collect();
    ok(sleeps.collect::<Vec<_>>().await.len())
}

/// A collection of operations is woken by them alone, although it has a waker of its own.
#[test]
fn who_waits_for_operations_alone_leaves_memory() {
    in_virtual_time(async {
        let builder = Runtime::builder().workflow(unordered);
        let runtime = Machine::new()
            .open(builder, Config::default().idle(Duration::ZERO))
            .await;
        let handle = runtime.start(unordered, ()).await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
        settle().await;
        assert_eq!(runtime.stats().residents, 0, "it has nothing to do");
        assert_eq!(handle.result().await.unwrap(), 40);
    });
}

#[workflow(accepts(Tick))]
async fn tells_itself(ctx: Ctx<TellsItself>) -> Result<u32> {
    let (send, receive) = oneshot::channel::<u32>();
    let hears = async {
        let _ = send.send(ctx.receive::<Tick>().await?.0);
        ok(())
    };
    let ((), heard) = futures_util::try_join!(hears, async { ok(receive.await?) })?;
    ok(heard)
}

/// A channel between two parts of a function looks like one from elsewhere. It keeps the instance in memory, and only as
/// long as nobody else needs the place.
#[test]
fn a_channel_within_a_function_keeps_nobody_out() {
    in_virtual_time(async {
        let builder = Runtime::builder().workflow(tells_itself);
        let config = Config::default().idle(Duration::ZERO).residents_max(1);
        let runtime = Machine::new().open(builder, config).await;
        let mut handles = Vec::new();
        for _ in 0..3 {
            let handle = runtime.start(tells_itself, ()).await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            handles.push(handle);
        }
        settle().await;
        assert_eq!(runtime.stats().residents, 1, "the last one stays");
        for handle in &handles {
            handle.send(Tick(7)).await.unwrap();
            assert_eq!(handle.result().await.unwrap(), 7);
        }
    });
}
