//! The fence of the embedded engines: who may write a shard, and from where it goes on.
//!
//! An embedded engine has one process that writes, so what is in force can be held in memory; the row that makes it
//! durable goes into the same batch as the operations it covers. Three verbs: take a shard ([`Fence::take`]), let a
//! group through ([`Fence::admit`]), remember that it is durable ([`Fence::passed`]).
//!
//! Not for engines that several processes write: there the fence has to be checked by the server, in the statement
//! that writes.

use std::collections::HashMap;

use crate::ids::Shard;
use crate::storage::engine::{CommitError, Group, Lease, Owner, Position};
use crate::storage::key::Key;
use crate::storage::record::Held;
use crate::storage::value;

/// What is in force for each shard.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    shards: HashMap<Shard, Lease>,
}

/// The row that has to be written for a lease or a group to be in force.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Fence {
    /// The lease that follows the one in `stored` (the value of [`Fence::key`], if there is one), and its row. It is
    /// in force once the row is durable and [`Fence::taken`] was called.
    pub(crate) fn take(shard: Shard, owner: Owner, stored: Option<&[u8]>) -> Result<(Lease, Row), CommitError> {
        let key = Self::key(shard);
        let held = match stored {
            Some(stored) => value::decode::<Held>(&key, stored).map_err(|error| corrupt(shard, &error))?,
            None => Held {
                epoch: 0,
                owner: 0,
                sequence: 0,
                chain: 0,
            },
        };
        let position = Position {
            sequence: held.sequence,
            chain: held.chain,
        };
        let lease = Lease {
            shard,
            epoch: held.epoch + 1,
            owner,
            position,
        };
        Ok((lease, row(&lease, position)))
    }

    /// Puts a lease in force, after its row became durable.
    pub(crate) fn taken(&mut self, lease: Lease) {
        self.shards.insert(lease.shard, lease);
    }

    /// Lets a group through, or says why not; gives the row that belongs into its batch.
    pub(crate) fn admit(&self, group: &Group<'_>) -> Result<Row, CommitError> {
        let held = self.held(&group.lease)?;
        if held.position != group.expected {
            let (expected, found) = (group.expected.sequence, held.position.sequence);
            return Err(CommitError::Conflict { expected, found });
        }
        Ok(row(held, group.next))
    }

    /// Remembers that an admitted group is durable.
    pub(crate) fn passed(&mut self, group: &Group<'_>) {
        if let Some(held) = self.shards.get_mut(&group.lease.shard) {
            held.position = group.next;
        }
    }

    /// How far the shard has got, if the lease is still in force.
    pub(crate) fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.held(lease).map(|held| held.position)
    }

    /// The key under which the row of a shard lies.
    pub(crate) fn key(shard: Shard) -> Vec<u8> {
        Key::Position(shard).pack()
    }

    fn held(&self, lease: &Lease) -> Result<&Lease, CommitError> {
        let held = self.shards.get(&lease.shard);
        let in_force = held.filter(|held| held.epoch == lease.epoch && held.owner == lease.owner);
        in_force.ok_or_else(|| CommitError::Fenced {
            held: held.map_or(0, |held| held.epoch),
            carried: lease.epoch,
        })
    }
}

fn row(lease: &Lease, position: Position) -> Row {
    let key = Fence::key(lease.shard);
    let held = Held {
        epoch: lease.epoch,
        owner: lease.owner.0,
        sequence: position.sequence,
        chain: position.chain,
    };
    let value = value::encode(&key, &held);
    Row { key, value }
}

fn corrupt(shard: Shard, error: &value::DecodeError) -> CommitError {
    CommitError::Corrupt(format!("the position of shard {shard}: {error}"))
}
