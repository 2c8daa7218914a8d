//! The engine that keeps nothing: a map in memory, for tests and for trying things out.
//!
//! It has the whole contract but durability. A clone shares the rows, so "reopening" is cloning: acquire the shard
//! through the clone with another owner, and the first handle is fenced like a process that was taken over from.
//! It never gives an unknown outcome.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::net::{self, Net};
use super::preimage::{Page, Preimages, Tree};
use crate::ids::Shard;
use crate::storage::engine::{
    CommitError, Direction, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot,
};
use crate::storage::fence::Fence;

/// A store in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    fence: Mutex<Fence>,
    rows: Arc<Rows>,
    preimages: Preimages,
}

#[derive(Debug, Default)]
struct Rows(RwLock<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever holds the fence is the one who writes.
    fn fence(&self) -> MutexGuard<'_, Fence> {
        self.shared.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, net: &Net<'_>) -> Result<(), CommitError> {
        let commit = self.shared.preimages.commit().map_err(CommitError::Unavailable)?;
        let rows = &self.shared.rows;
        commit
            .save(net.changes().map(|(key, _)| key), |key| rows.get(key))
            .map_err(CommitError::Unreadable)?;
        let mut rows = rows.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in net.changes() {
            match value {
                Some(value) => drop(rows.insert(key.to_vec(), value.to_vec())),
                None => drop(rows.remove(key)),
            }
        }
        Ok(())
    }
}

impl Engine for Memory {
    fn limits(&self) -> EngineLimits {
        net::LIMITS
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let mut fence = self.fence();
        let stored = self
            .shared
            .rows
            .get(&Fence::key(shard))
            .map_err(CommitError::Unreadable)?;
        let (lease, row) = Fence::take(shard, owner, stored.as_deref())?;
        self.write(&Net::of_row(&row))?;
        fence.taken(lease);
        Ok(lease)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.fence().position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        net::LIMITS.check(group.batches)?;
        let mut fence = self.fence();
        let row = fence.admit(group)?;
        let rows = &self.shared.rows;
        self.write(&Net::of(group.batches, &row, &mut |start, end| {
            Ok(rows.keys(start, end))
        })?)?;
        fence.passed(group);
        Ok(())
    }

    fn get(&self, _shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.shared.rows.get(key)
    }

    fn snapshot(&self, _shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let preimages = &self.shared.preimages;
        let between = preimages.between_commits()?;
        Ok(Box::new(preimages.snapshot(&between, Arc::clone(&self.shared.rows))))
    }
}

impl Rows {
    fn keys(&self, start: &[u8], end: &[u8]) -> Vec<Vec<u8>> {
        let rows = self.0.read().unwrap_or_else(PoisonError::into_inner);
        rows.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

impl Tree for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn page(&self, scan: &Scan<'_>) -> Result<Page, ReadError> {
        let rows = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let range = rows.range::<[u8], _>((Bound::Included(scan.start), Bound::Excluded(scan.end)));
        let row = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), Ok(value.clone()));
        let rows: Vec<_> = match scan.direction {
            Direction::Forward => range.take(scan.limit).map(row).collect(),
            Direction::Backward => range.rev().take(scan.limit).map(row).collect(),
        };
        Ok(Page {
            more: rows.len() == scan.limit,
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::engines::model::Writer;

    #[test]
    fn a_clone_is_a_reopened_store_and_fences_the_first() {
        let memory = Memory::new();
        let mut first = Writer::acquire(memory.clone(), Owner(1));
        first.set(b"a", b"1").unwrap();
        let mut second = Writer::acquire(memory.clone(), Owner(2));
        assert_eq!(second.lease.position, first.position);
        assert!(matches!(
            first.set(b"a", b"2"),
            Err(CommitError::Fenced { held: 2, carried: 1 })
        ));
        assert!(matches!(memory.position(&first.lease), Err(CommitError::Fenced { .. })));
        second.set(b"b", b"").unwrap();
        assert_eq!(memory.position(&second.lease).unwrap(), second.position);
        assert_eq!(memory.get(Shard(0), b"a").unwrap().as_deref(), Some(b"1".as_slice()));
        assert_eq!(memory.get(Shard(0), b"b").unwrap().as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn a_group_that_expects_another_position_is_a_conflict() {
        let mut writer = Writer::acquire(Memory::new(), Owner(1));
        writer.set(b"a", b"1").unwrap();
        writer.position.sequence += 1;
        assert!(matches!(
            writer.set(b"a", b"2"),
            Err(CommitError::Conflict { expected: 2, found: 1 })
        ));
        assert_eq!(
            writer.engine.get(Shard(0), b"a").unwrap().as_deref(),
            Some(b"1".as_slice())
        );
    }
}
