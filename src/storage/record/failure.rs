//! A failure as it is kept.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{
    FAILURE_BYTES_MAX, FAILURE_DEPTH_MAX, FAILURE_PARTS_MAX, FAILURE_TEXT_BYTES_MAX, LOCATION_DEPTH_MAX,
};
use crate::storage::value::Record;

/// What went wrong, where, how often, and why: enough to tell it in full after a restart.
///
/// It reads like its [`FailureDetails`]. They lie behind a pointer, because every `?` on the way of what goes well has
/// to make room for what could have gone wrong.
///
/// ```
/// # use everstep::{Ctx, Result, Runtime, ok, workflow};
/// use everstep::storage::record::FailureKind;
///
/// #[workflow]
/// async fn payment(ctx: Ctx<Payment>) -> Result<u32> {
///     let charged = ctx.step("charge", std::future::pending::<Result<u32>>).timeout("5ms").await;
///     match charged {
///         Ok(amount) => ok(amount),
///         Err(failure) if failure.kind == FailureKind::TimedOut => ok(0),
///         Err(failure) => Err(failure.into()),
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// assert_eq!(runtime.start(payment, ()).await?.result().await?, 0);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Failure(Box<FailureDetails>);

thread_local! {
    /// Failures that are being read, each inside the one before.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Counts also what could not be read.
        struct Inside;
        impl Drop for Inside {
            fn drop(&mut self) {
                DEPTH.set(DEPTH.get() - 1);
            }
        }
        DEPTH.set(DEPTH.get() + 1);
        let _inside = Inside;
        if DEPTH.get() > FAILURE_DEPTH_MAX {
            return Err(D::Error::custom("too many failures inside each other"));
        }
        FailureDetails::deserialize(deserializer).map(Self::from)
    }
}

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

/// What a text takes beside itself, at most.
const SMALL_BYTES: usize = 16;

/// Less than this of a branch tells nothing.
const FAILURE_SHARE_BYTES_MIN: usize = 128;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

    /// An error with its causes. One that is caused by a failure is as critical as that, and happened at the same place.
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        if let Some(failure) = Self::found_in(error) {
            return failure;
        }
        let mut failure = Self::new(FailureKind::Error, error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(found) = Self::found_in(error) {
                return failure.caused_by(found);
            }
            failure.causes.push(error.to_string());
            cause = error.source();
        }
        failure
    }

    /// The failure that an error is. What forwards to a failure (`#[error(transparent)]`) has its details as its source.
    fn found_in(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let whole = error.downcast_ref::<Self>().cloned();
        whole.or_else(|| error.downcast_ref::<FailureDetails>().cloned().map(Self::from))
    }

    /// This failure of a user's error, with all that is known about the failure among its causes.
    fn caused_by(self, cause: Self) -> Self {
        if self.causes.is_empty() && self.message == cause.to_string() {
            return cause;
        }
        let (own, cause) = (*self.0, *cause.0);
        let causes = own.causes.into_iter().chain([cause.message]).chain(cause.causes);
        Self::from(FailureDetails {
            message: own.message,
            causes: causes.collect(),
            ..cause
        })
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

    /// The same failure with no more text than is worth keeping: errors may quote whole documents, and thousands of
    /// branches may fail together. What is left out is counted, and of every kind of failure one is kept: what follows
    /// from the whole follows from this.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        let (mut kinds, mut left) = (BTreeSet::new(), BTreeSet::new());
        self.kinds(&mut kinds);
        self.cut(FAILURE_BYTES_MAX, LOCATION_DEPTH_MAX);
        self.kinds(&mut left);
        for kind in kinds.difference(&left) {
            self.branches.push(("more".to_owned(), Self::new(*kind, "left out")));
        }
        self
    }

    /// Leaves so many bytes of it, about, and as many failures inside each other. Tells how many bytes are left.
    fn cut(&mut self, room: usize, depth: usize) -> usize {
        let mut left = room;
        let mut keep = |text: &mut String, most: usize| {
            shorten(text, most.min(left));
            left = left.saturating_sub(text.len() + SMALL_BYTES);
        };
        keep(&mut self.path, room / 2);
        keep(&mut self.message, FAILURE_TEXT_BYTES_MAX);
        self.causes.truncate(FAILURE_PARTS_MAX);
        for cause in &mut self.causes {
            keep(cause, FAILURE_TEXT_BYTES_MAX / 4);
        }
        let branches = std::mem::take(&mut self.branches);
        let all = branches.len();
        for (at, (name, mut branch)) in branches.into_iter().enumerate() {
            // Many that failed together mostly failed alike: the first of them get the most room.
            let share = (left / (all - at).min(8)).saturating_sub(name.len());
            if depth == 0 || share < FAILURE_SHARE_BYTES_MIN {
                break;
            }
            left -= (name.len() + share - branch.cut(share, depth - 1)).min(left);
            self.branches.push((name, branch));
        }
        let more = all - self.branches.len();
        if more > 0 {
            self.causes.push(format!("and {more} more"));
        }
        left
    }

    /// The kinds of failures that it is made of.
    fn kinds(&self, into: &mut BTreeSet<FailureKind>) {
        into.insert(self.kind);
        self.own_branches().for_each(|branch| branch.kinds(into));
    }

    /// The failures of branches of the code itself. What is inside the failure of a child says why the child failed, and
    /// not what its parent is to do: a child that was cancelled, or that rolled back, is a child that failed.
    pub(crate) fn own_branches(&self) -> impl Iterator<Item = &Failure> {
        let branches = if self.kind == FailureKind::Child {
            &[]
        } else {
            self.branches.as_slice()
        };
        branches.iter().map(|(_, failure)| failure)
    }

    /// Whether it asks for what was done to be undone.
    pub(crate) fn asks_for_rollback(&self) -> bool {
        self.kind == FailureKind::Rollback || self.own_branches().any(Self::asks_for_rollback)
    }

    /// How large it is, about.
    pub(crate) fn bytes(&self) -> usize {
        let causes = self.causes.iter().map(|cause| cause.len() + SMALL_BYTES);
        let branches = self.branches.iter();
        let branches = branches.map(|(name, branch)| name.len() + SMALL_BYTES + branch.bytes());
        self.message.len() + self.path.len() + causes.chain(branches).sum::<usize>() + 2 * SMALL_BYTES
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

impl std::error::Error for Failure {
    /// Its details, for whoever looks for a failure behind an error that forwards to it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl fmt::Display for FailureDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for FailureDetails {}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "an error",
            Self::Critical => "not worth another attempt",
            Self::Rollback => "not worth another attempt, and what was done is undone",
            Self::Exhausted => "every attempt failed",
            Self::TimedOut => "it took too long",
            Self::Panicked => "a panic",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "out of time",
            Self::Branches => "branches failed",
            Self::Misuse => "a misuse of the context",
            Self::Payload => "a value that can't be stored or read",
            Self::Child => "a child failed",
            Self::Limit => "a bound was reached",
            Self::Rejected => "rejected",
            Self::Terminated => "terminated",
            Self::Silent => "no sign of life",
            Self::Crashed => "the process ended",
        })
    }
}

/// Cuts a text so that it has no more than so many bytes.
fn shorten(text: &mut String, bytes: usize) {
    if bytes < "…".len() {
        text.clear();
    } else if text.len() > bytes {
        let mut cut = bytes - "…".len();
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
        text.push('…');
    }
}

#[cfg(test)]
mod tests;
