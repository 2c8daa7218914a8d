//! FAULTS 22: callers that go away in the middle of a call. What was handed over by then is done, and whoever has to hear of
//! it hears of it; what was not never happened.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{State, Status};
use everstep::storage::{Row, Rows, Store};
use everstep::{Builder, Config, Ctx, Handle, InstanceId, Message, Result, Runtime, Sent, ok, workflow};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::kit::{Word, naps, pass, waits};
use crate::machine::{Machine, in_virtual_time, settle};

const HOUR: Duration = Duration::from_secs(3600);

/// More than any call here takes.
const STEPS: usize = 120;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Opened;

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(u64))]
struct Price;

#[workflow(accepts(Price))]
async fn tells(ctx: Ctx<Tells>) -> Result<()> {
    let asked = ctx.question::<Price>().await?;
    asked.reply(&7)?;
    ok(())
}

#[workflow]
async fn visits(ctx: Ctx<Visits>) -> Result<()> {
    ctx.wait_event::<Opened>().await?;
    ok(())
}

/// Publishes the token of a promise, and waits until it is decided.
#[workflow]
async fn consents(ctx: Ctx<Consents>) -> Result<u64> {
    let consent = ctx.promise::<u64>("consent")?;
    ctx.emit(consent.token().to_string())?;
    ok(consent.await?)
}

/// What a caller is in the middle of when it goes away.
#[derive(Debug, Clone, Copy)]
enum Call {
    Start,
    StartLater,
    StartAtGate,
    Debounce,
    Send,
    Ask,
    Publish,
    Resolve,
    Cancel,
    Pause,
}

const CALLS: [Call; 10] = [
    Call::Start,
    Call::StartLater,
    Call::StartAtGate,
    Call::Debounce,
    Call::Send,
    Call::Ask,
    Call::Publish,
    Call::Resolve,
    Call::Cancel,
    Call::Pause,
];

fn builder() -> Builder {
    Runtime::builder()
        .workflow(naps)
        .workflow(waits)
        .workflow(tells)
        .workflow(visits)
        .workflow(consents)
        .workflow(calls_itself)
        .workflow(works)
}

/// Prepares a call: whoever is called is there, and at rest.
async fn prepare<'r>(runtime: &'r Runtime, call: Call) -> BoxFuture<'r, ()> {
    let waiting = async || {
        let handle = runtime.start(waits, 1).await.unwrap().into_handle();
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        handle
    };
    let called: BoxFuture<'r, ()> = match call {
        Call::Start => Box::pin(async { done(runtime.start(naps, 1)).await }),
        Call::StartLater => Box::pin(async { done(runtime.start(naps, 1).after("1m")).await }),
        Call::StartAtGate => Box::pin(async { done(runtime.start(naps, 1).at_most(1, "gate")).await }),
        Call::Debounce => Box::pin(async { done(runtime.debounce("key", "1m").starts(naps, 1)).await }),
        Call::Send => {
            let handle = waiting().await;
            Box::pin(async move { done(handle.send(Word(1))).await })
        }
        Call::Ask => {
            let handle = runtime.start(tells, ()).await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            Box::pin(async move { done(handle.ask(Price)).await })
        }
        Call::Publish => {
            let handle = runtime.start(visits, ()).await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            Box::pin(async { done(runtime.publish(Opened).keep("1m")).await })
        }
        Call::Resolve => {
            let handle = runtime.start(consents, ()).await.unwrap();
            let token = handle.stream::<String>().next().await.unwrap().unwrap().value;
            Box::pin(async move { done(runtime.resolve(&token, &1_u64)).await })
        }
        Call::Cancel => {
            let handle = waiting().await;
            Box::pin(async move { done(handle.cancel("enough")).await })
        }
        Call::Pause => {
            let handle = waiting().await;
            Box::pin(async move { done(handle.pause()).await })
        }
    };
    pass(HOUR).await;
    called
}

/// A call that works.
async fn done<T>(call: impl IntoFuture<Output = Result<T, everstep::Error>>) {
    call.await.map(|_| ()).unwrap();
}

