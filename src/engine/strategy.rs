//! What follows when a workflow fails, and how long it may take.

use std::time::Duration;

use crate::clock::{Millis, whole_ms};
use crate::config::Bounds;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::retry::Next;
use crate::engine::retry::{Backoff, Retry};
use crate::storage::record::{Failure, FailureKind, Reach, Status};

/// What becomes of an instance whose function failed, when it is not tried again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// What it did is undone, and it ends; a parent that awaits it is told, and may catch the failure.
    #[default]
    Compensate,
    /// The same, and a parent that has not let it go fails with it, whether it awaits it at that moment or not: what it
    /// waits for ends with the failure, its other children are closed, and what it did is undone. It can clean up, but
    /// not catch it.
    Cascade,
    /// The same, and the parent goes on: the failure is recorded with the child and goes no further. A parent that
    /// awaits it is given `()`, or `None` where the child returns an option; a child that has to return something else
    /// leaves nothing to go on with, and its failure comes as an error all the same.
    Ignore,
    /// It is kept as it is, for inspection: nothing is undone, and an operator lets it go on. A failure that asks for a
    /// [rollback](crate::rollback) is undone all the same.
    Quarantine,
}

/// How a workflow is run as a whole: retries, failure strategy, deadline.
///
/// ```
/// use everstep::{Policy, Strategy};
///
/// let policy = Policy::new().retries(3).delay("1s").strategy(Strategy::Quarantine).deadline("30d");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub(crate) retry: Option<Retry>,
    /// None if nobody said.
    strategy: Option<Strategy>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) queue: Option<&'static str>,
    /// Changes what holds for all.
    pub(crate) bounds: Option<fn(&mut Bounds)>,
    /// What was said and is no time: the runtime does not open with it.
    pub(crate) invalid: Option<InvalidDuration>,
}

