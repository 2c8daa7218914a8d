//! A failure as it is kept.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::storage::value::Record;

/// What went wrong, where, how often, and why: enough to tell it in full after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// The path of the operation that failed; empty for the workflow function itself.
    pub path: String,
    /// Attempts that were made.
    pub attempts: u32,
    /// The causes, nearest first.
    pub causes: Vec<String>,
    /// The failures of branches, by name.
    pub branches: Vec<(String, Failure)>,
}

impl Record for Failure {
    const TYPE: u8 = 8;
    const NAME: &'static str = "failure";
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FailureKind {
    /// An error of the user's code.
    Error,
    /// An error that is not worth another attempt.
    Critical,
    /// An error that is not worth another attempt and asks for what was done to be undone.
    Rollback,
    /// Every attempt failed.
    Exhausted,
    /// An attempt, or a wait, took too long.
    TimedOut,
    /// The code panicked.
    Panicked,
    /// The operation was cancelled.
    Cancelled,
    /// The instance ran out of time.
    DeadlineExceeded,
    /// Branches failed.
    Branches,
    /// The code used the context in a way that it must not.
    Misuse,
    /// A value could not be stored, or is not of the type asked for.
    Payload,
}

impl Failure {
    /// A failure of this kind, with nothing known but what happened.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let (message, path) = (message.into(), String::new());
        Self {
            kind,
            message,
            path,
            attempts: 0,
            causes: Vec::new(),
            branches: Vec::new(),
        }
    }

    /// An error with its causes.
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        let mut failure = Self::new(FailureKind::Error, error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            failure.causes.push(error.to_string());
            cause = error.source();
        }
        failure
    }

    /// The same failure, at this place.
    #[must_use]
    pub(crate) fn at(self, path: String) -> Self {
        Self { path, ..self }
    }

    /// Whether another attempt could go better.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, FailureKind::Error | FailureKind::Panicked)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`", self.path)?;
            match self.kind {
                FailureKind::TimedOut => write!(f, " timed out")?,
                FailureKind::Cancelled => write!(f, " was cancelled")?,
                FailureKind::Panicked => write!(f, " panicked")?,
                _ => write!(f, " failed")?,
            }
            if self.attempts > 1 {
                write!(f, " after {} attempts", self.attempts)?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.message)?;
        for (branch, failure) in &self.branches {
            write!(f, "; {branch}: {failure}")?;
        }
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