/// Polls a call and lets the others go on, in turn, so many steps, and goes away. Tells whether it had come to its end.
async fn go_away_after(steps: usize, mut call: BoxFuture<'_, ()>) -> bool {
    for step in 0..steps {
        if !step.is_multiple_of(2) {
            tokio::task::yield_now().await;
        } else if futures_util::poll!(&mut call).is_ready() {
            return true;
        }
    }
    false
}

/// Whether nobody has anything to do that nobody does: nothing is on its way, no alarm is left, and whoever should run has
/// no message that it did not look at.
fn rests(store: &Store) -> bool {
    let has_news = |instance: &InstanceId| {
        let namespace = store.namespace(instance);
        let snapshot = store.snapshot(namespace.shard()).unwrap();
        let state: State = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap();
        let mut unread = 0;
        let count = &mut |_: Local<'_>, _: Row<'_>| {
            unread += 1;
            Ok(())
        };
        namespace.list(&*snapshot, Rows::Inbox, count).unwrap();
        unread > 0 || !matches!(state.status, Status::Waiting | Status::Paused)
    };
    store.shards().all(|shard| {
        let (runnable, outbox) = (store.runnable(shard, None).unwrap(), store.outbox(shard, None).unwrap());
        let alarms = store.alarms(shard, None).unwrap();
        let news = runnable.rows.iter().any(|(instance, _)| has_news(instance));
        !news && outbox.rows.is_empty() && alarms.rows.is_empty()
    })
}

/// Found in review: a caller was dropped while its commit was on its way. The commit was done, and nobody was told: neither
/// the instance, nor the alarms, nor the courier. Sending again said that it was a duplicate, and told nobody either.
#[test]
fn what_was_handed_over_is_heard_of_without_its_caller() {
    in_virtual_time(async {
        let mut machine = Machine::new();
        machine.yields = 5;
        let runtime = machine.open(builder(), Config::default()).await;
        for call in CALLS {
            let mut ended = false;
            for steps in 1..STEPS {
                let calling = prepare(&runtime, call).await;
                ended = go_away_after(steps, calling).await;
                pass(HOUR).await;
                assert!(rests(runtime.store()), "{call:?}, dropped after {steps} steps");
                if ended {
                    break;
                }
            }
            assert!(ended, "{call:?} takes more than that");
        }
    });
}

/// Sending again says that it was there before. If whoever sent it then did not live to tell the instance, it is told now.
#[test]
fn a_duplicate_wakes_who_has_not_taken_the_first() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let handle = runtime.start(waits, 1).await.unwrap();
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        settle().await;
        let lost = AtomicU32::new(0);
        runtime.lose_nudges(move || lost.fetch_add(1, Ordering::Relaxed) == 0);
        assert_eq!(handle.send(Word(7)).id("m").await.unwrap(), Sent::Accepted);
        pass(HOUR).await;
        assert_eq!(handle.status().await.unwrap().status, Status::Waiting, "nobody told it");
        assert_eq!(handle.send(Word(7)).id("m").await.unwrap(), Sent::Duplicate);
        assert_eq!(handle.result().timeout("1h").await.unwrap(), [7]);
    });
}

/// Calls of the step of [`works`], by the id of the instance.
static WORKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A step of a minute, behind one of no time.
#[workflow]
async fn works(ctx: Ctx<Works>) -> Result<u32> {
    ctx.step("pack", || async { ok(()) }).await?;
    let work = |attempt: everstep::Attempt| async move {
        WORKED.lock().unwrap().push(attempt.instance().to_string());
        pass(Duration::from_secs(60)).await;
        ok(1)
    };
    ok(ctx.step("work", work).await?)
}

fn worked(handle: &Handle<Works>) -> usize {
    let worked = WORKED.lock().unwrap();
    worked
        .iter()
        .filter(|instance| *instance == handle.id().as_str())
        .count()
}

/// What needs the instance alone.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Terminate,
    Reset,
    Passivate,
}

