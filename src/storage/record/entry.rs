//! Records of an instance's history and inbox.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::ids::MessageId;
use crate::storage::payload::Payload;
use crate::storage::record::Failure;
use crate::storage::value::Record;

/// A name in the registry of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name(pub String);

impl Record for Name {
    const TYPE: u8 = 3;
    const NAME: &'static str = "name";
}

/// One recorded operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number among the entries of the instance.
    pub id: u64,
    /// Its place in the order in which completions were committed, and when that was; none while it is not complete,
    /// and for entries that nothing waits for.
    pub completed: Option<Completed>,
    /// What it is.
    pub kind: EntryKind,
}

impl Record for Entry {
    const TYPE: u8 = 4;
    const NAME: &'static str = "entry";
}

/// The completion of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// Its place among the completions of the instance.
    pub order: u64,
    /// When it was decided. What the code reads as the time comes from here.
    pub at_ms: Millis,
}

/// What an entry records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A unit of work, and how it ended.
    Step(Option<StepOutcome>),
    /// A wait for a point in time.
    Sleep {
        /// When it ends.
        wake_at_ms: Millis,
    },
    /// A wait for messages, and what ended it.
    Receive {
        /// When it gives up.
        until_ms: Option<Millis>,
        /// What was taken; nothing when it gave up.
        taken: Vec<Message>,
    },
    /// A durable loop: where it stands, or what it broke with.
    Loop(LoopState),
    /// Branches that all run to their end.
    Join {
        /// Each branch by name, in the order of the code.
        branches: Vec<(String, BranchStatus)>,
    },
    /// Branches of which the first to complete wins.
    Race {
        /// The branch that won.
        winner: Option<String>,
    },
    /// Which version of the code an instance follows at a gate.
    Version {
        /// The version.
        version: u32,
    },
    /// An entry whose code is gone.
    Removed,
    /// The instance was asked to end.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The instance ran out of time.
    Deadline,
}

impl EntryKind {
    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::Sleep { .. } => "sleep",
            Self::Receive { .. } => "receive",
            Self::Loop(_) => "loop",
            Self::Join { .. } => "join",
            Self::Race { .. } => "race",
            Self::Version { .. } => "version",
            Self::Removed => "removed",
            Self::Cancel { .. } => "cancel",
            Self::Deadline => "deadline",
        }
    }
}

/// Where a durable loop stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// The iteration that begins with this state.
    pub iteration: u64,
    /// The state.
    pub state: Payload,
    /// The first iteration whose entries are kept.
    pub kept_from: u64,
    /// What the loop broke with.
    pub output: Option<Payload>,
    /// Completions that the code had seen when this was recorded: where replay takes the state up.
    pub seen: u64,
    /// What the code read as the time then.
    pub now_ms: Millis,
}

/// How far a branch has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BranchStatus {
    /// Not begun.
    Pending,
    /// On its way.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepOutcome {
    /// It returned this.
    Completed(Payload),
    /// It failed for good.
    Failed(Failure),
}

/// A message, in the inbox or taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The name by which a workflow receives it.
    pub name: String,
    /// Its id.
    pub id: MessageId,
    /// What it says.
    pub payload: Payload,
    /// When it was accepted.
    pub sent_at_ms: Millis,
}

impl Record for Message {
    const TYPE: u8 = 5;
    const NAME: &'static str = "message";
}

/// The attempts at a step that were not its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// How they failed, oldest first; the oldest are dropped when there are many.
    pub failed: Vec<Attempt>,
    /// How many there were in all.
    pub count: u32,
    /// When the next one is due.
    pub next_at_ms: Option<Millis>,
}

impl Record for Attempts {
    const TYPE: u8 = 11;
    const NAME: &'static str = "attempts";
}

/// One attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which one, from one.
    pub number: u32,
    /// When it began.
    pub started_at_ms: Millis,
    /// How long it took.
    pub duration_ms: Millis,
    /// What happened.
    pub failure: Failure,
}
