//! `ctx.try_step` and `ctx.try_scope`: failures as values.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::context::Ctx;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::verbs::step::{IntoWork, Step};
use crate::engine::witness::CallSite;
use crate::storage::record::{Failure, FailureKind};

/// A step whose failure is a value; await it.
///
/// [`Step::tried`] makes one of a step with options, or of a run of an activity.
#[must_use = "a step does nothing until it is awaited"]
#[derive(Debug)]
pub struct TryStep<T> {
    step: Step<T>,
    catch: Catch,
}

/// A part of a workflow whose failure is a value; await it.
#[must_use = "a scope does nothing until it is awaited"]
pub struct TryScope<'a, W, T, F> {
    ctx: Ctx<W>,
    name: String,
    body: F,
    catch: Catch,
    call_site: CallSite,
    output: PhantomData<fn() -> &'a T>,
}

/// What is a value. What ends the instance, and mistakes in its code, never are.
#[derive(Debug, Clone, Copy, Default)]
struct Catch {
    rollback: bool,
}

impl Catch {
    fn catches(self, failure: &Failure) -> bool {
        let of_itself = match failure.kind {
            FailureKind::Rollback => self.rollback,
            FailureKind::Cancelled | FailureKind::DeadlineExceeded | FailureKind::Misuse | FailureKind::Terminated => {
                false
            }
            _ => true,
        };
        of_itself && failure.own_branches().all(|failure| self.catches(failure))
    }
}

impl<W> Ctx<W> {
    /// Does a unit of work and returns its failure as a value instead of an error: that the error was critical, that
    /// all attempts failed, or that one took too long.
    ///
    /// A cancellation, the deadline of the instance and a misuse are raised all the same, and so is a failure that
    /// asks for a [rollback](crate::rollback), unless [`TryStep::catch_rollback`] says otherwise.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, WorkflowError, critical, ok, workflow};
    /// #[workflow]
    /// async fn payment(ctx: Ctx<Payment>) -> Result<String> {
    ///     let charge = || async { Err::<u32, _>(critical(WorkflowError::msg("declined"))) };
    ///     ok(match ctx.try_step("charge", charge).await? {
    ///         Ok(paid) => format!("paid {paid}"),
    ///         Err(failure) => format!("not paid, {:?}: {}", failure.kind, failure.message),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// assert_eq!(runtime.start(payment, ()).await?.result().await?, "not paid, Critical: declined");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn try_step<T, Arguments>(&self, name: &str, work: impl IntoWork<T, Arguments>) -> TryStep<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        self.step(name, work).tried()
    }
}

impl<T> Step<T> {
    /// The step with its failure as a value, see [`Ctx::try_step`].
    pub fn tried(self) -> TryStep<T> {
        let catch = Catch::default();
        TryStep { step: self, catch }
    }
}

impl<T> TryStep<T> {
    /// Makes a failure that asks for a rollback a value too: nothing is undone because of it.
    pub fn catch_rollback(self) -> Self {
        let catch = Catch { rollback: true };
        Self { catch, ..self }
    }
}

impl<T: DeserializeOwned> Future for TryStep<T> {
    type Output = Result<Result<T, Failure>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.step).poll(cx)) {
            Err(failure) if !self.catch.catches(&failure) => Err(failure),
            ended => Ok(ended),
        })
    }
}

impl<W: 'static> Ctx<W> {
    /// Does a part of the workflow, in a scope of its own, and returns its failure as a value instead of an error.
    ///
    /// What is raised all the same is what [`Ctx::try_step`] raises, also if it comes out of a branch of a join or a
    /// race inside. What was done before the failure stays done; it is undone if the workflow itself fails.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, WorkflowError, ok, workflow};
    /// #[workflow]
    /// async fn trip(ctx: Ctx<Trip>) -> Result<String> {
    ///     let booked = ctx
    ///         .try_scope("book", |ctx: Ctx<Trip>| async move {
    ///             let room = ctx.step("room", || async { ok(7_u32) }).await?;
    ///             let full = || async { Err::<(), _>(WorkflowError::msg("no seats")) };
    ///             ctx.step("flight", full).retries(0).await?;
    ///             ok(room)
    ///         })
    ///         .await?;
    ///     ok(match booked {
    ///         Ok(room) => format!("room {room}"),
    ///         Err(failure) => format!("no trip: {}", failure.message),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(trip).open("memory:").await?;
    /// assert_eq!(runtime.start(trip, ()).await?.result().await?, "no trip: no seats");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn try_scope<'a, T, F, Fut>(&self, name: &str, body: F) -> TryScope<'a, W, T, F>
    where
        F: FnOnce(Ctx<W>) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        TryScope {
            ctx: self.clone(),
            name: name.to_owned(),
            body,
            catch: Catch::default(),
            call_site: std::panic::Location::caller(),
            output: PhantomData,
        }
    }
}

impl<W, T, F> TryScope<'_, W, T, F> {
    /// Makes a failure that asks for a rollback a value too: nothing is undone because of it.
    pub fn catch_rollback(self) -> Self {
        let catch = Catch { rollback: true };
        Self { catch, ..self }
    }
}

impl<'a, W, T, F, Fut> IntoFuture for TryScope<'a, W, T, F>
where
    W: 'static,
    T: 'a,
    F: FnOnce(Ctx<W>) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T>> + Send + 'a,
{
    type Output = Result<Result<T, Failure>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            ctx,
            name,
            body,
            catch,
            call_site,
            ..
        } = self;
        Box::pin(async move {
            let scope = ctx.scope();
            let inside = {
                let mut journal = scope.journal().lock();
                let location = journal.locate(scope.location(), &name).map_err(Failure::from)?;
                journal.know(&location, "try", call_site).map_err(Failure::from)?;
                scope.inside(location)
            };
            match body(Ctx::new(inside)).await {
                Ok(value) => Ok(Ok(value)),
                Err(error) if error.is_next_run() || !catch.catches(error.failure()) => Err(error),
                Err(error) => Ok(Err(WorkflowError::into_failure(error))),
            }
        })
    }
}

impl<W, T, F> std::fmt::Debug for TryScope<'_, W, T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryScope")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
