//! A good engine with one thing wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::ids::Shard;
use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use crate::storage::engines::Memory;
use crate::testing::conformance::{Candidate, Subject};

pub(super) type Inner = Arc<dyn Engine>;

/// What is wrong: a defect overrides one method, rarely two, and passes the rest on.
pub(super) trait Twist: Default + Send + Sync + 'static {
    fn limits(&self, inner: &Inner) -> EngineLimits {
        inner.limits()
    }

    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        inner.acquire(shard, owner)
    }

    fn position(&self, inner: &Inner, lease: &Lease) -> Result<Position, CommitError> {
        inner.position(lease)
    }

    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let batches: Vec<Batch> = group.batches.iter().map(|batch| self.batch(inner, batch)).collect();
        inner.commit(&Group {
            batches: &batches,
            ..*group
        })
    }

    fn batch(&self, _: &Inner, batch: &Batch) -> Batch {
        batch.clone()
    }

    fn get(&self, inner: &Inner, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        inner.get(shard, key)
    }

    fn snapshot(&self, inner: &Inner, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        inner.snapshot(shard)
    }

    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(scan, visit)
    }
}

/// The good engine with the defect.
pub(super) struct Bent<T> {
    inner: Inner,
    twist: Arc<T>,
}

impl<T: Twist> Engine for Bent<T> {
    fn limits(&self) -> EngineLimits {
        self.twist.limits(&self.inner)
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.twist.acquire(&self.inner, shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.twist.position(&self.inner, lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        self.twist.commit(&self.inner, group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.twist.get(&self.inner, shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let inner = self.twist.snapshot(&self.inner, shard)?;
        Ok(Box::new(View {
            inner,
            twist: Arc::clone(&self.twist),
        }))
    }
}

struct View<T> {
    inner: Box<dyn Snapshot>,
    twist: Arc<T>,
}

impl<T: Twist> Snapshot for View<T> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.get(key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        self.twist.scan(self.inner.as_ref(), scan, visit)
    }
}

/// Nothing wrong.
#[derive(Default)]
pub(super) struct Good;

impl Twist for Good {}

/// Makes stores with the defect.
#[derive(Default)]
pub(super) struct Stores<T>(std::marker::PhantomData<T>);

impl<T: Twist> Candidate for Stores<T> {
    fn fresh(&self) -> Box<dyn Subject> {
        Box::new(Bent {
            inner: good(),
            twist: Arc::new(T::default()),
        })
    }
}

/// What is opened again is what was closed.
impl<T: Twist> Subject for Bent<T> {
    fn open(&self) -> Arc<dyn Engine> {
        Arc::new(Self {
            inner: Arc::clone(&self.inner),
            twist: Arc::clone(&self.twist),
        })
    }
}

/// A new engine without defects.
pub(super) fn good() -> Inner {
    Arc::new(Memory::new())
}

/// A defect, and cases that must name it.
pub(super) struct Defect {
    pub(super) name: &'static str,
    pub(super) candidate: Box<dyn Candidate>,
    pub(super) cases: &'static [&'static str],
}

/// A defect that is a twist.
pub(super) fn defect<T: Twist>(cases: &'static [&'static str]) -> Defect {
    let candidate = Box::new(Stores::<T>(std::marker::PhantomData));
    Defect {
        name: std::any::type_name::<T>(),
        candidate,
        cases,
    }
}

/// The leases that were given out last, for defects that write although they may not.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<Shard, Lease>>);

impl Leases {
    pub(super) fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        // Kept locked meanwhile: the last one in here is the one in force.
        let mut leases = self.0.lock().unwrap();
        let lease = inner.acquire(shard, owner)?;
        leases.insert(shard, lease);
        Ok(lease)
    }

    /// The lease in force, or the given one where nobody took the shard.
    pub(super) fn in_force(&self, lease: &Lease) -> Lease {
        self.0.lock().unwrap().get(&lease.shard).copied().unwrap_or(*lease)
    }
}

/// Adds an operation to a batch.
pub(super) fn put(batch: &mut Batch, operation: Operation<'_>) {
    match operation {
        Operation::Set { key, value } => batch.set(key, value),
        Operation::Delete { key } => batch.delete(key),
        Operation::DeleteRange { start, end } => batch.delete_range(start, end),
    }
}

/// A batch of these operations.
pub(super) fn batch_of<'a>(operations: impl IntoIterator<Item = Operation<'a>>) -> Batch {
    let mut batch = Batch::new();
    operations.into_iter().for_each(|operation| put(&mut batch, operation));
    batch
}

/// Gives other threads a chance until `come` is true, or for a long while.
pub(super) fn let_others_run(mut come: impl FnMut() -> bool) {
    for _ in 0..5_000 {
        if come() {
            return;
        }
        std::thread::yield_now();
    }
}

/// The key behind this one.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
