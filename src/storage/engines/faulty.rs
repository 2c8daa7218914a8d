//! An engine that wraps another one and fails on command (feature `testing`).
//!
//! The test keeps the [`Plan`] and says what goes wrong and when; [`Faulty`] counts calls and does it. Nothing here is
//! left to chance or to time: the same plan over the same calls gives the same faults, and a delay lasts until the
//! test ends it.
//!
//! Three kinds of harm, from honest to vicious:
//! - calls that fail or hang, and outcomes that are not known: [`CommitFault::Fail`], [`CommitFault::Delay`],
//!   [`CommitFault::FailBefore`], [`CommitFault::FailAfter`], [`Plan::crash`];
//! - acknowledgements that are not true: [`CommitFault::Drop`], [`Plan::hold_back`];
//! - data that is wrong: [`CommitFault::Tear`], [`Plan::flip`].
//!
//! Read [`Plan`] first; `gate.rs` is how a test stops a call, `undo.rs` how commits are taken back.

mod gate;
mod plan;
mod splitmix;
mod undo;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use gate::{Gate, Latch};
pub use plan::{AcquireFault, CommitFault, Plan, ReadFault};
pub(crate) use splitmix::Splitmix;

use crate::ids::Shard;
use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use undo::Undo;

/// Wraps an engine and does what its plan says.
pub struct Faulty {
    inner: Arc<dyn Engine>,
    plan: Plan,
}

impl Faulty {
    /// An engine over `inner` that follows `plan`, of which the test keeps a clone.
    pub fn new(inner: Arc<dyn Engine>, plan: Plan) -> Self {
        Self { inner, plan }
    }

    /// Applies a group, and remembers how to take it back if the plan holds commits back.
    fn apply(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let mut held = self.plan.alive_for_commit()?;
        let Some(held) = held.as_mut() else {
            return self.inner.commit(group);
        };
        let undo = Undo::before(&self.inner, group)?;
        self.inner.commit(group)?;
        held.push(undo);
        Ok(())
    }

    /// Applies the first operations of a group as if they were all: the position moves as far as for the whole.
    fn tear(&self, group: &Group<'_>, operations: usize) -> Result<(), CommitError> {
        let mut cut = Batch::new();
        let all = group.batches.iter().flat_map(Batch::operations);
        all.take(operations).for_each(|operation| put(&mut cut, operation));
        self.apply(&Group {
            batches: &[cut],
            ..*group
        })
    }
}

fn put(batch: &mut Batch, operation: Operation<'_>) {
    match operation {
        Operation::Set { key, value } => batch.set(key, value),
        Operation::Delete { key } => batch.delete(key),
        Operation::DeleteRange { start, end } => batch.delete_range(start, end),
    }
}

impl Engine for Faulty {
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let fault = self.plan.acquires();
        if let Some(AcquireFault::Delay(latch)) = &fault {
            latch.pass();
        }
        self.plan.alive().map_err(CommitError::Unavailable)?;
        match fault {
            Some(AcquireFault::Fail(kind)) => return Err(CommitError::Unavailable(kind.into())),
            Some(AcquireFault::FailBefore) => return Err(unknown()),
            Some(AcquireFault::FailAfter | AcquireFault::Delay(_)) | None => {}
        }
        let lease = self.plan.acquire(|| self.inner.acquire(shard, owner))?;
        if matches!(fault, Some(AcquireFault::FailAfter)) {
            Err(unknown())
        } else {
            Ok(lease)
        }
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.plan.reads().map_err(|error| match error {
            ReadError::Unavailable(error) => CommitError::Unavailable(error),
            ReadError::Corrupt(what) => CommitError::Corrupt(what),
        })?;
        self.inner.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let fault = self.plan.commits();
        if let Some(CommitFault::Delay(latch)) = &fault {
            latch.pass();
        }
        self.plan.alive().map_err(CommitError::Unavailable)?;
        match fault {
            Some(CommitFault::Fail(kind)) => Err(CommitError::Unavailable(kind.into())),
            Some(CommitFault::FailBefore) => Err(unknown()),
            Some(CommitFault::FailAfter) => self.apply(group).and_then(|()| Err(unknown())),
            Some(CommitFault::Drop) => Ok(()),
            Some(CommitFault::Tear(operations)) => self.tear(group, operations),
            Some(CommitFault::Delay(_)) | None => self.apply(group),
        }
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.plan.reads()?;
        let value = self.inner.get(shard, key)?;
        Ok(value.map(|value| self.plan.damaged(key, value)))
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.plan.reads()?;
        let inner = self.inner.snapshot(shard)?;
        Ok(Box::new(View {
            inner,
            plan: self.plan.clone(),
        }))
    }
}

/// A snapshot that follows the same plan.
struct View {
    inner: Box<dyn Snapshot>,
    plan: Plan,
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.plan.reads()?;
        let value = self.inner.get(key)?;
        Ok(value.map(|value| self.plan.damaged(key, value)))
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        self.plan.reads()?;
        self.inner.scan(scan, &mut |key, value| -> ControlFlow<()> {
            match self.plan.damage(key, value) {
                Some(damaged) => visit(key, &damaged),
                None => visit(key, value),
            }
        })
    }
}

fn unknown() -> CommitError {
    CommitError::Unknown(io::Error::new(
        io::ErrorKind::ConnectionReset,
        "the plan lost the answer",
    ))
}

#[cfg(test)]
mod tests;
