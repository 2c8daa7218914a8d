//! What an engine is: an ordered byte store with one atomic, fenced, sequenced commit.
//!
//! Everything that has a meaning (namespaces, inbox, alarms, index, dedup) is built above this trait, once, for all
//! engines. The trait is shaped so that three very different things fit behind it without change: an embedded store
//! that only one process opens, PostgreSQL with one statement a commit, and FoundationDB, whose transactions are
//! bounded in bytes and seconds and may end with an unknown outcome.
//!
//! **Calls block.** A commit is called by the committer thread of its shard and by nobody else; commits of different
//! shards may run at the same time. Reads are short, come from any thread, and never wait for longer than a commit
//! takes; a live snapshot holds no commit up.
//!
//! **Keys carry their shard.** They are packed in [`key`](super::key) and begin with it, so that one ordered space
//! holds all shards; an embedded engine may ignore the `shard` that a read names. A key is never empty, a value may
//! be. Only [`Key::Store`](super::key::Key::Store), the header of the whole store, has no shard: it is written and
//! read as part of shard 0.
//!
//! **An engine may keep rows of its own** under [`Key::Position`](super::key::Key::Position) and nowhere else in the
//! space. A scan of a whole shard may show them.
//!
//! **Dropping the last handle gives the store up**, so that it can be opened again.
//!
//! `testing::conformance` (feature `testing`) proves an engine against all of this in one call.

use std::ops::ControlFlow;

use crate::ids::Shard;
use crate::storage::batch::{Batch, Operation};

/// Ordered, durable bytes.
pub trait Engine: Send + Sync + 'static {
    /// What this engine can take. Asked once; the answer does not change.
    fn limits(&self) -> EngineLimits;

    /// Takes the shard for `owner` under a new epoch, which is durable when this returns. From then on every
    /// commit that carries another epoch or owner is [`CommitError::Fenced`], wherever it waits.
    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError>;

    /// How far the shard has got, read under the lease: the way to learn what became of a commit whose outcome was
    /// [`CommitError::Unknown`].
    fn position(&self, lease: &Lease) -> Result<Position, CommitError>;

    /// Applies every operation of the group, all or nothing, and returns when it is durable. The fence and the
    /// expected position (sequence and chain) are checked in the same atomic action that writes, the fence first;
    /// `next` is kept as it is given. A group without operations moves the position like any other.
    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError>;

    /// The latest committed value of one key. It shows nothing that is not durable.
    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// A view of one shard as it is now. Later commits do not show in it, and no commit shows by half.
    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError>;
}

/// A stable view of one shard.
pub trait Snapshot: Send {
    /// The value of one key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// Shows the rows of a range to `visit`, in order, until the range or the limit ends or `visit` breaks. A range
    /// whose start is not below its end is empty. `visit` must not call the engine.
    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError>;
}

/// What a scan calls for every row: key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A range of keys to read, from `start` (included) to `end` (excluded).
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// The smallest key.
    pub start: &'a [u8],
    /// The key behind the largest.
    pub end: &'a [u8],
    /// From which end to begin.
    pub direction: Direction,
    /// How many rows at most.
    pub limit: usize,
}

/// The order of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// What an engine takes in one go, at least as much as [`limits`](crate::limits) allows the rest of the system. The
/// committer refuses a larger commit at the door, and the engine refuses it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineLimits {
    /// Bytes of a key.
    pub key_bytes_max: usize,
    /// Bytes of a value.
    pub value_bytes_max: usize,
    /// Bytes of all keys and values of one group: the sum of [`Batch::bytes`].
    pub group_bytes_max: usize,
}

impl EngineLimits {
    /// Whether batches that are to become one group stay within the limits.
    pub fn check(&self, batches: &[Batch]) -> Result<(), CommitError> {
        let within = |bytes: usize, max: usize| {
            if bytes > max {
                Err(CommitError::TooLarge { bytes, max })
            } else {
                Ok(())
            }
        };
        within(batches.iter().map(Batch::bytes).sum(), self.group_bytes_max)?;
        for operation in batches.iter().flat_map(Batch::operations) {
            match operation {
                Operation::Set { key, value } => {
                    within(key.len(), self.key_bytes_max)?;
                    within(value.len(), self.value_bytes_max)?;
                }
                Operation::Delete { key } => within(key.len(), self.key_bytes_max)?,
                Operation::DeleteRange { start, end } => {
                    within(start.len(), self.key_bytes_max)?;
                    within(end.len(), self.key_bytes_max)?;
                }
            }
        }
        Ok(())
    }
}

/// Who holds a shard: a number drawn anew by each process (or node incarnation) that opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(pub u64);

/// The right to write a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The shard.
    pub shard: Shard,
    /// Grows with every acquisition.
    pub epoch: u64,
    /// Who acquired it.
    pub owner: Owner,
    /// How far the shard had got when it was acquired.
    pub position: Position,
}

/// How far a shard has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Commits so far.
    pub sequence: u64,
    /// A hash over all of them in order: two stores at the same sequence with different chains have different pasts.
    pub chain: u64,
}

/// Many commits of one shard, applied as one.
#[derive(Debug)]
pub struct Group<'a> {
    /// The fence.
    pub lease: Lease,
    /// Where the shard must stand.
    pub expected: Position,
    /// Where it stands afterwards.
    pub next: Position,
    /// The operations, in order; a later one wins over an earlier one on the same key.
    pub batches: &'a [Batch],
}

/// Why a commit was not done, as far as is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Another owner holds the shard. Nothing was written, and nothing ever will be under this lease.
    #[error("the shard is held under epoch {held}, this commit carries {carried}")]
    Fenced {
        /// The epoch in force.
        held: u64,
        /// The epoch of the commit.
        carried: u64,
    },
    /// The shard does not stand where the group expected it. Nothing was written.
    #[error("the shard stands at commit {found}, expected {expected}")]
    Conflict {
        /// The sequence expected.
        expected: u64,
        /// The sequence found.
        found: u64,
    },
    /// The group is larger than the engine takes. Nothing was written.
    #[error("{bytes} bytes are more than the engine takes in one commit ({max})")]
    TooLarge {
        /// Bytes offered.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The commit may have been done or not; [`Engine::position`] tells.
    #[error("the outcome of the commit is unknown")]
    Unknown(#[source] std::io::Error),
    /// The engine can't commit now. Nothing was written that will be seen.
    #[error("the engine is unavailable")]
    Unavailable(#[source] std::io::Error),
    /// What the engine has to read for the commit, to remove a range or to keep the past of a snapshot, can't be read.
    /// Nothing was written, and commits that need not read it are done as before.
    #[error("what the commit replaces can't be read")]
    Unreadable(#[source] ReadError),
    /// What the engine holds is damaged.
    #[error("the engine's data is damaged: {0}")]
    Corrupt(String),
}

/// Why a read gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The engine can't be read now, or the snapshot is older than it keeps them.
    #[error("the engine is unavailable")]
    Unavailable(#[source] std::io::Error),
    /// What the engine holds is damaged.
    #[error("the engine's data is damaged: {0}")]
    Corrupt(String),
}
