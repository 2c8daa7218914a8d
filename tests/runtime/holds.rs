//! What can't go on is put aside with the reason, and harms nobody else.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everstep::limits::{BREAKER_BREAKDOWNS_MAX, PUMP_FAILURES_MAX, RESTART_BACKOFF, RESTARTS_APART};
use everstep::storage::Store;
use everstep::storage::batch::Batch;
use everstep::storage::engine::{Engine, Group, Owner, Position};
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::{Hold, Status};
use everstep::{ClosePolicy, Config, Ctx, Error, InstanceId, Result, Runtime, Shard, ok, workflow};

use crate::machine::{Machine, in_virtual_time, settle, yields};
use crate::telemetry::Kept;

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

/// The same workflow, as newer code has it.
#[workflow(name = "plain", version = 2)]
async fn plain_as_it_will_be(ctx: Ctx<PlainAsItWillBe>) -> Result<u32> {
    ctx.sleep("pause", "1h").await?;
    ok(ctx.step("only", || async { ok(2) }).await? + ctx.instance_version())
}

/// FAULTS 48, 49. Found in review: nobody ever looked at the version of an instance, and older code took up what newer
/// code had begun.
#[test]
fn what_newer_code_began_is_parked_until_it_is_known() {
    in_virtual_time(async {
        let machine = Machine::new();
        let newer = || machine.open(Runtime::builder().workflow(plain_as_it_will_be), Config::default());
        let runtime = newer().await;
        let begun = runtime.start(plain_as_it_will_be, ()).id("a").await.unwrap();
        begun.reached(|status| status == Status::Sleeping).await.unwrap();
        drop((begun, runtime));
        let runtime = machine
            .open(Runtime::builder().workflow(plain), Config::default())
            .await;
        let later = runtime.start(plain, ()).version(2).await.unwrap_err();
        assert_eq!(later.code(), "ES0422", "what nobody here can begin");
        let own = runtime.start(plain, ()).id("c").await.unwrap();
        let begun = runtime.handle(plain, "a").unwrap();
        runtime.nudge("a").unwrap();
        begun.reached(|status| status == Status::Parked).await.unwrap();
        let held = hold(runtime.store(), "a").unwrap();
        assert!(held.reason.contains("up to version 1"), "{held:?}");
        assert_eq!(own.result().await.unwrap(), 2, "others go on");
        drop((begun, own, runtime));
        let runtime = newer().await;
        let handle = runtime.handle(plain_as_it_will_be, "a").unwrap();
        assert_eq!(handle.result().await.unwrap(), 4, "it is found again");
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
        // Found in a review: whoever waited for one that is put aside could not be told.
        let held = handle.result().or_held().timeout("2h").await.unwrap_err();
        assert!(matches!(
            held,
            Error::Held {
                status: Status::Parked,
                ..
            }
        ));
        assert_eq!(handle.result().timeout("1h").await.unwrap_err().code(), "ES0410");
        assert!(hold(runtime.store(), "a").unwrap().reason.contains("plain"));
        drop((handle, runtime));
        let runtime = known().await;
        assert_eq!(runtime.handle(plain, "a").unwrap().result().await.unwrap(), 2);
    });
}

/// Puts a byte into a value, past everybody who guards it.
pub(crate) fn damage(machine: &Machine, key: &[u8]) {
    change(machine, |batch| batch.set(key, b"not a value"));
}

/// Changes what is stored, past everybody who guards it.
fn change(machine: &Machine, change: impl FnOnce(&mut Batch)) {
    let lease = machine.disk.acquire(Shard(0), Owner(9)).unwrap();
    let mut batch = Batch::new();
    change(&mut batch);
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

/// Found in review: one that could not be read kept everyone at its gate who came after it.
#[test]
fn who_is_damaged_keeps_nobody_at_its_gate() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(Runtime::builder().workflow(plain), Config::default());
        let runtime = open().await;
        for id in ["inside", "hit", "waits", "behind"] {
            runtime.start(plain, ()).id(id).at_most(1, "gate").await.unwrap();
        }
        settle().await;
        drop(runtime);
        let state = Local::Meta(Meta::State);
        damage(&machine, &Key::Instance(Shard(0), "hit".into(), state).pack());
        let runtime = open().await;
        for id in ["inside", "waits", "behind"] {
            let handle = runtime.handle(plain, id).unwrap();
            assert_eq!(handle.result().timeout("1d").await.unwrap(), 2, "{id}");
        }
    });
}

