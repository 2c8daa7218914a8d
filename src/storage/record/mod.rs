//! The records, each with the version of its schema: 1 where it does not say.
//!
//! A published schema is frozen: its bytes stand in the tests beside it, and a change is a new version with an
//! upgrade written by hand. Fields are never reordered, and enums only grow at their end.

mod entry;
mod failure;
mod flow;
mod instance;
mod row;
mod store;
#[cfg(test)]
mod tests;

pub use entry::{
    Answer, Attempt, Attempts, BranchStatus, ChildState, ClosePolicy, Completed, Content, Decided, ENDED, Entry,
    EntryKind, LoopState, Message, Name, Ran, Reach, Retained,
};
pub use failure::{Failure, FailureDetails, FailureKind};
pub(crate) use flow::InvalidGate;
pub use flow::{AtGate, Flow, Gate, Priority, Stand};
pub use instance::{Emitted, Hold, Input, Origin, Output, Parent, Published, Secret, State, Status};
pub use row::{Alarm, Closing, DeadLetter, IndexRow, Outgoing, Parcel, Runnable, Seen, Tombstone};
pub use store::{AcceptedLoss, Held, Importing, MigrationProgress, StoreHeader};
