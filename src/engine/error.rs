//! What comes out of a workflow that did not end well.

use std::error::Error as StdError;
use std::fmt;

use crate::location::TooDeep;
use crate::storage::payload::PayloadError;
use crate::storage::record::Failure;

/// The error of a workflow function: whatever `?` met, with its causes.
///
/// It converts from every error type, and so, like its kin in other crates, is not an [`std::error::Error`] itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowError {
    failure: Failure,
}

impl WorkflowError {
    pub(crate) fn into_failure(self) -> Failure {
        self.failure
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.failure.message)
    }
}

impl<E: StdError> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        Self {
            failure: failure(&error),
        }
    }
}

/// An error with its causes, as it is kept.
pub(crate) fn failure(error: &dyn StdError) -> Failure {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    Failure {
        message: error.to_string(),
        causes,
    }
}

/// An operation did not give what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepFailed {
    /// The step's own error.
    #[error("step `{name}` failed: {}", failure.message)]
    Failed {
        /// The name of the step.
        name: String,
        /// What happened.
        failure: Failure,
    },
    /// What is stored is not of the type asked for.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Operations are nested too deeply.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// The history and the code do not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("history has {recorded} at `{path}`, the code asked for {asked}")]
pub(crate) struct Divergence {
    /// Where.
    pub path: String,
    /// What history has there.
    pub recorded: &'static str,
    /// What the code asked for there.
    pub asked: &'static str,
}
