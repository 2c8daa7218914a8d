//! `ctx.step`: a unit of work with an effect.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::attempt::Attempt;
use crate::engine::context::Ctx;
use crate::engine::error::{Misuse, WorkflowError};
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{Request, StepOptions, StepRequest, Work};
use crate::engine::retry::{Backoff, Retry};
use crate::engine::scope::Scope;
use crate::storage::payload::Codecs;
use crate::storage::record::{EntryKind, Failure, FailureKind, StepOutcome};

/// The work of a step: a closure that takes nothing, or the [`Attempt`] that it is called for.
pub trait IntoWork<T, Arguments>: Send + 'static {
    /// Begins an attempt.
    fn begin(&mut self, attempt: Attempt) -> impl Future<Output = Result<T, WorkflowError>> + Send + 'static;
}

impl<T, E, F, Fut> IntoWork<T, (T, E)> for F
where
    F: FnMut() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    E: Into<WorkflowError>,
{
    fn begin(&mut self, _: Attempt) -> impl Future<Output = Result<T, WorkflowError>> + Send + 'static {
        let attempting = self();
        async move { attempting.await.map_err(Into::into) }
    }
}

impl<T, E, F, Fut> IntoWork<T, (Attempt, T, E)> for F
where
    F: FnMut(Attempt) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    E: Into<WorkflowError>,
{
    fn begin(&mut self, attempt: Attempt) -> impl Future<Output = Result<T, WorkflowError>> + Send + 'static {
        let attempting = self(attempt);
        async move { attempting.await.map_err(Into::into) }
    }
}

/// A step on its way; await it.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<T> {
    name: String,
    operation: Operation,
    work: Option<Work>,
    options: Result<StepOptions, InvalidDuration>,
    result: PhantomData<fn() -> T>,
}

impl<W> Ctx<W> {
    /// Does a unit of work, once: its result is stored, and replay returns the stored result without calling `work`.
    ///
    /// `work` is a closure that is called for every attempt. It may take the [`Attempt`] as its argument, which has
    /// the idempotency key. A failing step is tried three times in all unless the options say otherwise.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Workflow, ok};
    /// # async fn example<W: Workflow>(ctx: Ctx<W>) -> Result<u32> {
    /// let sum = ctx.step("add", || async { ok(1 + 2) }).retries(5).timeout("30s").await?;
    /// # ok(sum) }
    /// ```
    pub fn step<T, Arguments>(&self, name: &str, work: impl IntoWork<T, Arguments>) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Step::new(self.scope(), name, erase(work, self.scope().codecs().clone()))
    }
}

fn erase<T: Serialize + Send + 'static, A>(mut work: impl IntoWork<T, A>, codecs: Codecs) -> Work {
    Box::new(move |attempt| {
        let attempting = work.begin(attempt);
        let codecs = codecs.clone();
        Box::pin(async move {
            let value = attempting.await.map_err(WorkflowError::into_failure)?;
            Ok(codecs.pack(&value)?)
        })
    })
}

impl<T> Step<T> {
    pub(super) fn new(scope: &Scope, name: &str, work: Work) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::new(scope.clone(), Place::Named(name.to_owned())),
            work: Some(work),
            options: Ok(StepOptions::default()),
            result: PhantomData,
        }
    }

    /// Records the step under this name instead: the same activity, run twice in one scope, needs two names.
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self.operation = Operation::new(self.operation.scope().clone(), Place::Named(name.to_owned()));
        self
    }

    fn option(mut self, set: impl FnOnce(&mut StepOptions)) -> Self {
        if let Ok(options) = &mut self.options {
            set(options);
        }
        self
    }

    fn duration(
        mut self,
        duration: impl IntoDuration,
        set: impl FnOnce(&mut StepOptions, std::time::Duration),
    ) -> Self {
        match duration.into_duration() {
            Ok(duration) => self.option(|options| set(options, duration)),
            Err(error) => {
                self.options = Err(error);
                self
            }
        }
    }

    /// Attempts in all, the first included.
    pub fn attempts(self, attempts: u32) -> Self {
        self.option(|options| options.retry.attempts = attempts.max(1))
    }

    /// Attempts after the first.
    pub fn retries(self, retries: u32) -> Self {
        self.attempts(retries.saturating_add(1))
    }

    /// The wait before the second attempt.
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        self.duration(delay, |options, delay| options.retry.delay = delay)
    }

    /// How waits grow.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.option(|options| options.retry.backoff = backoff)
    }

    /// Everything about retries at once.
    pub fn retry(self, retry: Retry) -> Self {
        self.option(|options| options.retry = retry)
    }

    /// How long an attempt may take. An attempt that takes longer is cancelled, and the step fails for good.
    pub fn timeout(self, timeout: impl IntoDuration) -> Self {
        self.duration(timeout, |options, timeout| options.timeout = Some(timeout))
    }

    /// Makes a timeout a failure like any other: it is tried again.
    pub fn retry_on_timeout(self) -> Self {
        self.option(|options| options.retry_on_timeout = true)
    }
}

impl<T: DeserializeOwned> Future for Step<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (work, options) = (&mut this.work, &this.options);
        let request = || {
            let options = options.clone().map_err(Misuse::from)?;
            let work = work.take().ok_or(Misuse::OutsideWorkflow)?;
            Ok(Request::Step(StepRequest { work, options }))
        };
        let kind = ready!(this.operation.poll_with(cx, request))?;
        let EntryKind::Step(Some(outcome)) = kind else {
            unreachable!("a step is delivered complete");
        };
        Poll::Ready(match outcome {
            StepOutcome::Completed(payload) => this
                .operation
                .codecs()
                .unpack(&payload)
                .map_err(|error| Failure::from(error).at(this.operation.path())),
            StepOutcome::Failed(failure) => Err(failure),
        })
    }
}

impl<T> Drop for Step<T> {
    fn drop(&mut self) {
        // Work that was never asked for was never awaited.
        if self.work.is_some() {
            self.operation
                .scope()
                .journal()
                .lock()
                .unawaited
                .push(self.name.clone());
        }
    }
}

impl<T> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a step ended that was asked not to raise its failure.
pub type TryStep<T> = Result<T, Failure>;

impl<W> Ctx<W> {
    /// Does a unit of work and returns its failure as a value instead of an error. Misuse, cancellation and a failure
    /// that asks for a rollback are raised all the same.
    pub async fn try_step<T, Arguments>(
        &self,
        name: &str,
        work: impl IntoWork<T, Arguments>,
    ) -> Result<TryStep<T>, Failure>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        match self.step(name, work).await {
            Ok(value) => Ok(Ok(value)),
            Err(failure) => match failure.kind {
                FailureKind::Critical | FailureKind::Exhausted | FailureKind::TimedOut => Ok(Err(failure)),
                _ => Err(failure),
            },
        }
    }
}
