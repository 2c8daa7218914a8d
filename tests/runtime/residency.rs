//! Who is in memory: not the idle, never more than allowed, never twice.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::machine::{Machine, in_virtual_time, settle, yields};

#[derive(Message, Serialize, Deserialize)]
struct Tick(u32);

/// How many live functions each instance has now, and had at most.
static LIVE: LazyLock<Mutex<HashMap<String, (u32, u32)>>> = LazyLock::new(Mutex::default);

struct Alive(String);

impl Alive {
    fn new(id: &str) -> Self {
        let mut live = LIVE.lock().unwrap();
        let (now, most) = live.entry(id.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self(id.to_owned())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        LIVE.lock().unwrap().get_mut(&self.0).unwrap().0 -= 1;
    }
}

/// Adds up ticks until it has them all.
#[workflow(accepts(Tick))]
async fn adding(ctx: Ctx<Adding>, input: (String, u32)) -> Result<u32> {
    let (id, ticks) = input;
    let _alive = Alive::new(&id);
    let mut sum = 0;
    for _ in 0..ticks {
        sum += ctx.receive::<Tick>().await?.0;
    }
    ok(sum)
}

/// BEHAVIOUR 47: what has nothing to do leaves memory after its idle time, and goes on when there is news.
#[test]
fn the_idle_leave_and_come_back() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::from_secs(60));
        let runtime = machine.open(Runtime::builder().workflow(adding), config).await;
        let handle = runtime.start(adding, ("idle".into(), 2)).id("idle").await.unwrap();
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        settle().await;
        assert_eq!(runtime.stats().residents, 1, "it stays for a while");
        tokio::time::advance(Duration::from_secs(61)).await;
        settle().await;
        assert_eq!(runtime.stats().residents, 0, "and leaves then");
        assert_eq!(LIVE.lock().unwrap()["idle"].0, 0, "nothing of it is in memory");
        handle.send(Tick(1)).await.unwrap();
        handle.send(Tick(2)).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 3);
    });
}

/// The bound holds, and nobody is starved by it: the least recently used makes room.
#[test]
fn memory_is_bounded() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::from_secs(3600)).residents_max(3);
        let runtime = machine.open(Runtime::builder().workflow(adding), config).await;
        let mut handles = Vec::new();
        for number in 0..20 {
            let id = format!("bound-{number}");
            handles.push(runtime.start(adding, (id.clone(), 2)).id(id).await.unwrap());
        }
        for handle in &handles {
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            assert!(runtime.stats().residents <= 3, "{:?}", runtime.stats());
        }
        for tick in 1..=2 {
            for handle in &handles {
                handle.send(Tick(tick)).await.unwrap();
                assert!(runtime.stats().residents <= 3, "{:?}", runtime.stats());
            }
        }
        for handle in &handles {
            assert_eq!(handle.result().await.unwrap(), 3);
        }
    });
}

/// BEHAVIOUR 47: when there is no room left, whoever has had nothing to do for longest makes it.
#[test]
fn the_longest_idle_leave_first() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::from_secs(3600)).residents_max(3);
        let runtime = machine.open(Runtime::builder().workflow(adding), config).await;
        let start = async |id: &str| {
            let handle = runtime.start(adding, (id.to_owned(), 3)).id(id).await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            settle().await;
            tokio::time::advance(Duration::from_secs(1)).await;
            handle
        };
        let live = |ids: [&str; 5]| ids.map(|id| LIVE.lock().unwrap().get(id).map_or(0, |(now, _)| *now));
        let ids = ["lru-a", "lru-b", "lru-c", "lru-d", "lru-e"];
        let first = start(ids[0]).await;
        start(ids[1]).await;
        start(ids[2]).await;
        assert_eq!(live(ids), [1, 1, 1, 0, 0]);
        // The first one has just had something to do.
        first.send(Tick(1)).await.unwrap();
        settle().await;
        start(ids[3]).await;
        assert_eq!(live(ids), [1, 0, 1, 1, 0]);
        start(ids[4]).await;
        assert_eq!(live(ids), [1, 0, 0, 1, 1]);
    });
}

