//! What an operator does with a store: look at it, mend its index, move it, copy it, bring it to a newer format.
//!
//! | verb | reads | writes |
//! |---|---|---|
//! | [`Store::verify`](crate::storage::Store::verify) | everything, under snapshots | nothing |
//! | [`OpenOptions::verify`](crate::storage::OpenOptions::verify) | the same, of a closed store | no row; what the engine does to its files when it opens |
//! | [`Store::rebuild_index`](crate::storage::Store::rebuild_index) | facts and listing rows | listing rows, through the committer |
//! | [`Store::export`](crate::storage::Store::export) | everything, under snapshots | a file |
//! | [`OpenOptions::import`](crate::storage::OpenOptions::import) | a file | a store that nobody else has |
//! | [`Store::backup`](crate::storage::Store::backup) | everything, under snapshots | a new store |
//! | migration, in [`OpenOptions::open`](crate::storage::OpenOptions::open) | everything | a store that nobody else has |
//!
//! All of them go through a store in pages and slices: memory does not grow with the store, but for the ids of those who
//! stand at gates in an import, and of all instances in a salvage. All of them block, and are called from a thread that
//! may wait.
//!
//! **Read first:** `walk` (how a store is read through), `writer` (how one that is not open yet is written), `schema`
//! (which record belongs under which key).
//!
//! **Architecture invariant:** an open store is written by its committer alone, here too. `writer` works on stores
//! whose committer has not started.

mod backup;
mod beside;
mod export;
mod import;
mod instance;
mod line;
mod migrate;
mod of_store;
mod reader;
mod repair;
mod report;
mod salvage;
mod schema;
mod verify;
mod wait;
mod walk;
mod writer;

pub use backup::Copied;
pub use export::Exported;
pub use import::Imported;
pub use repair::Rebuilt;
pub use report::{Fault, Finding, Report};
pub use salvage::{LeftOut, Salvaged};

pub(crate) use import::take_back;
pub(crate) use migrate::{Formats, migrate};
