//! What instances have for each other gets there, in order, and nobody keeps the others waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use everstep::storage::Pace;
use everstep::storage::key::Key;
use everstep::storage::record::Status;
use everstep::{Builder, ClosePolicy, Config, Ctx, Result, Runtime, Shard, Simulated, ok, workflow};

use crate::holds::damage;
use crate::kit::{Word, machine, pass, waits};
use crate::machine::{Machine, in_virtual_time, settle};

const HOUR: Duration = Duration::from_secs(3600);

/// Three generations, each closed at once when the one above it ends.
#[workflow]
async fn tree(ctx: Ctx<Tree>, depth: u32) -> Result<()> {
    if depth == 0 {
        ctx.sleep("a year", "365d").await?;
        return ok(());
    }
    let child = ctx.child(tree, depth - 1).id(format!("{}", depth - 1));
    ok(child.close(ClosePolicy::Terminate).await?)
}

/// Sends a word to `ear`.
#[workflow]
async fn talks(ctx: Ctx<Talks>) -> Result<()> {
    ok(ctx.send(waits, "ear", Word(7)).await?)
}

/// Waits for so many children, which are ended at once when it is.
#[workflow]
async fn raises(ctx: Ctx<Raises>, count: usize) -> Result<()> {
    let mut children = Vec::new();
    for number in 0..count {
        let child = ctx.child(waits, 1).id(format!("child-{number}"));
        children.push(child.close(ClosePolicy::Terminate).start().await?);
    }
    for child in children {
        child.await?;
    }
    ok(())
}

fn builder() -> Builder {
    Runtime::builder()
        .workflow(tree)
        .workflow(talks)
        .workflow(waits)
        .workflow(raises)
        .workflow(keeps)
        .workflow(waits_for_keeps)
}

/// Found in review: a child that the courier terminated had something for others as well, its own children to end, and the
/// courier was not told of it. They lived on.
#[test]
fn what_ends_with_its_parent_takes_its_children_along() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let top = runtime.start(tree, 3).id("3").await.unwrap();
        settle().await;
        let status = async |id: &str| runtime.instance(id).unwrap().status().await.unwrap().status;
        assert_eq!(status("0").await, Status::Sleeping);
        top.terminate("enough").await.unwrap();
        pass(HOUR).await;
        for id in ["2", "1", "0"] {
            assert_eq!(status(id).await, Status::Terminated, "{id}");
        }
    });
}

/// Whether [`keeps`] has a thread, and whether it may let it go.
static KEPT: AtomicBool = AtomicBool::new(false);
static ENOUGH: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

/// Never awaits, until the test has seen enough; a test that does not get anywhere ends too, and fails.
#[workflow]
async fn keeps(ctx: Ctx<Keeps>) -> Result<()> {
    KEPT.store(true, Ordering::SeqCst);
    let wait = CHANGED.wait_timeout_while(ENOUGH.lock().unwrap(), Duration::from_secs(30), |enough| !*enough);
    assert!(*wait.unwrap().0, "what is carried waits for it");
    ok(ctx.sleep("a year", "365d").await?)
}

#[workflow]
async fn waits_for_keeps(ctx: Ctx<WaitsForKeeps>) -> Result<()> {
    ok(ctx.child(keeps, ()).id("keeps").close(ClosePolicy::Terminate).await?)
}

/// Found in review: the courier waited for a child that it was to end, and that did not leave since its code never awaits.
/// Nobody's messages, children, events and gates were carried any more.
#[tokio::test]
async fn who_does_not_end_keeps_nothing_else_from_being_carried() {
    let config = Config::default().workers(4);
    let runtime = builder().config(config).open("memory:").await.unwrap();
    let parent = runtime.start(waits_for_keeps, ()).await.unwrap();
    while !KEPT.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    parent.terminate("enough").await.unwrap();
    let ear = runtime.start(waits, 1).id("ear").await.unwrap();
    runtime.start(talks, ()).await.unwrap();
    assert_eq!(ear.result().await.unwrap(), [7]);
    let kept = runtime.instance("keeps").unwrap();
    assert_eq!(kept.status().await.unwrap().status, Status::Running, "it runs still");
    *ENOUGH.lock().unwrap() = true;
    CHANGED.notify_all();
    let end = kept.reached(Status::is_terminal).await.unwrap();
    assert_eq!(end, Status::Terminated, "it has let go, and was waited for");
    runtime.stop().await;
}

/// Found in review: children that are ended at once were ended one after the other, each with a sync of its own.
#[tokio::test(start_paused = true)]
async fn those_who_end_together_share_their_syncs() {
    const CHILDREN: usize = 1000;
    let groups = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&groups);
    let machine = Simulated {
        pace: Pace::new(move || {
            counting.fetch_add(1, Ordering::Relaxed);
            Box::pin(tokio::task::yield_now())
        }),
        ..machine()
    };
    let runtime = builder().open_simulated(machine).await.unwrap();
    let parent = runtime.start(raises, CHILDREN).await.unwrap();
    pass(HOUR).await;
    let before = groups.load(Ordering::Relaxed);
    parent.terminate("enough").await.unwrap();
    pass(HOUR).await;
    let ended = runtime.list().status(Status::Terminated).count().await.unwrap();
    assert_eq!(ended, CHILDREN as u64 + 1);
    let taken = groups.load(Ordering::Relaxed) - before;
    assert!(taken < 50, "{taken} groups for {CHILDREN} children");
}

/// FAULTS 11: found in review. The courier gave up a round at the first shard whose outboxes it could not read, and carried
/// nothing of the shards behind it, for as long as the damage lasted.
#[test]
fn a_shard_that_cannot_be_read_keeps_no_others() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(builder(), Config::default().shards(2));
        let runtime = open().await;
        drop(runtime);
        // No instance has such an id: nobody can say what this is.
        damage(&machine, &Key::Outbox(Shard(0), "a/b".into(), 1, 0).pack());
        let runtime = open().await;
        let ear = runtime.start(waits, 1).id("ear").await.unwrap();
        for number in 0..16 {
            runtime.start(talks, ()).id(format!("t{number}")).await.unwrap();
        }
        assert_eq!(ear.result().await.unwrap(), [7]);
    });
}

/// Sends so many letters to nobody.
#[workflow]
async fn writes(ctx: Ctx<Writes>, count: u64) -> Result<()> {
    for number in 0..count {
        ctx.send(waits, "nobody", Word(number)).dead_letter().await?;
    }
    ok(())
}

/// FAULTS 11: found in review. One damaged row, and no dead letter of its shard could be listed any more.
#[test]
fn a_damaged_dead_letter_keeps_no_others() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(builder().workflow(writes), Config::default());
        let runtime = open().await;
        runtime.start(writes, 3).await.unwrap().result().await.unwrap();
        settle().await;
        let found = runtime.dead_letters().list(None).await.unwrap();
        assert_eq!((found.letters.len(), found.damaged), (3, 0));
        drop(runtime);
        let hit = &found.letters[1];
        damage(
            &machine,
            &Key::Dead(Shard(0), hit.at_ms(), hit.id().as_str().into()).pack(),
        );
        let runtime = open().await;
        let left = runtime.dead_letters().list(None).await.unwrap();
        let ids: Vec<_> = left.letters.iter().map(everstep::Letter::id).collect();
        assert_eq!(ids, [found.letters[0].id(), found.letters[2].id()]);
        assert_eq!(left.damaged, 1);
        runtime.dead_letters().discard(&left.letters[1]).await.unwrap();
    });
}