impl Policy {
    /// No retries, what was done is undone, no deadline.
    ///
    /// A function that panics has a mistake in it, and neither to undo what it did nor to do it again may be what is wanted.
    /// So its history is kept, and it is called again behind it three times, later and later. Then it is put into
    /// [quarantine](Strategy::Quarantine), where it stays until somebody has looked at it. Whoever sets retries or a
    /// strategy gets those, for a panic as for any failure.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs after the first. Each begins from the start, after what the one before it did was undone.
    ///
    /// A new run waits for new messages. Those that the failed one had taken are not given back: it may have acted upon
    /// them. Those that it had not read are there.
    ///
    /// A failure that is marked as critical or as one to roll back, a cancellation, a deadline and a misuse are final
    /// all the same. What a child failed with is no such mark.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        self.retry(|retry| retry.attempts = retries.saturating_add(1))
    }

    /// The wait before the second run; it doubles from run to run, up to a minute or to this, whichever is longer.
    #[must_use]
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        self.time(delay, |policy, delay| policy.retry(|retry| retry.delay = delay))
    }

    /// How the waits between runs grow.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.retry(|retry| retry.backoff = backoff)
    }

    /// What follows a failure that is not tried again. Without it that is [`Strategy::Compensate`], but for a function that
    /// panics: see [`Policy::new`].
    #[must_use]
    pub fn strategy(self, strategy: Strategy) -> Self {
        let strategy = Some(strategy);
        Self { strategy, ..self }
    }

    /// How long an instance may take, from its start, over all its runs; a child counts from when its parent starts it.
    /// When the time is over no step and no retry begins, what waits ends with [`FailureKind::DeadlineExceeded`], and what
    /// was done is undone. Code that has heard of it fails with that, whatever it returns.
    ///
    /// [`FailureKind::DeadlineExceeded`]: crate::storage::record::FailureKind::DeadlineExceeded
    #[must_use]
    pub fn deadline(self, deadline: impl IntoDuration) -> Self {
        self.time(deadline, |policy, deadline| Self {
            deadline: Some(deadline),
            ..policy
        })
    }

    /// How much an instance may hold, where that differs from what the runtime is configured with.
    ///
    /// ```
    /// use everstep::Policy;
    ///
    /// let policy = Policy::new().bounds(|bounds| bounds.history_entries_max = 1_000);
    /// ```
    #[must_use]
    pub fn bounds(self, change: fn(&mut Bounds)) -> Self {
        let bounds = Some(change);
        Self { bounds, ..self }
    }

    /// The queue that its steps go through, unless they name one themselves. What a queue may do at once, and in a time,
    /// the [configuration](crate::Config::queue_attempts_max) says; without that it means nothing.
    #[must_use]
    pub fn queue(self, queue: &'static str) -> Self {
        let queue = Some(queue);
        Self { queue, ..self }
    }

    /// When an instance runs out of time that begins then.
    pub(crate) fn deadline_at_ms(&self, begin_at_ms: Millis) -> Option<Millis> {
        Some(begin_at_ms.saturating_add(whole_ms(self.deadline?)))
    }

    fn time(mut self, time: impl IntoDuration, set: impl FnOnce(Self, Duration) -> Self) -> Self {
        match time.into_duration() {
            Ok(time) => set(self, time),
            Err(error) => {
                self.invalid = Some(error);
                self
            }
        }
    }

    fn retry(mut self, set: impl FnOnce(&mut Retry)) -> Self {
        let mut retry = self.retry.take().unwrap_or_default();
        set(&mut retry);
        self.retry = Some(retry);
        self
    }

    /// What follows this failure, when it is not tried again.
    pub(crate) fn after(&self, failure: &Failure) -> Strategy {
        if self.is_left_alone(failure) {
            return Strategy::Quarantine;
        }
        self.strategy_of_all()
    }

    /// Whether a failure is a panic of the function, and nobody said what follows one.
    pub(crate) fn is_left_alone(&self, failure: &Failure) -> bool {
        // That of a step has the path of the step.
        let of_the_function = failure.kind == FailureKind::Panicked && failure.path.is_empty();
        of_the_function && self.retry.is_none() && self.strategy.is_none()
    }

    /// Whether a run may be followed by another one with the same input.
    pub(crate) fn may_run_again(&self) -> bool {
        self.retry.is_some()
    }

    /// What follows a failure, if nothing is said of it in particular.
    pub(crate) fn strategy_of_all(&self) -> Strategy {
        self.strategy.unwrap_or_default()
    }

    /// How far it reaches that an instance ended like this. That it was asked to end is no failure of its own.
    pub(crate) fn reach(&self, status: Status) -> Reach {
        match (status, self.strategy_of_all()) {
            (Status::Failed | Status::Compensated, Strategy::Cascade) => Reach::Parent,
            (Status::Failed | Status::Compensated, Strategy::Ignore) => Reach::Nobody,
            _ => Reach::Waiting,
        }
    }

    /// The wait before the next run, or none if there is not going to be one.
    pub(crate) fn next_run(&self, runs_failed: u32, failure: &Failure, seed: u64) -> Option<Duration> {
        if is_final(failure) {
            return None;
        }
        // Whether it is worth it was decided above; a step that gave up is reason enough to begin again.
        let worth_it = failure.clone().of_kind(FailureKind::Error);
        match self.retry.as_ref()?.next(runs_failed, &worth_it, seed) {
            Next::After(wait) => Some(wait),
            Next::Exhausted | Next::NotWorthIt => None,
        }
    }
}

/// Whether beginning from the start could not go better, or was not asked for.
fn is_final(failure: &Failure) -> bool {
    let of_itself = matches!(
        failure.kind,
        FailureKind::Critical
            | FailureKind::Rollback
            | FailureKind::Cancelled
            | FailureKind::DeadlineExceeded
            | FailureKind::Misuse
            | FailureKind::Limit
            | FailureKind::Terminated
    );
    of_itself || failure.own_branches().any(is_final)
}
