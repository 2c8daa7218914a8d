//! A failure as it is kept.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::limits::{FAILURE_PARTS_MAX, FAILURE_TEXT_BYTES_MAX};
use crate::storage::value::Record;

/// What went wrong, where, how often, and why: enough to tell it in full after a restart.
///
/// It reads like its [`FailureDetails`]. They lie behind a pointer, because every `?` on the way of what goes well has
/// to make room for what could have gone wrong.
///
/// ```
/// # use everstep::{Ctx, Result, ok, workflow};
/// use everstep::storage::record::FailureKind;
///
/// #[workflow]
/// async fn payment(ctx: Ctx<Payment>) -> Result<u32> {
///     let charged = ctx.step("charge", || async { ok(1) }).timeout("30s").await;
///     match charged {
///         Ok(amount) => ok(amount),
///         Err(failure) if failure.kind == FailureKind::TimedOut => ok(0),
///         Err(failure) => Err(failure.into()),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failure(Box<FailureDetails>);

/// All that is known about a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureDetails {
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
    /// The stable code of an error of ours, which has a page that says what to do.
    pub code: Option<String>,
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
    /// A child failed.
    Child,
    /// A bound of the system was reached.
    Limit,
    /// A promise was rejected.
    Rejected,
    /// The instance was ended at once.
    Terminated,
    /// An attempt gave no sign of life for too long.
    Silent,
    /// The process ended while the attempt was running.
    Crashed,
}

impl Failure {
    /// A failure of this kind, with nothing known but what happened.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::from(FailureDetails {
            kind,
            message: message.into(),
            path: String::new(),
            attempts: 0,
            causes: Vec::new(),
            branches: Vec::new(),
            code: None,
        })
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

    /// The failure of a child, with its cause inside.
    pub(crate) fn of_child(instance: &str, cause: &Self) -> Self {
        let failure = Self::new(FailureKind::Child, "the child did not complete");
        failure.in_branches(vec![(instance.to_owned(), cause.clone())])
    }

    /// The same failure, at this place.
    #[must_use]
    pub(crate) fn at(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    /// The same failure, of another kind.
    #[must_use]
    pub(crate) fn of_kind(mut self, kind: FailureKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same failure, after so many attempts.
    #[must_use]
    pub(crate) fn after(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The same failure, made of those of branches.
    #[must_use]
    pub(crate) fn in_branches(mut self, branches: Vec<(String, Failure)>) -> Self {
        self.branches = branches;
        self
    }

    /// The same failure, under a code.
    #[must_use]
    pub(crate) fn coded(mut self, code: &str) -> Self {
        self.code = Some(code.to_owned());
        self
    }

    /// The same failure with no more text than is worth keeping: errors may quote whole documents.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        shorten(&mut self.message, FAILURE_TEXT_BYTES_MAX);
        self.causes.truncate(FAILURE_PARTS_MAX);
        for cause in &mut self.causes {
            shorten(cause, FAILURE_TEXT_BYTES_MAX / 4);
        }
        for (at, (_, branch)) in self.branches.iter_mut().enumerate() {
            // All of them are named. Many that failed together mostly failed alike.
            let text = if at < FAILURE_PARTS_MAX {
                FAILURE_TEXT_BYTES_MAX
            } else {
                64
            };
            shorten(&mut branch.message, text);
            branch
                .causes
                .truncate(if at < FAILURE_PARTS_MAX { FAILURE_PARTS_MAX } else { 0 });
            branch.branches.truncate(FAILURE_PARTS_MAX);
        }
        self
    }

    /// How large it is, about.
    pub(crate) fn bytes(&self) -> usize {
        let causes: usize = self.causes.iter().map(String::len).sum();
        let branches: usize = self
            .branches
            .iter()
            .map(|(name, branch)| name.len() + branch.bytes())
            .sum();
        self.message.len() + self.path.len() + causes + branches + 16
    }

    /// Whether another attempt could go better.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Error | FailureKind::Panicked | FailureKind::Silent | FailureKind::Crashed
        )
    }
}

impl From<FailureDetails> for Failure {
    fn from(details: FailureDetails) -> Self {
        Self(Box::new(details))
    }
}

impl Deref for Failure {
    type Target = FailureDetails;

    fn deref(&self) -> &FailureDetails {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut FailureDetails {
        &mut self.0
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

/// Cuts a text so that it has no more than so many bytes.
fn shorten(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let mut cut = bytes.saturating_sub("…".len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
        text.push('…');
    }
}