/// Found in review: an operator was dropped while it waited for the instance to leave memory. The instance left, nobody
/// took it, and nobody woke it again: it was running, and did nothing for ever.
#[test]
fn an_operator_that_goes_away_leaves_no_instance_behind() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        for operation in [Operation::Terminate, Operation::Reset, Operation::Passivate] {
            let (mut undisturbed, mut ended) = (0, false);
            for steps in 1..STEPS {
                let handle = runtime.start(works, ()).await.unwrap().into_handle();
                settle().await;
                let operating: BoxFuture<'_, ()> = match operation {
                    Operation::Terminate => Box::pin(async { done(handle.terminate("enough")).await }),
                    Operation::Reset => Box::pin(async { done(handle.reset("pack")).await }),
                    Operation::Passivate => Box::pin(async { runtime.passivate(handle.id().as_str()).await.unwrap() }),
                };
                ended = go_away_after(steps, operating).await;
                let told = format!("{operation:?}, dropped after {steps} steps");
                let end = tokio::time::timeout(HOUR, handle.reached(Status::is_terminal)).await;
                let end = end.unwrap_or_else(|_| panic!("{told}: nobody wakes it again")).unwrap();
                let whole = worked(&handle) == 1 && end == Status::Completed;
                undisturbed += usize::from(whole);
                let expected = match operation {
                    Operation::Terminate => Status::Terminated,
                    _ => Status::Completed,
                };
                assert!(whole || end == expected, "{told}: {end}");
                if ended {
                    break;
                }
            }
            assert!(ended, "{operation:?} takes more than that");
            assert!(
                undisturbed > 0,
                "{operation:?}: until the instance has looked, nothing has happened"
            );
        }
    });
}

/// Operators that wait for each other: the instance is not activated in between, and the one that goes away is missed by
/// nobody.
#[test]
fn of_several_operators_some_go_away() {
    in_virtual_time(async {
        let mut machine = Machine::new();
        machine.yields = 5;
        let runtime = machine.open(builder(), Config::default()).await;
        for steps in 1..STEPS {
            let handle = runtime.start(works, ()).await.unwrap().into_handle();
            settle().await;
            let id = handle.id().as_str();
            let first = async { runtime.passivate(id).await.unwrap() };
            let second = async { drop(handle.reset("pack").await) };
            let gone = go_away_after(
                steps,
                Box::pin(async {
                    let ((), ()) = futures_util::join!(first, second);
                }),
            );
            futures_util::join!(gone, async { runtime.passivate(id).await.unwrap() });
            let end = tokio::time::timeout(HOUR, handle.reached(Status::is_terminal)).await;
            assert!(end.is_ok(), "dropped after {steps} steps: nobody wakes it again");
        }
    });
}

/// How often the step of [`calls_itself`] was called.
static CALLED: AtomicU32 = AtomicU32::new(0);

/// The runtime that a step calls.
static RUNTIME: Mutex<Option<std::sync::Arc<Runtime>>> = Mutex::new(None);

/// Terminates itself, from a step.
#[workflow]
async fn calls_itself(ctx: Ctx<CallsItself>) -> Result<()> {
    let end = |attempt: everstep::Attempt| async move {
        CALLED.fetch_add(1, Ordering::Relaxed);
        let runtime = RUNTIME.lock().unwrap().clone().unwrap();
        runtime
            .instance(attempt.instance().as_str())?
            .terminate("enough")
            .await?;
        ok(())
    };
    ok(ctx.step("end", end).await?)
}

/// Found in review: a step that terminated its own instance was cancelled by that, and with it the operation that the
/// instance had made room for.
#[test]
fn a_step_may_end_its_own_instance() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = std::sync::Arc::new(machine.open(builder(), Config::default()).await);
        *RUNTIME.lock().unwrap() = Some(std::sync::Arc::clone(&runtime));
        let handle = runtime.start(calls_itself, ()).await.unwrap();
        let end = tokio::time::timeout(HOUR, handle.reached(Status::is_terminal)).await;
        RUNTIME.lock().unwrap().take();
        assert_eq!(end.expect("it ends").unwrap(), Status::Terminated);
        assert_eq!(CALLED.load(Ordering::Relaxed), 1);
    });
}
