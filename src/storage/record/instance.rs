//! Records of facts about an instance.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::storage::payload::Payload;
use crate::storage::value::Record;

/// Where an instance is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Status {
    /// Accepted, not yet run.
    Pending,
    /// Running its code or a step.
    Running,
    /// Waiting for a point in time.
    Sleeping,
    /// Waiting for a message.
    Waiting,
    /// Waiting for the next attempt at a step.
    BackingOff,
    /// Held by an operator.
    Paused,
    /// Undoing what it did.
    Compensating,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because it was asked to.
    Cancelled,
    /// Ended at once, without cleaning up.
    Terminated,
    /// Ended after undoing what it did.
    Compensated,
    /// Kept as it is, for inspection.
    Quarantined,
    /// Its history and its code do not match.
    Stuck,
    /// Its type or version is not known to this process.
    Parked,
}

impl Status {
    /// Whether the instance has ended. Such a status is left only by an operator's reset or retry, as a new run.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Terminated | Self::Compensated
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Waiting => "waiting",
            Self::BackingOff => "backing off",
            Self::Paused => "paused",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::Compensated => "compensated",
            Self::Quarantined => "quarantined",
            Self::Stuck => "stuck",
            Self::Parked => "parked",
        })
    }
}

/// What changes while an instance lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Where it is in its life.
    pub status: Status,
    /// Which run this is, from one.
    pub run: u32,
    /// Grows with every commit of the instance.
    pub revision: u64,
    /// When its alarm rings; the alarm row lies under this time.
    pub alarm_at_ms: Option<Millis>,
    /// Entries in the history. A history with another number of rows has a gap.
    pub entries: u64,
    /// Completions so far: the place of the next one.
    pub completions: u64,
    /// When this was written.
    pub updated_at_ms: Millis,
}

impl Record for State {
    const TYPE: u8 = 6;
    const NAME: &'static str = "state";
}

/// What was settled when an instance began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The type name of the workflow.
    pub workflow: String,
    /// The version of the code that began it.
    pub version: u32,
    /// When it was started; the listing row lies under this time.
    pub created_at_ms: Millis,
}

impl Record for Origin {
    const TYPE: u8 = 9;
    const NAME: &'static str = "origin";
}

/// What an instance was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input(pub Payload);

impl Record for Input {
    const TYPE: u8 = 10;
    const NAME: &'static str = "input";
}

/// What an instance returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output(pub Payload);

impl Record for Output {
    const TYPE: u8 = 7;
    const NAME: &'static str = "output";
}
