//! `ctx.step(..).rollback(..)`: a step that says how it is undone.

use serde::de::DeserializeOwned;

use crate::duration::IntoDuration;
use crate::engine::undo::{IntoUndo, Undo};
use crate::engine::verbs::step::Step;

impl<T: DeserializeOwned + 'static> Step<T> {
    /// Says how the step is undone: if it completed and the workflow fails later, `undo` is called with what the step
    /// returned. See [`Ctx::compensate`](crate::Ctx::compensate) for when and how undoings run.
    ///
    /// An attempt that is cancelled or fails leaves nothing that could be handed to `undo`. What such an attempt may
    /// have done is undone by a compensation that was registered before the step.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ensure, ok, workflow};
    /// #[workflow(strategy = "compensate")]
    /// async fn order(ctx: Ctx<Order>, paid: bool) -> Result<()> {
    ///     ctx.step("reserve", || async { ok(7_u32) })
    ///         .rollback(|hold: u32| async move { ok(println!("released {hold}")) })
    ///         .rollback_retries(10)
    ///         .await?;
    ///     ensure!(paid, "nobody paid");
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// runtime.start(order, false).await?.reached(|status| status == Status::Compensated).await?;
    /// # Ok(()) }
    /// ```
    pub fn rollback<Arguments>(mut self, undo: impl IntoUndo<T, Arguments>) -> Self {
        let options = self.undo_options.clone();
        let undo = Undo::new(undo, self.operation.scope().shared_facts());
        self.undo = Some(Undo { options, ..undo });
        self
    }

    /// Attempts at the rollback after the first.
    pub fn rollback_retries(mut self, retries: u32) -> Self {
        self.undo_options.retry.attempts = retries.saturating_add(1);
        self.set_undo_options();
        self
    }

    /// How long an attempt at the rollback may take. One that takes longer is cancelled, and counts as failed.
    pub fn rollback_timeout(mut self, timeout: impl IntoDuration) -> Self {
        match timeout.into_duration() {
            Ok(timeout) => self.undo_options.timeout = Some(timeout),
            Err(error) => self.options = Err(error),
        }
        self.set_undo_options();
        self
    }

    fn set_undo_options(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.options = self.undo_options.clone();
        }
    }
}
