//! A store in memory that knows its weight.

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everstep::Shard;
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use everstep::storage::engines::Memory;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
pub(crate) fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A store in memory, and how much was allocated beside it at most. Only one thread may allocate while it is used.
#[derive(Debug, Clone)]
pub(crate) struct Weighed {
    rows: Memory,
    scale: Arc<Scale>,
}

#[derive(Debug)]
struct Scale {
    /// What was there before: that of the test itself.
    before: usize,
    /// What the rows take, and the snapshots of them.
    held: AtomicUsize,
    /// The most that all others took.
    beside: AtomicUsize,
}

impl Scale {
    /// Does something to the rows, and counts what they take more or less after it.
    fn weigh<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = allocated();
        let done = work();
        // Wraps around when they take less, and back in the sum.
        self.held.fetch_add(allocated().wrapping_sub(before), Ordering::Relaxed);
        self.look();
        done
    }

    fn look(&self) {
        let beside = allocated().saturating_sub(self.before + self.held.load(Ordering::Relaxed));
        self.beside.fetch_max(beside, Ordering::Relaxed);
    }
}

impl Weighed {
    pub(crate) fn new() -> Self {
        let scale = Scale {
            before: allocated(),
            held: AtomicUsize::new(0),
            beside: AtomicUsize::new(0),
        };
        let rows = scale.weigh(Memory::new);
        Self {
            rows,
            scale: Arc::new(scale),
        }
    }

    /// The most that was allocated beside the rows.
    pub(crate) fn beside(&self) -> usize {
        self.scale.beside.load(Ordering::Relaxed)
    }

    /// What the rows take now.
    pub(crate) fn held(&self) -> usize {
        self.scale.held.load(Ordering::Relaxed)
    }
}

impl Engine for Weighed {
    fn limits(&self) -> EngineLimits {
        self.rows.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.scale.weigh(|| self.rows.acquire(shard, owner))
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.rows.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        self.scale.weigh(|| self.rows.commit(group))
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.scale.look();
        self.rows.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let snapshot = self.scale.weigh(|| self.rows.snapshot(shard))?;
        Ok(Box::new(Weighing {
            snapshot: Some(snapshot),
            scale: Arc::clone(&self.scale),
        }))
    }
}

/// A snapshot. What it keeps of older rows goes when it goes.
struct Weighing {
    snapshot: Option<Box<dyn Snapshot>>,
    scale: Arc<Scale>,
}

impl Weighing {
    fn snapshot(&self) -> &dyn Snapshot {
        self.snapshot.as_deref().expect("it is there until it is dropped")
    }
}

impl Snapshot for Weighing {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.snapshot().get(key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        self.snapshot().scan(scan, visit)
    }
}

impl Drop for Weighing {
    fn drop(&mut self) {
        self.scale.weigh(|| drop(self.snapshot.take()));
    }
}
