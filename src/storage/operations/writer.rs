//! Writing a store that is not open yet: made, taken over, and without a committer.
//!
//! These are ordinary commits, with fence and sequence and durable when they return; only nobody competes, so there
//! is nothing to gather and no condition to check.

use crate::ids::Shard;
use crate::limits::GROUP_BYTES_MAX;
use crate::storage::batch::Batch;
use crate::storage::committer::settle;
use crate::storage::engine::{Group, Position};
use crate::storage::error::Result;
use crate::storage::key::{self, Key};
use crate::storage::operations::walk::{Row, Walk};
use crate::storage::store::Parts;
use crate::storage::value;

/// Bytes of one slice: small beside what an engine takes, large beside the price of a sync.
pub(super) const SLICE_BYTES: usize = 2 * 1024 * 1024;

/// Operations of one slice.
pub(super) const SLICE_ROWS: usize = 4096;

impl Parts {
    /// Makes one batch durable.
    pub(super) fn commit(&mut self, shard: Shard, batch: Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let lease = &mut self.leases[usize::from(shard.0)];
        let next = Position {
            sequence: lease.position.sequence + 1,
            chain: batch.chain(lease.position.chain),
        };
        let group = Group {
            lease: *lease,
            expected: lease.position,
            next,
            batches: &[batch],
        };
        settle(&*self.engine, &group)?;
        lease.position = next;
        match &self.watermark {
            Some(watermark) => watermark.advance(shard, lease.epoch, next),
            None => Ok(()),
        }
    }

    /// Makes the header durable as it stands.
    pub(crate) fn write_header(&mut self) -> Result<()> {
        let key = Key::Store.pack();
        let mut batch = Batch::new();
        batch.set(&key, &value::encode(&key, &self.header));
        self.commit(Shard(0), batch)
    }

    /// Removes every row of a range, in slices.
    pub(super) fn clear(&mut self, shard: Shard, range: (Vec<u8>, Vec<u8>)) -> Result<()> {
        let snapshot = self.engine.snapshot(shard)?;
        let mut walk = Walk::new(&*snapshot, range);
        let mut batch = Batch::new();
        while let Some(row) = walk.next()? {
            batch.delete(&row.key);
            if batch.len() >= SLICE_ROWS {
                self.commit(shard, std::mem::take(&mut batch))?;
            }
        }
        self.commit(shard, batch)
    }

    /// All shards.
    pub(super) fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.header.shards).map(Shard)
    }
}

/// Gathers rows for each shard and commits them in slices, the rows of one shard in the order they came.
#[derive(Debug)]
pub(super) struct Slices {
    batches: Vec<Batch>,
    bytes: usize,
    rows: usize,
}

impl Slices {
    pub(super) fn new(shards: u16) -> Self {
        Self {
            batches: (0..shards).map(|_| Batch::default()).collect(),
            bytes: 0,
            rows: 0,
        }
    }

    /// Adds a row; commits what came before when that is enough.
    pub(super) fn set(&mut self, parts: &mut Parts, shard: Shard, row: &Row) -> Result<()> {
        let bytes = row.key.len() + row.value.len();
        if self.bytes + bytes > SLICE_BYTES || self.rows >= SLICE_ROWS {
            self.flush(parts)?;
        }
        self.batches[usize::from(shard.0)].set(&row.key, &row.value);
        self.bytes += bytes;
        self.rows += 1;
        Ok(())
    }

    /// Commits all that was gathered.
    pub(super) fn flush(&mut self, parts: &mut Parts) -> Result<()> {
        for (shard, batch) in (0..).map(Shard).zip(&mut self.batches) {
            parts.commit(shard, std::mem::take(batch))?;
        }
        (self.bytes, self.rows) = (0, 0);
        Ok(())
    }
}

/// A value of the largest size still makes a slice that every group has room for.
const _: () = assert!(crate::limits::VALUE_BYTES_MAX + crate::limits::KEY_BYTES_MAX <= GROUP_BYTES_MAX);

/// The range of everything in a shard but how far it has got: instances, and what they sent and left.
pub(super) fn content(shard: Shard, shards: u16) -> (Vec<u8>, Vec<u8>) {
    let end = key::territory(shard, shards).pop().unwrap_or_default();
    (key::namespaces(shard).0, end)
}
