//! Records about the store itself.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::storage::value::Record;

/// How far a shard has got, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Grows with every acquisition.
    pub epoch: u64,
    /// Who acquired it last.
    pub owner: u64,
    /// Commits so far.
    pub sequence: u64,
    /// The hash over all of them.
    pub chain: u64,
}

impl Record for Held {
    const TYPE: u8 = 1;
    const NAME: &'static str = "position";
}

/// What a store is, settled when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHeader {
    /// The format of everything in the store. A store of a newer format is refused and left untouched.
    pub format: u32,
    /// How many shards it has.
    pub shards: u16,
    /// When it was made.
    pub created_at_ms: Millis,
    /// Losses that somebody accepted on purpose, oldest first.
    pub accepted_losses: Vec<AcceptedLoss>,
    /// Messages that came with an import or a backup were accepted under epochs of another store, up to this one;
    /// the epochs of this store's own messages are counted from here.
    pub arrivals_above: u64,
    /// An import that has not ended. Of a whole store: while this is set it does not open. Of one instance: whoever
    /// opens the store next takes that back first.
    pub importing: Option<Importing>,
    /// How far the way to `format` has got; none when everything is in that format.
    pub migration: Option<MigrationProgress>,
}

impl Record for StoreHeader {
    const TYPE: u8 = 2;
    const NAME: &'static str = "store header";
}

/// An import that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Importing {
    /// The one instance that is being imported; none for a whole store.
    pub instance: Option<String>,
}

/// How far a migration has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationProgress {
    /// The format that the rest of the store still has.
    pub from: u32,
    /// The shard that is being migrated; those before it are done.
    pub shard: u16,
    /// The last key of that shard that is done.
    #[serde(with = "serde_bytes")]
    pub done: Vec<u8>,
}

/// A loss that was accepted so that a store behind its watermark could be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// When.
    pub at_ms: Millis,
    /// The shard that was behind.
    pub shard: u16,
    /// The sequence that the watermark had seen; none if there was no readable watermark.
    pub expected: Option<u64>,
    /// The sequence that was left.
    pub found: u64,
}
