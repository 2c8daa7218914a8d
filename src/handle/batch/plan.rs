//! What a batch is told, and what it tells.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::engine::Untyped;
use crate::handle::Error;
use crate::handle::list::Filter;
use crate::limits::BATCH_FAILURES_KEPT_MAX;
use crate::storage::index::IndexRange;
use crate::storage::record::Status;
use crate::telemetry;

/// What is to be done, and with whom. It is the input of the batch, and stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) filter: Filter,
    pub(super) from_ms: Millis,
    pub(super) before_ms: Option<Millis>,
    pub(super) operation: Operation,
}

impl Plan {
    /// Where in the listing to look: behind this place, and for nobody who was started at this time or later.
    pub(super) fn range(&self, after: Option<(Millis, String)>, before: Option<Millis>) -> IndexRange {
        IndexRange {
            from_ms: self.from_ms,
            before_ms: self.before_ms.into_iter().chain(before).min(),
            newest_first: false,
            after,
        }
    }
}

/// What is done with each of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Operation {
    Cancel {
        reason: String,
    },
    Terminate {
        reason: String,
    },
    /// Of those who ended like this.
    Retry {
        ended: Vec<Status>,
    },
    Pause,
    Resume,
    Send {
        name: String,
        value: Value,
    },
    Delete,
}

/// A value without its type, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Value {
    /// As text: not every value of JSON is one of CBOR.
    Json(String),
    Cbor(#[serde(with = "serde_bytes")] Vec<u8>),
}

impl Operation {
    pub(super) fn send(name: String, value: Untyped) -> Self {
        let value = match value {
            Untyped::Json(value) => Value::Json(value.to_string()),
            Untyped::Cbor(bytes) => Value::Cbor(bytes),
        };
        Self::Send { name, value }
    }

    /// Whether there is anything to do for an instance with this status.
    pub(super) fn applies_to(&self, status: Status) -> bool {
        match self {
            Self::Cancel { .. } | Self::Terminate { .. } | Self::Send { .. } => !status.is_terminal(),
            Self::Pause => !status.is_terminal() && status != Status::Paused,
            Self::Resume => status == Status::Paused,
            Self::Retry { ended } => ended.contains(&status) && status != Status::Completed,
            Self::Delete => status.is_terminal(),
        }
    }
}

/// What the runtime itself is made of.
pub(super) fn is_own(instance: &str) -> bool {
    instance.starts_with("__")
}

/// Whom a batch would be about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchCount {
    /// Instances that match.
    pub matched: u64,
    /// Those of them for whom there is something to do, by their status: one that has ended is not cancelled, one that
    /// has not is not deleted.
    pub applicable: u64,
}

/// How far a batch is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchProgress {
    /// Instances that it has come to.
    pub matched: u64,
    /// Those of them that are now as was asked, and were not when it came to them.
    pub done: u64,
    /// Those for whom there was nothing to do: they had ended, or had not, or were as was asked already.
    pub unchanged: u64,
    /// Those for whom it could not be done.
    pub failed: u64,
    /// Why not, for the first of them.
    pub failures: Vec<BatchFailure>,
    /// Whether it is over.
    #[serde(skip)]
    pub is_over: bool,
}

/// Why something could not be done for an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchFailure {
    /// The instance.
    pub id: String,
    /// The stable code of the error.
    pub code: String,
    /// What it says.
    pub message: String,
}

impl BatchProgress {
    /// Counts one more.
    pub(super) fn count(&mut self, id: &str, outcome: Result<Came, Error>) {
        self.matched += 1;
        telemetry::batch(match outcome {
            Ok(Came::Done) => "done",
            Ok(Came::Unchanged) => "unchanged",
            Err(_) => "failed",
        });
        match outcome {
            Ok(Came::Done) => self.done += 1,
            Ok(Came::Unchanged) => self.unchanged += 1,
            Err(error) => {
                self.failed += 1;
                self.failures.push(BatchFailure {
                    id: id.to_owned(),
                    code: error.code().to_owned(),
                    message: error.to_string(),
                });
                self.failures.truncate(BATCH_FAILURES_KEPT_MAX);
            }
        }
    }

    /// Counts what was counted elsewhere.
    pub(super) fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.done += other.done;
        self.unchanged += other.unchanged;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.failures.truncate(BATCH_FAILURES_KEPT_MAX);
    }
}

/// What an operation on one instance came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// It is as was asked, and was not when the batch came to it.
    Done,
    /// There was nothing to do.
    Unchanged,
}