/// Waits for three children, which are closed as it is told.
#[workflow]
async fn waits_for_children(ctx: Ctx<WaitsForChildren>, close: ClosePolicy) -> Result<()> {
    let mut children = Vec::new();
    for id in ["first", "hit", "last"] {
        children.push(ctx.child(plain, ()).id(id).close(close).start().await?);
    }
    for child in children {
        child.await?;
    }
    ok(())
}

/// Found in review: the children that a parent closes are named in one row, and one of them that could not be read kept all
/// of them alive.
#[test]
fn a_damaged_child_keeps_none_of_its_siblings() {
    for close in [ClosePolicy::Terminate, ClosePolicy::Cancel] {
        in_virtual_time(async {
            let machine = Machine::new();
            let builder = || Runtime::builder().workflow(plain).workflow(waits_for_children);
            let runtime = machine.open(builder(), Config::default()).await;
            runtime.start(waits_for_children, close).id("parent").await.unwrap();
            settle().await;
            drop(runtime);
            let state = Local::Meta(Meta::State);
            damage(&machine, &Key::Instance(Shard(0), "hit".into(), state).pack());
            let runtime = machine.open(builder(), Config::default()).await;
            runtime.instance("parent").unwrap().terminate("enough").await.unwrap();
            for id in ["first", "last"] {
                let handle = runtime.handle(plain, id).unwrap();
                let end = tokio::time::timeout(Duration::from_secs(60), handle.reached(Status::is_terminal)).await;
                let end = end.unwrap_or_else(|_| panic!("{id} lives on")).unwrap();
                assert_ne!(end, Status::Completed, "{id}");
            }
            assert!(runtime.store().outbox(Shard(0), None).unwrap().rows.is_empty());
        });
    }
}

#[workflow]
async fn two_names(ctx: Ctx<TwoNames>) -> Result<u32> {
    let number = ctx.step("first", || async { ok(1) }).await?;
    ctx.sleep("second", "1h").await?;
    ok(number)
}

/// Found in review: names were read without a look at their numbers. With one of them gone, all that follow were names of
/// other things, and the instance seemed to be one of other code.
#[test]
fn a_missing_name_is_noticed() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(Runtime::builder().workflow(two_names), Config::default());
        let runtime = open().await;
        let handle = runtime.start(two_names, ()).id("hit").await.unwrap();
        handle.reached(|status| status == Status::Sleeping).await.unwrap();
        drop((handle, runtime));
        let first = Key::Instance(Shard(0), "hit".into(), Local::Name(0)).pack();
        change(&machine, |batch| batch.delete(&first));
        let runtime = open().await;
        let hit = runtime.handle(two_names, "hit").unwrap();
        hit.reached(|status| status == Status::Stuck).await.unwrap();
        let held = hold(runtime.store(), "hit").unwrap();
        assert!(held.reason.contains("a gap behind 0 names"), "{held:?}");
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
        let config = Config::default().idle(Duration::ZERO);
        let runtime = machine
            .open(Runtime::builder().workflow(trapped).workflow(plain), config)
            .await;
        let handle = runtime.start(trapped, ()).id("a").await.unwrap();
        let other = runtime.start(plain, ()).id("b").await.unwrap();
        // Long before its alarm: it was not the alarm that brought it back.
        settle().await;
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(1)).await;
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

/// Whoever is dropped with it breaks down, while this says so.
static BREAKS_DOWN: AtomicBool = AtomicBool::new(true);

struct Crumbles;

impl Drop for Crumbles {
    fn drop(&mut self) {
        if BREAKS_DOWN.load(Ordering::SeqCst) && !std::thread::panicking() {
            panic!("a destructor that panics");
        }
    }
}

/// Breaks down whenever it leaves memory, and after a day ends at once when it is there again.
#[workflow]
async fn fragile(ctx: Ctx<Fragile>) -> Result<u32> {
    let _crumbles = Crumbles;
    ctx.sleep("a day", "1d").await?;
    ok(4)
}

/// FAULTS 62: when many of one workflow break down, those who are left of it are not let in for a while. Others are. What
/// broke down and ends does not count as failing any more; found in review, it did for ever.
#[test]
fn a_storm_of_breakdowns_is_held_back() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::ZERO);
        let builder = Runtime::builder().workflow(fragile).workflow(plain);
        let runtime = machine.open(builder, config).await;
        let count = BREAKER_BREAKDOWNS_MAX + 20;
        for number in 0..count {
            runtime.start(fragile, ()).id(format!("f{number}")).await.unwrap();
            yields(20).await;
        }
        assert!(runtime.stats().waiting >= 20, "{:?}", runtime.stats());
        let other = runtime.start(plain, ()).await.unwrap();
        other.reached(|status| status == Status::Sleeping).await.unwrap();
        BREAKS_DOWN.store(false, Ordering::SeqCst);
        for number in 0..count {
            let handle = runtime.handle(fragile, &format!("f{number}")).unwrap();
            assert_eq!(handle.result().await.unwrap(), 4);
        }
        settle().await;
        assert_eq!((runtime.stats().failing, runtime.stats().waiting), (0, 0));
    });
}

