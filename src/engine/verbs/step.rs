//! `ctx.step`: a unit of work with an effect.

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
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
use crate::engine::scope::{Facts, Scope};
use crate::engine::undo::{Undo, undo_options};
use crate::engine::witness::Unreadable;
use crate::limits::UNAWAITED_TOLD_MAX;
use crate::storage::payload::Payload;
use crate::storage::record::{Decided, EntryKind, Failure};

/// The work of a step: a closure that takes nothing, or the [`Attempt`] that it is called for.
// What the closure returns may be large. It gets its place on the heap here: each function that it is handed through by
// value would have a copy on its stack.
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
        let attempting = Box::pin(self());
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
        let attempting = Box::pin(self(attempt));
        async move { attempting.await.map_err(Into::into) }
    }
}

/// The work of a blocking step: a closure that takes nothing, or the [`Attempt`] that it is called for.
pub trait IntoBlockingWork<T, Arguments>: Send + Sync + 'static {
    /// Makes an attempt.
    fn call(&self, attempt: Attempt) -> Result<T, WorkflowError>;
}

impl<T, E, F> IntoBlockingWork<T, (T, E)> for F
where
    F: Fn() -> Result<T, E> + Send + Sync + 'static,
    E: Into<WorkflowError>,
{
    fn call(&self, _: Attempt) -> Result<T, WorkflowError> {
        self().map_err(Into::into)
    }
}

impl<T, E, F> IntoBlockingWork<T, (Attempt, T, E)> for F
where
    F: Fn(Attempt) -> Result<T, E> + Send + Sync + 'static,
    E: Into<WorkflowError>,
{
    fn call(&self, attempt: Attempt) -> Result<T, WorkflowError> {
        self(attempt).map_err(Into::into)
    }
}

/// A step on its way; await it.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<T> {
    name: String,
    pub(super) operation: Operation,
    work: Option<Work>,
    /// Whether anybody has awaited it.
    polled: bool,
    pub(super) options: Result<StepOptions, InvalidDuration>,
    pub(super) undo: Option<Undo>,
    pub(super) undo_options: StepOptions,
    result: PhantomData<fn() -> T>,
}

impl<W> Ctx<W> {
    /// Does a unit of work, once: its result is stored, and replay returns the stored result without calling `work`.
    ///
    /// `work` is a closure that is called for every attempt. It may take the [`Attempt`] as its argument, which has
    /// the idempotency key. A failing step is tried three times in all unless the options say otherwise.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn adds(ctx: Ctx<Adds>, number: u32) -> Result<u32> {
    ///     ok(ctx.step("add", move || async move { ok(number + 2) }).retries(5).timeout("30s").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(adds).open("memory:").await?;
    /// assert_eq!(runtime.start(adds, 1).await?.result().await?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn step<T, Arguments>(&self, name: &str, work: impl IntoWork<T, Arguments>) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Step::new(self.scope(), name, erase(work, self.scope().shared_facts()))
    }

    /// Does a unit of work that blocks its thread: reads a file, asks a database that knows no async, computes for long.
    /// It runs on a thread where that harms nobody. Everything else is as in [`Ctx::step`].
    ///
    /// A thread can't be stopped from outside. Work that takes long asks [`Attempt::is_cancelled`] now and then.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn sums(ctx: Ctx<Sums>, up_to: u64) -> Result<u64> {
    ///     ok(ctx.step_blocking("sum", move || ok((1..=up_to).sum())).timeout("30s").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(sums).open("memory:").await?;
    /// assert_eq!(runtime.start(sums, 1_000).await?.result().await?, 500_500);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn step_blocking<T, Arguments>(&self, name: &str, work: impl IntoBlockingWork<T, Arguments>) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let step = Step::new(self.scope(), name, erase_blocking(work, self.scope().shared_facts()));
        step.option(|options| options.blocking = true)
    }
}

fn erase<T: Serialize + Send + 'static, A>(mut work: impl IntoWork<T, A>, facts: Arc<Facts>) -> Work {
    Work::new(move |attempt| {
        let attempting = work.begin(attempt);
        let facts = Arc::clone(&facts);
        Box::pin(async move {
            let value = attempting.await.map_err(WorkflowError::into_failure)?;
            facts.pack(&value)
        })
    })
}

fn erase_blocking<T: Serialize + Send + 'static, A>(work: impl IntoBlockingWork<T, A>, facts: Arc<Facts>) -> Work {
    let shared = Arc::new((work, facts));
    Work::new(move |attempt| {
        let shared = Arc::clone(&shared);
        // Called when it is polled: an attempt that took too long may still be running beside this one.
        Box::pin(async move {
            let (work, facts) = &*shared;
            let value = work.call(attempt).map_err(WorkflowError::into_failure)?;
            facts.pack(&value)
        })
    })
}

