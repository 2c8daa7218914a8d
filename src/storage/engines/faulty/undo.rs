//! How a commit is taken back, to look as if it had never reached the disk.
//!
//! What a commit touches is read before it is applied. To take it back, a commit of the same lease puts the old rows
//! there again and moves the position to where it was; so this works over every engine that stores the position it
//! is given, and a store that is opened afterwards stands as it would after a power cut.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{CommitError, Direction, Engine, Group, Lease, Position, ReadError, Scan, Snapshot};

/// One commit that was applied and can be taken back.
pub(super) struct Undo {
    engine: Arc<dyn Engine>,
    lease: Lease,
    before: Position,
    after: Position,
    old: Batch,
}

impl Undo {
    /// Reads what `group` is going to change.
    pub(super) fn before(engine: &Arc<dyn Engine>, group: &Group<'_>) -> Result<Self, CommitError> {
        let view = engine.snapshot(group.lease.shard).map_err(unread)?;
        let mut old = Batch::new();
        // Everything that is touched goes first; then what was there comes back.
        for operation in group.batches.iter().flat_map(Batch::operations) {
            match operation {
                Operation::Set { key, .. } | Operation::Delete { key } => old.delete(key),
                Operation::DeleteRange { start, end } => old.delete_range(start, end),
            }
        }
        for operation in group.batches.iter().flat_map(Batch::operations) {
            restore(view.as_ref(), operation, &mut old).map_err(unread)?;
        }
        let (lease, before, after) = (group.lease, group.expected, group.next);
        Ok(Self {
            engine: Arc::clone(engine),
            lease,
            before,
            after,
            old,
        })
    }

    /// Takes the commit back. Only the latest one of its shard can be.
    pub(super) fn take_back(&self) -> Result<(), CommitError> {
        let batches = std::slice::from_ref(&self.old);
        self.engine.commit(&Group {
            lease: self.lease,
            expected: self.after,
            next: self.before,
            batches,
        })
    }
}

fn restore(view: &dyn Snapshot, operation: Operation<'_>, old: &mut Batch) -> Result<(), ReadError> {
    match operation {
        Operation::Set { key, .. } | Operation::Delete { key } => {
            if let Some(value) = view.get(key)? {
                old.set(key, &value);
            }
            Ok(())
        }
        Operation::DeleteRange { start, end } => {
            let scan = Scan {
                start,
                end,
                direction: Direction::Forward,
                limit: usize::MAX,
            };
            view.scan(&scan, &mut |key, value| {
                old.set(key, value);
                ControlFlow::Continue(())
            })
        }
    }
}

fn unread(error: ReadError) -> CommitError {
    match error {
        ReadError::Unavailable(error) => CommitError::Unavailable(error),
        ReadError::Corrupt(what) => CommitError::Corrupt(what),
    }
}