/// Goes off when a step that has it is cancelled.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor that panics");
        }
    }
}

#[workflow]
async fn mined(ctx: Ctx<Mined>) -> Result<u32> {
    let tick = || async {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
        ok(1)
    };
    ok(ctx.step("tick", tick).timeout("1s").retries(0).await?)
}

/// Found in review: a destructor that panicked when its attempt had taken too long took the end of that attempt with it,
/// and the step waited for ever.
#[test]
fn a_step_that_panics_when_it_is_cancelled_has_ended() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine
            .open(Runtime::builder().workflow(mined), Config::default())
            .await;
        let handle = runtime.start(mined, ()).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(3600), handle.reached(Status::is_terminal)).await;
        assert_eq!(end.expect("it ends").unwrap(), Status::Failed);
        assert_eq!(runtime.stats().attempts, 0);
    });
}

/// When the function was called, by the time of the executor.
static CALLED_AT: Mutex<Vec<tokio::time::Instant>> = Mutex::new(Vec::new());

/// Panics whenever it is dropped outside of a poll.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor that panics");
        }
    }
}

/// Waits for something that is not the runtime's, which ends it; and whoever drops it then breaks down.
#[workflow]
async fn hopeless(_ctx: Ctx<Hopeless>) -> Result<u32> {
    #[expect(clippy::disallowed_methods, reason = "the time of the test is virtual")]
    CALLED_AT.lock().unwrap().push(tokio::time::Instant::now());
    let _mine = Mine;
    std::future::pending::<()>().await;
    ok(1)
}

/// FAULTS 61: what breaks down each time, with nothing good in between, is restarted a few times, each time after twice as
/// long and a bit by chance, and is then put into quarantine.
#[test]
fn what_breaks_down_each_time_is_put_into_quarantine() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine
            .open(Runtime::builder().workflow(hopeless), Config::default())
            .await;
        // What reads who has to run has come to its end: nobody else activates it.
        settle().await;
        let instance = runtime.start(hopeless, ()).id("h").await.unwrap();
        let quarantined = instance.reached(|status| status == Status::Quarantined);
        let quarantined = tokio::time::timeout(Duration::from_secs(3_600), quarantined).await;
        quarantined.expect("it is put aside").unwrap();
        let held = instance.status().await.unwrap().hold.unwrap();
        assert!(held.reason.contains("broke down"), "{held:?}");
        let called = CALLED_AT.lock().unwrap().clone();
        let gaps: Vec<_> = called.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(called.len(), PUMP_FAILURES_MAX as usize, "{gaps:?}");
        let mut wait = RESTART_BACKOFF.0;
        for pair in called.windows(2) {
            let waited = pair[1] - pair[0];
            let most = wait + wait / 2 + RESTARTS_APART;
            assert!(
                (wait..=most).contains(&waited),
                "{waited:?} is not {wait:?} to {most:?}"
            );
            wait *= 2;
        }
    });
}

/// FAULTS 48: what is parked is not opened again and again by a process that does not know it either.
#[test]
fn what_is_parked_is_left_alone_by_who_does_not_know_it() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        in_virtual_time(async {
            let machine = Machine::new();
            {
                let runtime = machine
                    .open(Runtime::builder().workflow(plain), Config::default())
                    .await;
                let handle = runtime.start(plain, ()).id("p").await.unwrap();
                handle.reached(|status| status == Status::Sleeping).await.unwrap();
                runtime.stop().await;
            }
            tokio::time::advance(Duration::from_secs(3_600)).await;
            {
                let runtime = machine.open(Runtime::builder(), Config::default()).await;
                let handle = runtime.instance("p").unwrap();
                handle.reached(|status| status == Status::Parked).await.unwrap();
                runtime.stop().await;
            }
            let before = kept.values("everstep_residents").len();
            let runtime = machine.open(Runtime::builder(), Config::default()).await;
            assert_eq!((runtime.recovery().runnable, runtime.recovery().unknown), (1, 1));
            settle().await;
            tokio::time::advance(Duration::from_secs(60)).await;
            settle().await;
            let after = kept.values("everstep_residents");
            assert_eq!(&after[before..], [0.0; 0], "it was not in memory");
            assert_eq!(
                runtime.instance("p").unwrap().status().await.unwrap().status,
                Status::Parked
            );
        });
    });
}
