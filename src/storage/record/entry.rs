//! Records of an instance's history and inbox.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::ids::MessageId;
use crate::storage::payload::Payload;
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
    /// Its place in the order in which completions were committed; none while it is not complete.
    pub order: Option<u64>,
    /// What it is.
    pub kind: EntryKind,
}

impl Record for Entry {
    const TYPE: u8 = 4;
    const NAME: &'static str = "entry";
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
    /// A message that was taken.
    Message(Message),
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepOutcome {
    /// It returned this.
    Completed(Payload),
    /// It failed for good.
    Failed(Failure),
}

/// A failure as it is kept: what happened, and what caused it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// The causes, nearest first.
    pub causes: Vec<String>,
}

impl Record for Failure {
    const TYPE: u8 = 8;
    const NAME: &'static str = "failure";
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

/// The attempts at an entry that are not its final outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// How many there were.
    pub count: u32,
    /// How the last one failed.
    pub last: Option<Failure>,
    /// When the next one is due.
    pub next_at_ms: Option<Millis>,
}

impl Record for Attempts {
    const TYPE: u8 = 11;
    const NAME: &'static str = "attempts";
}
