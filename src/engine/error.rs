//! What comes out of code that did not end well.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

use crate::duration::InvalidDuration;
use crate::engine::names::InvalidName;
use crate::location::TooDeep;
use crate::storage::payload::PayloadError;
use crate::storage::record::{Failure, FailureKind};

/// What a workflow, a step or an activity returns.
pub type Result<T, E = WorkflowError> = std::result::Result<T, E>;

/// The error of a workflow, a step or an activity: whatever `?` met, with its causes.
///
/// It converts from every error type and so, like its kin in other crates, is not an [`std::error::Error`] itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowError(Box<Failure>);

impl WorkflowError {
    /// An error that only says this.
    pub fn msg(message: impl Into<String>) -> Self {
        Self(Box::new(Failure::new(FailureKind::Error, message)))
    }

    /// What happened, where, how often, and why.
    pub fn failure(&self) -> &Failure {
        &self.0
    }

    pub(crate) fn into_failure(self) -> Failure {
        *self.0
    }

    fn marked(mut self, kind: FailureKind) -> Self {
        self.0.kind = kind;
        self
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: StdError + 'static> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        // A failure that comes out of an operation goes on as it is: kind, path and attempts are not flattened to text.
        let failure = (&error as &dyn Any).downcast_ref::<Failure>().cloned();
        Self(Box::new(failure.unwrap_or_else(|| Failure::of(&error))))
    }
}

/// Marks an error as not worth another attempt.
///
/// ```
/// # use everstep::{Result, critical, ok};
/// async fn charge(amount: u32) -> Result<u32> {
///     let checked = u16::try_from(amount).map_err(critical)?;
///     ok(u32::from(checked))
/// }
/// ```
pub fn critical(error: impl Into<WorkflowError>) -> WorkflowError {
    error.into().marked(FailureKind::Critical)
}

/// Marks an error as not worth another attempt, and asks for what was done so far to be undone.
pub fn rollback(error: impl Into<WorkflowError>) -> WorkflowError {
    error.into().marked(FailureKind::Rollback)
}

/// `Ok`, for blocks whose error type would otherwise have to be spelled out.
pub fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Returns early with an error, unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return ::core::result::Result::Err($crate::WorkflowError::msg(::std::format!($($message)+)));
        }
    };
}

/// A use of the context that can't mean anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Misuse {
    #[error(
        "`{path}` is used twice in the same scope, first by a {first} and then by a {second}; give each a name of its own"
    )]
    NameTwice {
        path: String,
        first: &'static str,
        second: &'static str,
    },
    #[error("a context can only be used by its own workflow function, not in a step and not in another task")]
    OutsideWorkflow,
    #[error(
        "an operation of a loop's iteration was awaited after the iteration had ended; await it inside, or make it in \
         the scope around the loop"
    )]
    OutlivedIteration,
    #[error(
        "the workflow function waits for something that is not an operation of its context, which replay could not \
         repeat; do it in a step, or wait with `sleep` or `receive`"
    )]
    ForeignWait,
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
}

impl From<Misuse> for Failure {
    fn from(misuse: Misuse) -> Self {
        Failure::new(FailureKind::Misuse, misuse.to_string())
    }
}

impl From<PayloadError> for Failure {
    fn from(error: PayloadError) -> Self {
        Failure {
            kind: FailureKind::Payload,
            ..Failure::of(&error)
        }
    }
}

impl Failure {
    pub(crate) fn cancelled(reason: &str) -> Self {
        Self::new(FailureKind::Cancelled, reason)
    }

    pub(crate) fn deadline() -> Self {
        Self::new(FailureKind::DeadlineExceeded, "the deadline of the instance has passed")
    }

    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self::new(FailureKind::TimedOut, message)
    }
}