/// Tells a busy one that it may go on.
static GO_ON: Notify = Notify::const_new();

/// Works until it is told to go on, and then waits for a tick.
#[workflow(accepts(Tick))]
async fn working(ctx: Ctx<Working>) -> Result<u32> {
    let work = || async {
        GO_ON.notified().await;
        ok(())
    };
    ctx.step("work", work).await?;
    ok(ctx.receive::<Tick>().await?.0)
}

/// Found in review: whoever has nothing to do makes room when all places are taken, but not when those of its own
/// workflow were.
#[test]
fn the_idle_make_room_for_their_own_workflow() {
    in_virtual_time(async {
        let machine = Machine::new();
        let idle = Duration::from_secs(36_000);
        let config = Config::default().idle(idle).workflow_residents_max("adding", 1);
        let builder = Runtime::builder().workflow(adding).workflow(working);
        let runtime = machine.open(builder, config).await;
        let other = runtime.start(working, ()).await.unwrap();
        GO_ON.notify_one();
        other.reached(|status| status == Status::Waiting).await.unwrap();
        for number in 0..3 {
            let id = format!("own-{number}");
            let handle = runtime.start(adding, (id.clone(), 1)).id(id).await.unwrap();
            let waits = handle.reached(|status| status == Status::Waiting);
            tokio::time::timeout(Duration::from_secs(60), waits)
                .await
                .unwrap()
                .unwrap();
            settle().await;
            assert_eq!(runtime.stats().residents, 2, "the other workflow is left alone");
        }
    });
}

/// Found in review: when a place was wanted and nobody was idle, those who became so later did not make room.
#[test]
fn who_becomes_idle_when_room_is_wanted_makes_it() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::from_secs(36_000)).residents_max(1);
        let builder = Runtime::builder().workflow(adding).workflow(working);
        let runtime = machine.open(builder, config).await;
        let busy = runtime.start(working, ()).await.unwrap();
        settle().await;
        let next = runtime.start(adding, ("later".into(), 1)).await.unwrap();
        settle().await;
        assert_eq!(next.status().await.unwrap().status, Status::Pending);
        GO_ON.notify_one();
        let waits = next.reached(|status| status == Status::Waiting);
        tokio::time::timeout(Duration::from_secs(60), waits)
            .await
            .unwrap()
            .unwrap();
        busy.send(Tick(5)).await.unwrap();
        assert_eq!(busy.result().await.unwrap(), 5, "and comes back when there is news");
    });
}

/// FAULTS 53, 55: activation races passivation. A message comes to an instance that is coming, looking, staying, leaving or
/// gone, at every moment that a fast or a slow disk makes. It is the only message: if its nudge is lost, nobody else
/// wakes the instance. It is sent in a task, so that the sender may hear of it before the instance does.
#[test]
fn there_are_never_two_and_no_nudge_is_lost() {
    in_virtual_time(async {
        let (gone, stays) = (Duration::ZERO, Duration::from_secs(36_000));
        for (slow, idle) in [0, 1, 2, 4, 8]
            .into_iter()
            .flat_map(|slow| [(slow, gone), (slow, stays)])
        {
            let mut machine = Machine::new();
            machine.yields = slow;
            let config = Config::default().idle(idle);
            let runtime = machine.open(Runtime::builder().workflow(adding), config).await;
            for late in 0..40 {
                let id = format!("race-{slow}-{late}-{idle:?}");
                let handle = runtime.start(adding, (id.clone(), 1)).id(id.clone()).await.unwrap();
                let sender = handle.clone();
                let mut sending = JoinSet::new();
                sending.spawn(async move {
                    yields(late).await;
                    sender.send(Tick(7)).await.unwrap();
                });
                sending.join_all().await;
                let result = tokio::time::timeout(Duration::from_secs(3600), handle.result()).await;
                assert_eq!(result.expect(&id).unwrap(), 7, "{id}");
                assert_eq!(LIVE.lock().unwrap()[&id].1, 1, "{id} was in memory twice");
            }
        }
    });
}
