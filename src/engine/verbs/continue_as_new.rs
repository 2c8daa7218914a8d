//! `ctx.continue_as_new`: ends a run and begins the next one.

use crate::engine::context::Ctx;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::workflow::Workflow;

impl<W: Workflow> Ctx<W> {
    /// Ends this run and begins the next one from the start, with this input: for what goes on for ever, or for so
    /// long that its history would grow without bound. It is what the workflow function returns.
    ///
    /// The instance stays the same: its id, tags, parent and deadline, messages that it has not read, what it has
    /// published and answered. Its history and the attempts at its steps go; what was done is settled, and no failure
    /// of a later run undoes it. The next run begins with the code as it is now, and with its version. The number of the
    /// run is one higher, and so idempotency keys and what is drawn by chance are others. Whoever waits for the result
    /// gets that of the last run.
    ///
    /// An instance that was cancelled or has run out of time ends with that instead.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn heart(ctx: Ctx<Heart>, beats: u64) -> Result<u64> {
    ///     ctx.sleep("a moment", "1ms").await?;
    ///     if beats == 3 {
    ///         return ok(beats);
    ///     }
    ///     ctx.continue_as_new(beats + 1)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(heart).open("memory:").await?;
    /// let heart = runtime.start(heart, 1).await?;
    /// assert_eq!((heart.result().await?, heart.status().await?.run), (3, 3));
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "the caller is done with it")]
    pub fn continue_as_new<T>(&self, input: W::Input) -> Result<T> {
        let input = self.scope().pack(&input)?;
        Err(WorkflowError::next_run(input))
    }
}
