//! What can't go on is put aside with the reason, and harms nobody else.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everstep::storage::Store;
use everstep::storage::batch::Batch;
use everstep::storage::engine::{Engine, Group, Owner, Position};
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::{Hold, Status};
use everstep::{Config, Ctx, InstanceId, Result, Runtime, Shard, ok, workflow};

use crate::machine::{Machine, in_virtual_time, settle};

static RENAMED: AtomicBool = AtomicBool::new(false);

#[workflow]
async fn changing(ctx: Ctx<Changing>) -> Result<u32> {
    let name = if RENAMED.load(Ordering::SeqCst) { "new" } else { "old" };
    let number = ctx.step(name, || async { ok(1) }).await?;
    ctx.sleep("pause", "1h").await?;
    ok(number)
}

#[workflow]
async fn plain(ctx: Ctx<Plain>) -> Result<u32> {
    ctx.sleep("pause", "1h").await?;
    ok(ctx.step("only", || async { ok(2) }).await?)
}

fn hold(store: &Store, id: &str) -> Option<Hold> {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    namespace.get(&*snapshot, &Local::Meta(Meta::Hold)).unwrap()
}

/// FAULTS 44: divergence is stuck with a report, and goes on by itself when fixed code is deployed.
#[test]
fn divergence_is_stuck_until_the_code_is_fixed() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(Runtime::builder().workflow(changing), Config::default());
        let runtime = open().await;
        let handle = runtime.start(changing, ()).id("a").await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
        drop((handle, runtime));
        RENAMED.store(true, Ordering::SeqCst);
        let runtime = open().await;
        runtime.nudge("a").unwrap();
        let handle = runtime.handle(changing, "a").unwrap();
        handle.reached(|status| status == Status::Stuck).await.unwrap();
        let held = hold(runtime.store(), "a").unwrap();
        assert!(held.reason.contains("old") && held.report.is_some(), "{held:?}");
        drop((handle, runtime));
        RENAMED.store(false, Ordering::SeqCst);
        let runtime = open().await;
        let handle = runtime.handle(changing, "a").unwrap();
        assert_eq!(handle.result().await.unwrap(), 1);
        assert_eq!(hold(runtime.store(), "a"), None);
    });
}

/// FAULTS 48: a workflow that this process does not know is parked, and runs when it is known again.
#[test]
fn the_unknown_is_parked_until_it_is_known() {
    in_virtual_time(async {
        let machine = Machine::new();
        let known = || machine.open(Runtime::builder().workflow(plain), Config::default());
        let runtime = known().await;
        let handle = runtime.start(plain, ()).id("a").await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
        drop((handle, runtime));
        let runtime = machine.open(Runtime::builder(), Config::default()).await;
        let handle = runtime.handle(plain, "a").unwrap();
        handle.reached(|status| status == Status::Parked).await.unwrap();
        assert!(hold(runtime.store(), "a").unwrap().reason.contains("plain"));
        drop((handle, runtime));
        let runtime = known().await;
        assert_eq!(runtime.handle(plain, "a").unwrap().result().await.unwrap(), 2);
    });
}

/// Puts a byte into a value, past everybody who guards it.
fn damage(machine: &Machine, key: &[u8]) {
    let lease = machine.disk.acquire(Shard(0), Owner(9)).unwrap();
    let mut batch = Batch::new();
    batch.set(key, b"not a value");
    let next = Position {
        sequence: lease.position.sequence + 1,
        chain: lease.position.chain ^ 1,
    };
    let group = Group {
        lease,
        expected: lease.position,
        next,
        batches: &[batch],
    };
    machine.disk.commit(&group).unwrap();
}

/// FAULTS 11: damage in one instance, and in a row beside it, is its own affair.
#[test]
fn a_damaged_instance_harms_nobody_else() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(Runtime::builder().workflow(plain), Config::default());
        let runtime = open().await;
        for id in ["hit", "row", "sound"] {
            let handle = runtime.start(plain, ()).id(id).await.unwrap();
            handle.reached(|status| status == Status::Sleeping).await.unwrap();
        }
        drop(runtime);
        damage(&machine, &Key::Instance(Shard(0), "hit".into(), Local::Name(0)).pack());
        damage(&machine, &Key::Runnable(Shard(0), "row".into()).pack());
        let runtime = open().await;
        assert_eq!(runtime.handle(plain, "sound").unwrap().result().await.unwrap(), 2);
        assert_eq!(runtime.handle(plain, "row").unwrap().result().await.unwrap(), 2);
        let hit = runtime.handle(plain, "hit").unwrap();
        hit.reached(|status| status == Status::Stuck).await.unwrap();
    });
}

static DROPS: AtomicU32 = AtomicU32::new(0);

/// Panics when it is dropped outside of a poll, the first two times.
struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        if DROPS.fetch_add(1, Ordering::SeqCst) < 2 {
            panic!("a destructor that panics");
        }
    }
}

#[workflow]
async fn trapped(ctx: Ctx<Trapped>) -> Result<u32> {
    let _trap = Trap;
    ctx.sleep("pause", "1h").await?;
    ok(3)
}

/// FAULTS 61, 62: a pump that breaks down is restarted, later and later, and nothing is lost.
#[test]
fn what_breaks_down_is_restarted() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(std::time::Duration::ZERO);
        let runtime = machine
            .open(Runtime::builder().workflow(trapped).workflow(plain), config)
            .await;
        let handle = runtime.start(trapped, ()).id("a").await.unwrap();
        let other = runtime.start(plain, ()).id("b").await.unwrap();
        // Long before its alarm: it was not the alarm that brought it back.
        settle().await;
        for _ in 0..20 {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            settle().await;
        }
        assert!(
            DROPS.load(Ordering::SeqCst) > 2,
            "it was restarted after each breakdown"
        );
        assert_eq!(runtime.stats().failing, 0, "and works now");
        assert_eq!(handle.result().await.unwrap(), 3);
        assert_eq!(other.result().await.unwrap(), 2);
    });
}
