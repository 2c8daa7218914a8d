//! BEHAVIOUR 53: the cost of a step grows neither with the history behind it nor with the number of instances.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use everstep::storage::engines::Memory;
use everstep::{Ctx, Message, Result, Runtime, Shard, Simulated, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::kit;

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
    let builder = Runtime::builder().workflow(walks).workflow(patient);
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
