//! `ctx.sleep` and `ctx.sleep_until`: waits for a point in time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{Request, Until};
use crate::storage::record::Failure;

/// A sleep on its way; await it.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    operation: Operation,
    until: Result<Until, InvalidDuration>,
}

impl<W> Ctx<W> {
    /// Sleeps, without costing anything while it does, across restarts. The end is fixed when the sleep is first
    /// reached: a restart neither shortens nor prolongs it.
    ///
    /// ```
    /// use everstep::storage::record::Status;
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn order(ctx: Ctx<Order>) -> Result<()> {
    ///     ok(ctx.sleep("cooling off", "24 hours").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// let order = runtime.start(order, ()).await?;
    /// order.reached(|status| status == Status::Sleeping).await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn sleep(&self, name: &str, duration: impl IntoDuration) -> Sleep {
        self.sleeping(name, duration.into_duration().map(Until::After))
    }

    /// Sleeps until a time. One that has passed returns at once, and is recorded.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn reminder(ctx: Ctx<Reminder>) -> Result<()> {
    ///     // A time comes from the input, from a step, or from the time of the context.
    ///     let soon = ctx.now() + Duration::from_millis(5);
    ///     ctx.sleep_until("soon", soon).await?;
    ///     everstep::ensure!(ctx.now() >= soon, "it is too early");
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(reminder).open("memory:").await?;
    /// runtime.start(reminder, ()).await?.result().await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn sleep_until(&self, name: &str, time: SystemTime) -> Sleep {
        self.sleeping(name, Until::time(time, self.scope().now_ms()))
    }

    #[track_caller]
    fn sleeping(&self, name: &str, until: Result<Until, InvalidDuration>) -> Sleep {
        Sleep {
            operation: Operation::new(self.scope().clone(), Place::Named(name.to_owned())),
            until,
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let request = || Ok(Request::Sleep(this.until.clone().map_err(Misuse::from)?));
        ready!(this.operation.poll_with(cx, request))?;
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