impl<T> Step<T> {
    #[track_caller]
    pub(super) fn new(scope: &Scope, name: &str, work: Work) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::new(scope.clone(), Place::Named(name.to_owned())),
            work: Some(work),
            polled: false,
            options: Ok(StepOptions::default()),
            undo: None,
            undo_options: undo_options(),
            result: PhantomData,
        }
    }

    /// Records the step under this name instead: the same activity, run twice in one scope, needs two names.
    #[track_caller]
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

    /// Attempts in all, the first included; it is made in any case, so none is taken for one.
    pub fn attempts(self, attempts: u32) -> Self {
        self.option(|options| options.retry.attempts = attempts.max(1))
    }

    /// Attempts after the first.
    pub fn retries(self, retries: u32) -> Self {
        self.attempts(retries.saturating_add(1))
    }

    /// The wait before the second attempt. Those after it grow up to a minute or to this, whichever is longer.
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        self.duration(delay, |options, delay| options.retry.delay = delay)
    }

    /// The longest wait between two attempts, also where a [function](Backoff::Function) says how long it is.
    pub fn delay_max(self, delay_max: impl IntoDuration) -> Self {
        self.duration(delay_max, |options, delay_max| {
            options.retry.delay_max = Some(delay_max);
        })
    }

    /// Tries again only after failures of which `worth` says so. It is not asked about an attempt that ended with its
    /// process, or that fell silent: those are tried again.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, WorkflowError, ok, workflow};
    /// #[workflow]
    /// async fn looks_up(ctx: Ctx<LooksUp>) -> Result<u32> {
    ///     let look_up = || async { Err::<u32, _>(WorkflowError::msg("no such user")) };
    ///     let found = ctx.step("look up", look_up).retry_if(|failure| failure.message.contains("unavailable")).await;
    ///     // Another attempt would not have found one either.
    ///     ok(found.unwrap_err().attempts)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(looks_up).open("memory:").await?;
    /// assert_eq!(runtime.start(looks_up, ()).await?.result().await?, 1);
    /// # Ok(()) }
    /// ```
    pub fn retry_if(self, worth: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        self.option(|options| options.retry.worth = Some(Arc::new(worth)))
    }

    /// How waits grow.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.option(|options| options.retry.backoff = backoff)
    }

    /// Everything about retries at once.
    pub fn retry(mut self, mut retry: Retry) -> Self {
        if let Some(invalid) = retry.invalid.take() {
            self.options = Err(*invalid);
        }
        self.option(|options| options.retry = retry)
    }

    /// How long an attempt may take. An attempt that takes longer is cancelled, and the step fails for good.
    pub fn timeout(self, timeout: impl IntoDuration) -> Self {
        self.duration(timeout, |options, timeout| options.timeout = Some(timeout))
    }

    /// The longest silence between two heartbeats of an attempt. One that is silent for longer is cancelled and has
    /// failed; the next one finds what it said last ([`Attempt::progress`]).
    pub fn heartbeat(self, silence: impl IntoDuration) -> Self {
        self.duration(silence, |options, silence| options.heartbeat = Some(silence))
    }

    /// Goes through this queue instead of the one of the workflow: what a queue may do at once, and in a time, the
    /// [configuration](crate::Config::queue_attempts_max) says. The time of an attempt begins when its turn has come.
    ///
    /// ```
    /// # use everstep::{Config, Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn draws(ctx: Ctx<Draws>) -> Result<u32> {
    ///     ok(ctx.step("draw", || async { ok(7) }).queue("gpu").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Two at once, and at most ten a minute.
    /// let config = Config::default().queue_attempts_max("gpu", 2).queue_rate("gpu", 10, "1m");
    /// let runtime = Runtime::builder().workflow(draws).config(config).open("memory:").await?;
    /// assert_eq!(runtime.start(draws, ()).await?.result().await?, 7);
    /// # Ok(()) }
    /// ```
    pub fn queue(self, queue: &str) -> Self {
        self.option(|options| options.queue = Some(Arc::from(queue)))
    }

    /// Stores the result along with whatever is stored next instead of with a commit of its own. For work that costs
    /// little and may be done again after a crash: reading, computing.
    ///
    /// Nothing else depends on a result that is not stored: a step that is not ephemeral waits for it.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn converts(ctx: Ctx<Converts>, euros: u32) -> Result<u32> {
    ///     let rate = ctx.step("read the rate", || async { ok(3) }).ephemeral().await?;
    ///     ok(euros * rate)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(converts).open("memory:").await?;
    /// assert_eq!(runtime.start(converts, 7).await?.result().await?, 21);
    /// # Ok(()) }
    /// ```
    pub fn ephemeral(self) -> Self {
        self.option(|options| options.ephemeral = true)
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
        this.polled = true;
        let (work, options, undo) = (&mut this.work, &this.options, &mut this.undo);
        let request = || {
            let options = options.clone().map_err(Misuse::from)?;
            let work = work.take().ok_or(Misuse::OutsideWorkflow)?;
            let undo = undo.take();
            Ok(Request::Step(StepRequest { work, options, undo }))
        };
        let kind = ready!(this.operation.poll_with(cx, request))?;
        let EntryKind::Step(Some(outcome)) = kind else {
            unreachable!("a step is delivered complete");
        };
        Poll::Ready(match outcome {
            Decided::Completed(payload) => this.operation.read(&payload).inspect_err(|_| {
                tell_of_unreadable::<T>(&this.operation, &payload);
            }),
            Decided::Failed(failure) => Err(failure),
        })
    }
}

/// A stand-in of the test kit may have come to something of another type: a mistake in the test.
fn tell_of_unreadable<T>(operation: &Operation, payload: &Payload) {
    let path = &operation.path();
    let journal = operation.scope().journal().lock();
    if let Some((witness, instance, _)) = &journal.witness {
        witness.unreadable(&Unreadable {
            instance,
            path,
            payload,
            wanted: type_name::<T>(),
        });
    }
}

impl<T> Drop for Step<T> {
    fn drop(&mut self) {
        // Nobody can tell a step that was forgotten from one that stood beside a branch of `select!` which was ready at
        // once. Neither was ever polled, neither ran, and that is what is told.
        if !self.polled {
            let mut journal = self.operation.scope().journal().lock();
            if journal.unawaited.len() < UNAWAITED_TOLD_MAX {
                journal.unawaited.insert(std::mem::take(&mut self.name));
            }
        }
    }
}

impl<T> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}
