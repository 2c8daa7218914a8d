//! BEHAVIOUR 53: the cost of a step grows neither with the history behind it nor with the number of instances.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use everstep::storage::engines::Memory;
use everstep::{Config, Ctx, Message, Result, Runtime, Shard, Simulated, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::kit;
use crate::machine::settle;

/// Counts what is asked of the engine behind it.
struct Counting {
    inner: Memory,
    /// Rows and bytes of each group that was written, and how often something was read before it.
    groups: Mutex<Vec<(usize, usize, u32)>>,
    reads: Mutex<u32>,
    /// Rows that were looked at in ranges.
    scanned: Arc<AtomicUsize>,
}

/// Counts the rows that it shows.
struct Shown(Box<dyn Snapshot>, Arc<AtomicUsize>);

impl Snapshot for Shown {
    fn get(&self, key: &[u8]) -> std::result::Result<Option<Vec<u8>>, ReadError> {
        self.0.get(key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> std::result::Result<(), ReadError> {
        self.0.scan(scan, &mut |key, value| {
            self.1.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
    }
}

impl Counting {
    fn read(&self) {
        *self.reads.lock().unwrap() += 1;
    }
}

impl Engine for Counting {
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> std::result::Result<Lease, CommitError> {
        self.inner.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> std::result::Result<Position, CommitError> {
        self.inner.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> std::result::Result<(), CommitError> {
        let rows = group.batches.iter().map(everstep::storage::batch::Batch::len).sum();
        let bytes = group.batches.iter().map(everstep::storage::batch::Batch::bytes).sum();
        let reads = std::mem::take(&mut *self.reads.lock().unwrap());
        self.groups.lock().unwrap().push((rows, bytes, reads));
        self.inner.commit(group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> std::result::Result<Option<Vec<u8>>, ReadError> {
        self.read();
        self.inner.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> std::result::Result<Box<dyn Snapshot>, ReadError> {
        self.read();
        let shown = Shown(self.inner.snapshot(shard)?, Arc::clone(&self.scanned));
        Ok(Box::new(shown))
    }
}

#[workflow]
async fn walks(ctx: Ctx<Walks>, steps: u64) -> Result<u64> {
    for number in 0..steps {
        ctx.step(&format!("{number:05}"), move || async move { ok(number) })
            .await?;
    }
    ok(steps)
}

async fn open() -> (Arc<Counting>, Runtime) {
    open_with(Config::default()).await
}

async fn open_with(config: Config) -> (Arc<Counting>, Runtime) {
    let engine = Arc::new(Counting {
        inner: Memory::new(),
        groups: Mutex::default(),
        reads: Mutex::default(),
        scanned: Arc::default(),
    });
    let machine = Simulated {
        engine: Arc::<Counting>::clone(&engine),
        ..kit::machine()
    };
    let builder = Runtime::builder().workflow(walks).workflow(patient).workflow(gathers);
    let builder = builder.config(config);
    (engine, builder.open_simulated(machine).await.unwrap())
}

/// What each of the last hundred steps of an instance with so many cost at most, after so many other instances.
async fn cost(others: u64, steps: u64) -> (usize, usize, u32) {
    let (engine, runtime) = open().await;
    for _ in 0..others {
        runtime.start(walks, 1).await.unwrap().result().await.unwrap();
    }
    runtime.start(walks, steps).await.unwrap().result().await.unwrap();
    let groups = engine.groups.lock().unwrap();
    let last = &groups[groups.len() - 101..groups.len() - 1];
    let most = |of: fn(&(usize, usize, u32)) -> usize| last.iter().map(of).max().unwrap();
    let reads = last.iter().map(|(_, _, reads)| *reads).max().unwrap();
    (most(|group| group.0), most(|group| group.1), reads)
}

#[tokio::test(start_paused = true)]
async fn a_step_costs_the_same_whatever_is_behind_it() {
    let (rows, bytes, reads) = cost(0, 200).await;
    for (others, steps) in [(0, 3_000), (500, 200)] {
        let found = cost(others, steps).await;
        assert_eq!(found.0, rows, "rows, with {others} others and {steps} steps");
        assert_eq!(found.2, reads, "reads, with {others} others and {steps} steps");
        // A number of more digits takes a byte more, here and there.
        assert!(found.1 <= bytes + 16, "{} bytes, and {bytes} at first", found.1);
    }
}

#[derive(Message, Serialize, Deserialize)]
struct Later(u32);

#[derive(Message, Serialize, Deserialize)]
struct First(u32);

/// Takes what was sent to it behind a first message.
#[workflow(accepts(First, Later))]
async fn patient(ctx: Ctx<Patient>, count: u32) -> Result<u32> {
    let mut sum = ctx.receive::<First>().await?.0;
    for _ in 0..count {
        sum += ctx.receive::<Later>().await?.0;
    }
    ok(sum)
}

/// FAULTS 18, 66: found in review. Whoever was told of a message read its whole inbox, with all that it does not take yet.
#[tokio::test(start_paused = true)]
async fn a_message_costs_the_same_whatever_lies_before_it() {
    const MESSAGES: u32 = 200;
    let (engine, runtime) = open().await;
    let handle = runtime.start(patient, MESSAGES).await.unwrap();
    kit::pass(std::time::Duration::from_secs(1)).await;
    let before = engine.scanned.load(Ordering::Relaxed);
    for _ in 0..MESSAGES {
        handle.send(Later(1)).await.unwrap();
        kit::pass(std::time::Duration::from_millis(1)).await;
    }
    let scanned = engine.scanned.load(Ordering::Relaxed) - before;
    assert!(scanned < 10 * MESSAGES as usize, "{scanned} rows were read");
    handle.send(First(0)).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), MESSAGES);
}

/// Found in a review: a gate that lies in another shard was gone through from its beginning for everyone who came to it, and
/// for everyone who left it. Ten thousand who wait for one key looked at fifty million rows.
#[tokio::test(start_paused = true)]
async fn coming_to_a_gate_and_leaving_it_costs_the_same_however_many_wait() {
    let (engine, runtime) = open_with(Config::default().shards(4)).await;
    let comes = async |id: String| {
        let start = runtime.start(patient, 0).id(id).at_most(1, "gate").await.unwrap();
        settle().await;
        start
    };
    comes("holder".to_owned()).await;
    let mut looked_at = Vec::new();
    for round in 0..2 {
        let before = engine.scanned.load(Ordering::Relaxed);
        let mut waiting = Vec::new();
        for number in 0..30 {
            waiting.push(comes(format!("{round} {number}")).await);
        }
        for last in waiting.drain(15..).rev() {
            assert!(last.cancel("enough").await.unwrap().is_done());
            settle().await;
        }
        looked_at.push(engine.scanned.load(Ordering::Relaxed) - before);
        for number in 0..400 * (1 - round) {
            comes(format!("more {number}")).await;
        }
    }
    let (few, many) = (looked_at[0], looked_at[1]);
    assert!(
        many <= few + few / 4,
        "{few} rows were looked at behind 1, {many} behind 415"
    );
    assert!(runtime.store().verify().unwrap().is_clean());
}

/// Waits for so many children.
#[workflow]
async fn gathers(ctx: Ctx<Gathers>, count: u32) -> Result<u32> {
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(ctx.child(patient, 0).start().await?);
    }
    let mut sum = 0;
    for child in children {
        sum += child.await?;
    }
    ok(sum)
}

/// Found in review: whoever asked for the status of a parent read all that it had on its way, once for each of its children.
#[tokio::test(start_paused = true)]
async fn a_status_looks_once_for_each_child() {
    let mut reads = Vec::new();
    for children in [10, 20] {
        let (engine, runtime) = open().await;
        let parent = runtime.start(gathers, children).await.unwrap();
        settle().await;
        let before = *engine.reads.lock().unwrap();
        let status = parent.status().await.unwrap();
        reads.push(*engine.reads.lock().unwrap() - before);
        let there: BTreeSet<_> = status.children.iter().map(|child| child.id.as_str()).collect();
        assert_eq!(there.len(), children as usize);
        assert!(status.children.iter().all(|child| !child.missing && !child.ended));
    }
    assert_eq!(reads[1] - reads[0], 10, "reads with ten more children: {reads:?}");
}
