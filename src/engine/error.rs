//! What comes out of code that did not end well.

use std::error::Error as StdError;
use std::fmt;

use crate::duration::InvalidDuration;
use crate::engine::bounds::Exceeded;
use crate::engine::names::InvalidName;
use crate::ids::InvalidId;
use crate::limits::{SAID_BYTES_MAX, SAID_ITEM_BYTES_MAX};
use crate::location::TooDeep;
use crate::storage::payload::{Payload, PayloadError};
use crate::storage::record::{Failure, FailureKind, InvalidGate};

/// What a workflow, a step or an activity returns.
pub type Result<T, E = WorkflowError> = std::result::Result<T, E>;

/// The error of a workflow, a step or an activity: whatever `?` met, with its causes.
///
/// It converts from every error type and so, like its kin in other crates, is not an [`std::error::Error`] itself. An
/// error whose [source](std::error::Error::source) is a [`Failure`] keeps what is known about that: whether it is worth
/// another attempt, where it happened, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowError {
    failure: Failure,
    /// Not an error at all: the run is over, and the next one begins with this.
    next_run: Option<Box<Payload>>,
}

impl WorkflowError {
    /// An error that only says this.
    pub fn msg(message: impl Into<String>) -> Self {
        Failure::new(FailureKind::Error, message).into()
    }

    /// What happened, where, how often, and why.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    pub(crate) fn into_failure(self) -> Failure {
        self.failure
    }

    /// What a function returns whose next run begins with this.
    pub(crate) fn next_run(input: Payload) -> Self {
        let message = "the run is over and the next one begins; return this from the workflow function itself";
        Self {
            next_run: Some(Box::new(input)),
            ..Failure::new(FailureKind::Misuse, message).into()
        }
    }

    /// What the next run begins with, or the failure.
    pub(crate) fn into_next_run(self) -> Result<Payload, Failure> {
        match self.next_run {
            Some(input) => Ok(*input),
            None => Err(self.failure),
        }
    }

    /// Whether this says that the next run begins.
    pub(crate) fn is_next_run(&self) -> bool {
        self.next_run.is_some()
    }

    /// The error of code that has run out of time, in its own words.
    pub(crate) fn of_deadline(mut self, why: &str) -> Self {
        if self.failure.kind != FailureKind::DeadlineExceeded && !self.is_next_run() {
            self.failure.kind = FailureKind::DeadlineExceeded;
            self.failure.causes.push(why.to_owned());
        }
        self
    }

    fn marked(mut self, kind: FailureKind) -> Self {
        self.failure.kind = kind;
        self
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl<E: StdError + 'static> From<E> for WorkflowError {
    fn from(error: E) -> Self {
        // A failure that comes out of an operation goes on as it is, also inside an error of the user's: kind, path and
        // attempts are not flattened to text.
        let failure = Failure::of(&error);
        let next_run = None;
        Self { failure, next_run }
    }
}

/// Marks an error as not worth another attempt.
///
/// ```
/// # use everstep::{Ctx, Error, Result, Runtime, critical, ok, workflow};
/// #[workflow]
/// async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u16> {
///     // However often it is tried, it remains too much.
///     ok(ctx.step("charge", move || async move { u16::try_from(amount).map_err(critical) }).await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// # let payment = runtime.start(payment, 70_000).await?;
/// let Err(Error::Failed(failure)) = payment.result().await else { panic!("it is too much") };
/// assert_eq!(failure.attempts, 1);
/// # Ok(()) }
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

/// Returns early with an error, unless a condition holds. It is what `anyhow::ensure!` is, for the [`WorkflowError`] of
/// workflows, steps and activities.
///
/// ```
/// use everstep::{Result, ensure, ok};
///
/// async fn charge(amount: u32) -> Result<u32> {
///     ensure!(amount <= 1_000, "{amount} is more than a card may be charged");
///     ok(amount)
/// }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let refused = charge(2_000).await.unwrap_err();
/// assert_eq!(refused.to_string(), "2000 is more than a card may be charged");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
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
        "`{path}` is used twice in the same scope, first by a {first} and then by a {second}; give each a name of its own \
         (an activity by `.named(..)`), or a scope, as each turn of `ctx.map` and `ctx.repeat` has"
    )]
    NameTwice {
        path: String,
        first: &'static str,
        second: &'static str,
    },
    #[error("two branches have the name `{0}`; give each a name of its own")]
    BranchTwice(String),
    #[error("a context can only be used by its own workflow function, not in a step and not in another task")]
    OutsideWorkflow,
    #[error(
        "an operation of a loop's iteration was awaited after the iteration had ended; await it inside, or make it in \
         the scope around the loop and await it there first"
    )]
    OutlivedIteration,
    #[error(
        "the iteration `{iteration}` used the context around its loop, or was the first to await something that was \
         made there; after a restart the loop goes on from a recorded state and does not come here again, so use the \
         context that the body is given, or begin to await it before the loop"
    )]
    AroundLoop { iteration: String },
    #[error(
        "the workflow function waits for something that is not an operation of its context (a timer, a channel from \
         elsewhere, `yield_now` beside an operation), which replay could not repeat; do it in a step, or wait with \
         `sleep`, `receive` or the `timeout` of an operation"
    )]
    ForeignWait,
    #[error(
        "`{path}` can be undone, but nothing says from where on in this iteration of a loop; call `ctx.checkpoint(..)` \
         before it, in the same iteration"
    )]
    NoCheckpoint { path: String },
    #[error(
        "{bytes} bytes, after {before} since the last operation, are more than the code can say at once \
         ({SAID_ITEM_BYTES_MAX} each, {SAID_BYTES_MAX} together); store them elsewhere and say where they are"
    )]
    SaidTooMuch { bytes: usize, before: usize },
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
    #[error(transparent)]
    Id(#[from] InvalidId),
    #[error(transparent)]
    Gate(#[from] InvalidGate),
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl From<Misuse> for Failure {
    fn from(misuse: Misuse) -> Self {
        let failure = Failure::new(FailureKind::Misuse, misuse.to_string());
        match misuse {
            Misuse::SaidTooMuch { .. } => failure.of_kind(FailureKind::Limit).coded("ES0107"),
            Misuse::AroundLoop { .. } => failure.coded("ES0108"),
            Misuse::Exceeded(exceeded) => exceeded.into(),
            Misuse::Name(error) => failure.coded(error.code()),
            Misuse::TooDeep(error) => failure.coded(error.code()),
            Misuse::Duration(error) => failure.coded(error.code()),
            Misuse::Gate(error) => failure.coded(error.code()),
            _ => failure,
        }
    }
}

impl From<PayloadError> for Failure {
    fn from(error: PayloadError) -> Self {
        let failure = Failure::of(&error).coded(error.code());
        failure.of_kind(FailureKind::Payload)
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

/// The code of a question that nobody answered.
pub(crate) const UNANSWERED: &str = "ES0415";

/// What a question gets that nobody answered.
pub(crate) fn unanswered() -> Failure {
    Failure::new(FailureKind::Rejected, "the workflow did not answer the question").coded(UNANSWERED)
}
