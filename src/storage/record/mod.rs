//! The records, schema version 1.
//!
//! A published schema is frozen: its bytes stand in the tests beside it, and a change is a new version with an
//! upgrade written by hand. Fields are never reordered, and enums only grow at their end.

mod entry;
mod failure;
mod instance;
mod row;
mod store;
#[cfg(test)]
mod tests;

pub use entry::{Attempt, Attempts, BranchStatus, Completed, Entry, EntryKind, LoopState, Message, Name, StepOutcome};
pub use failure::{Failure, FailureKind};
pub use instance::{Input, Origin, Output, State, Status};
pub use row::{Alarm, IndexRow, Runnable, Seen};
pub use store::{AcceptedLoss, Held, Importing, MigrationProgress, StoreHeader};
