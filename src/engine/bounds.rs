//! What becomes of an instance that holds more than it may. Each bound has an error with a code.

use crate::config::Bounds;
use crate::storage::record::{Failure, FailureKind};

/// A bound that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("the value has {bytes} bytes, at most {max} can be stored; store it elsewhere and return a reference")]
    Payload { bytes: usize, max: usize },
    #[error(
        "the history would have more than {max} entries; do the repeated part in `repeat`, or begin anew with \
         `continue_as_new`"
    )]
    HistoryEntries { max: u64 },
    #[error(
        "the history has {bytes} bytes, no more than {max} are kept; store large values elsewhere, or do the repeated \
         part in `repeat`"
    )]
    HistoryBytes { bytes: u64, max: u64 },
    #[error("a scope would have more than {max} operations; use `repeat`, or `map` over parts")]
    Scope { max: u64 },
    #[error(
        "an instance has at most {max} different names for its operations; a number belongs to a loop or to `map`, not \
         into a name"
    )]
    Names { max: usize },
    #[error(
        "more is asked for at once than one commit can hold ({max} bytes of names and entries); begin it in parts, with \
         `repeat` or `map`"
    )]
    AtOnce { max: usize },
    #[error("values are published under at most {max} names; put several of them into one value")]
    Published { max: usize },
    #[error("at most {max} questions can be open; answer some before taking more")]
    Questions { max: usize },
    #[error("at most {max} events can be waited for at a time; wait for some before waiting for more")]
    Events { max: usize },
}

impl Exceeded {
    /// The stable code of this error.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Payload { .. } => "ES0301",
            Self::HistoryEntries { .. } => "ES0302",
            Self::HistoryBytes { .. } => "ES0303",
            Self::Scope { .. } => "ES0304",
            Self::Names { .. } | Self::AtOnce { .. } => "ES0305",
            Self::Published { .. } => "ES0306",
            Self::Questions { .. } => "ES0307",
            Self::Events { .. } => "ES0308",
        }
    }
}

impl From<Exceeded> for Failure {
    fn from(exceeded: Exceeded) -> Self {
        Failure::new(FailureKind::Limit, exceeded.to_string()).coded(exceeded.code())
    }
}

impl Bounds {
    /// Whether a value of this size may be stored.
    pub(crate) fn check_payload(&self, bytes: usize) -> Result<(), Exceeded> {
        let max = self.payload_bytes_max;
        if bytes > max {
            return Err(Exceeded::Payload { bytes, max });
        }
        Ok(())
    }

    /// Whether a history of this size may have another entry.
    pub(crate) fn check_history(&self, entries: u64, bytes: u64) -> Result<(), Exceeded> {
        if entries >= self.history_entries_max {
            let max = self.history_entries_max;
            return Err(Exceeded::HistoryEntries { max });
        }
        if bytes > self.history_bytes_max {
            let max = self.history_bytes_max;
            return Err(Exceeded::HistoryBytes { bytes, max });
        }
        Ok(())
    }

    /// Whether a scope may have so many operations.
    pub(crate) fn check_scope(&self, entries: u64) -> Result<(), Exceeded> {
        let max = self.scope_entries_max;
        if entries > max {
            return Err(Exceeded::Scope { max });
        }
        Ok(())
    }
}

/// Something that is worth a look before it becomes an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Warning {
    #[error(
        "the history has {entries} entries, and fails the instance at {max}; do the repeated part in `repeat`, or \
         begin anew with `continue_as_new`"
    )]
    HistoryEntries { entries: u64, max: u64 },
    #[error("the history has {bytes} bytes, and fails the instance at {max}; store large values elsewhere")]
    HistoryBytes { bytes: u64, max: u64 },
    #[error("the result of `{path}` has {bytes} bytes, and fails at {max}; store it elsewhere")]
    Payload { path: String, bytes: usize, max: usize },
}
