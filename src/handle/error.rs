//! What a call on the runtime or on a handle can fail with.

use crate::config::InvalidConfig;
use std::time::Duration;

use crate::duration::InvalidDuration;
use crate::engine::{InvalidToken, UNANSWERED};
use crate::ids::{InstanceId, InvalidId, MessageId};
use crate::storage;
use crate::storage::record::{Failure, FailureKind, Status};
use crate::timing::InvalidTiming;

/// What a call returns.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused or failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The text is not an id.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// There is no such instance.
    #[error("there is no instance `{0}`")]
    Unknown(InstanceId),
    /// The instance ended with an error.
    #[error("the instance {}: {}", ended(.0.kind), .0.message)]
    Failed(Failure),
    /// There is an instance with this id, and the start was to be refused then.
    #[error("there is an instance `{0}` already")]
    Exists(InstanceId),
    /// This process was not told about the workflow.
    #[error("no workflow `{0}` is registered; add it with `Runtime::builder().workflow(..)`")]
    Unregistered(String),
    /// The instance is one of another workflow.
    #[error("the instance `{instance}` is a `{found}` and not a `{expected}`")]
    OtherWorkflow {
        /// The instance.
        instance: InstanceId,
        /// The type name that was asked for.
        expected: String,
        /// The type name that it has.
        found: String,
    },
    /// The instance has ended, and takes nothing more.
    #[error("the instance `{instance}` has ended: {status}")]
    Finished {
        /// The instance.
        instance: InstanceId,
        /// How it ended.
        status: Status,
    },
    /// The inbox of the instance holds as many messages as it may, or as many bytes of them.
    #[error("the inbox of `{instance}` is full: {messages} messages of {bytes} bytes wait in it")]
    InboxFull {
        /// The instance.
        instance: InstanceId,
        /// How many messages wait.
        messages: usize,
        /// How large they are together.
        bytes: usize,
    },
    /// The instance was deleted.
    #[error("the instance `{0}` was deleted")]
    Deleted(InstanceId),
    /// There are too many tags, or one is too long.
    #[error("{0}")]
    Tags(String),
    /// As many wait already as the start was to put up with.
    #[error("{}", crowded(key.as_deref(), *waiting))]
    Crowded {
        /// The key that they wait with; none if they wait for a place in memory.
        key: Option<String>,
        /// How many were allowed to wait.
        waiting: usize,
    },
    /// The key of a limit, or the limit, is not one.
    #[error("{0}")]
    Gate(String),
    /// The wait took longer than the caller wanted to wait.
    #[error("nothing came within {0:?}")]
    TimedOut(Duration),
    /// The instance has not ended, and only one that has can be deleted.
    #[error("the instance `{instance}` has not ended: {status}")]
    NotFinished {
        /// The instance.
        instance: InstanceId,
        /// Its status.
        status: Status,
    },
    /// The text is not a place in this listing.
    #[error("`{0}` is not a cursor of this listing")]
    InvalidCursor(String),
    /// The instance can't be taken back to that place.
    #[error("there is no way back to `{path}`: {why}")]
    NoWayBack {
        /// The path that was asked for; empty if it was the last failure.
        path: String,
        /// Why not.
        why: String,
    },
    /// The instance did not answer the question, and will not.
    #[error("the instance `{0}` did not answer the question")]
    Unanswered(InstanceId),
    /// The answer to the question is an error.
    #[error("the question was refused: {}", .0.message)]
    Refused(Failure),
    /// The workflow of the instance accepts no message of this name.
    #[error("`{workflow}` accepts no message `{name}`; it accepts {}", listed(.accepted))]
    NotAccepted {
        /// The type name of the workflow.
        workflow: String,
        /// The name that was asked for.
        name: String,
        /// The names that it accepts.
        accepted: Vec<&'static str>,
    },
    /// The value is not one of the type that is expected there.
    #[error("the value can't be read as {what}: {why}")]
    Undecodable {
        /// What it was to be: the input of a workflow, or a message.
        what: String,
        /// Why it is not.
        why: String,
    },
    /// The token is not one of a promise.
    #[error(transparent)]
    InvalidToken(#[from] InvalidToken),
    /// The instance had given the promise up before anybody decided it.
    #[error("the instance `{0}` no longer waits for this promise: it was not decided in time")]
    TooLate(InstanceId),
    /// Something that the instance emitted is not of the type that is asked for. The stream goes on behind it.
    #[error("{} can't be read: {source}", item(*cursor))]
    Item {
        /// Its place; none if it was broadcast.
        cursor: Option<u64>,
        /// Why not.
        source: storage::Error,
    },
    /// The text is not a duration.
    #[error(transparent)]
    InvalidDuration(#[from] InvalidDuration),
    /// There are no such times.
    #[error(transparent)]
    InvalidTiming(#[from] InvalidTiming),
    /// The configuration can't be used.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// The instance does not go on by itself, and whoever waited for it wanted to know.
    #[error("the instance `{instance}` is {status}: {reason}")]
    Held {
        /// The instance.
        instance: InstanceId,
        /// How it is held: stuck, parked or quarantined.
        status: Status,
        /// Why.
        reason: String,
    },
    /// The workflow has no such version here.
    #[error("`{workflow}` has version {newest} here, and not {version} yet")]
    Version {
        /// The type name of the workflow.
        workflow: String,
        /// The version that was asked for.
        version: u32,
        /// The one that this process has.
        newest: u32,
    },
    /// A value has more bytes than one may have.
    #[error("{what} has {bytes} bytes, at most {max} can be stored; store it elsewhere and give a reference")]
    TooLarge {
        /// What it is: an input, or a message.
        what: String,
        /// The bytes that it has.
        bytes: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// The message is no longer among the dead letters: it was delivered or thrown away.
    #[error("the message `{0}` is no dead letter any more: it was delivered or thrown away")]
    NotDead(MessageId),
    /// The runtime has stopped: nothing is waited for and nothing is taken any more. What was accepted before is done when
    /// the store is next opened.
    #[error("the runtime has stopped")]
    Stopped,
    /// A part of the runtime did not start.
    #[error("the runtime could not be started: {0}")]
    Start(String),
}

impl Error {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Storage(error) | Self::Item { source: error, .. } => error.code(),
            Self::InvalidId(error) => error.code(),
            Self::Unknown(_) => "ES0401",
            Self::Failed(_) => "ES0402",
            Self::Start(_) => "ES0403",
            Self::Exists(_) => "ES0404",
            Self::Unregistered(_) => "ES0405",
            Self::OtherWorkflow { .. } => "ES0406",
            Self::Finished { .. } => "ES0407",
            Self::Deleted(_) => "ES0408",
            Self::Tags(_) => "ES0409",
            Self::Crowded { .. } => "ES0430",
            Self::Gate(_) => "ES0431",
            Self::TimedOut(_) => "ES0410",
            Self::NotFinished { .. } => "ES0411",
            Self::InvalidCursor(_) => "ES0412",
            Self::NoWayBack { .. } => "ES0413",
            Self::InboxFull { .. } => "ES0414",
            Self::Unanswered(_) => UNANSWERED,
            Self::Refused(_) => "ES0416",
            Self::NotAccepted { .. } => "ES0417",
            Self::Undecodable { .. } => "ES0418",
            Self::TooLate(_) => "ES0419",
            Self::Stopped => "ES0420",
            Self::Held { .. } => "ES0421",
            Self::Version { .. } => "ES0422",
            Self::NotDead(_) => "ES0423",
            Self::TooLarge { .. } => "ES0301",
            Self::InvalidToken(error) => error.code(),
            Self::InvalidDuration(error) => error.code(),
            Self::InvalidTiming(error) => error.code(),
            Self::Config(error) => error.code(),
        }
    }
}

/// Names, for people.
fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn ended(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Cancelled => "was cancelled",
        FailureKind::Terminated => "was terminated",
        FailureKind::DeadlineExceeded => "ran out of time",
        _ => "failed",
    }
}

fn item(cursor: Option<u64>) -> String {
    match cursor {
        Some(cursor) => format!("the item at {cursor}"),
        None => "an item that was broadcast".into(),
    }
}

fn crowded(key: Option<&str>, waiting: usize) -> String {
    match key {
        Some(key) => format!("{waiting} instances wait for their turn with the key `{key}` already"),
        None => format!("{waiting} instances wait for a place in memory already"),
    }
}
