//! `ctx.shield` and `ctx.is_cancelled`: code that a cancellation does not reach.

use crate::engine::context::Ctx;

impl<W> Ctx<W> {
    /// A context whose operations go on although the instance was cancelled or ran out of time: for cleaning up.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// #[workflow]
    /// async fn holds(ctx: Ctx<Holds>) -> Result<()> {
    ///     if let Err(error) = ctx.sleep("wait", "30d").await {
    ///         ctx.shield().step("release", || async { ok(()) }).await?;
    ///         return Err(error.into());
    ///     }
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(holds).open("memory:").await?;
    /// # let holds = runtime.start(holds, ()).await?;
    /// # holds.reached(|status| status == Status::Sleeping).await?;
    /// holds.cancel("the shop closes").await?;
    /// holds.reached(|status| status == Status::Cancelled).await?;
    /// assert!(holds.history().await?.at("release").is_some(), "it has cleaned up");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn shield(&self) -> Self {
        Self::new(self.scope().shielded())
    }

    /// Whether the instance was asked to end, or has run out of time, as far as the code has got. Code that has heard of
    /// it comes to that end, whatever it returns.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn patient(ctx: Ctx<Patient>) -> Result<()> {
    ///     let slept = ctx.sleep("wait", "30d").await;
    ///     if ctx.is_cancelled() {
    ///         ctx.shield().step("say why", || async { ok(println!("given up")) }).await?;
    ///     }
    ///     ok(slept?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(patient).open("memory:").await?;
    /// let patient = runtime.start(patient, ()).await?;
    /// patient.cancel("enough").await?;
    /// assert!(patient.result().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        let mut journal = self.scope().journal().lock();
        journal.told_of_end |= journal.ended.is_some();
        journal.ended.is_some()
    }
}
