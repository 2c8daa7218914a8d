//! The calls of a runtime about what begins later: schedules, and starts that replace each other.

use std::sync::Arc;

use super::Runtime;
use crate::duration::IntoDuration;
use crate::handle::{Debounce, Result, Schedule, ScheduleHandle, Schedules};
use crate::timing::Timing;

impl Runtime {
    /// Starts instances again and again; await what this gives, after saying what is started. Said again under the same
    /// name, with something else, it changes the schedule; with the same, it does nothing.
    ///
    /// ```
    /// # use everstep::{CatchUp, Cron, Ctx, Overlap, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn report(ctx: Ctx<Report>, shop: String) -> Result<String> {
    ///     ok(format!("all is well in {shop}"))
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(report).open("memory:").await?;
    /// let nightly = runtime
    ///     .schedule("nightly", Cron::new("0 3 * * *").zone("Europe/Berlin"))
    ///     .starts(report, "Paris".to_owned())
    ///     .overlap(Overlap::Skip)
    ///     .catch_up(CatchUp::One)
    ///     .jitter("5m")
    ///     .await?;
    /// assert!(!nightly.existed());
    /// let now = nightly.trigger().await?;
    /// let told: String = now.instance().ok_or("nothing is in its way")?.result_as().await?;
    /// assert_eq!(told, "all is well in Paris");
    /// # Ok(()) }
    /// ```
    pub fn schedule(&self, name: impl Into<String>, timing: impl Into<Timing>) -> Schedule {
        Schedule::new(Arc::clone(&self.shared), name.into(), timing.into())
    }

    /// The handle of a schedule that was made before.
    pub fn schedule_handle(&self, name: &str) -> Result<ScheduleHandle> {
        ScheduleHandle::of(&self.shared, name)
    }

    /// Lists schedules; await what this gives.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(Arc::clone(&self.shared))
    }

    /// Starts an instance when no other start with the same key has come for so long; await what this gives, after
    /// saying what is started. A later start takes the place of the one that waits: its input, its time, all of it.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn reindex(ctx: Ctx<Reindex>, text: String) -> Result<usize> {
    ///     ok(text.len())
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(reindex).open("memory:").await?;
    /// let first = runtime.debounce("document-7", "50ms").starts(reindex, "a".to_owned()).await?;
    /// let last = runtime.debounce("document-7", "50ms").starts(reindex, "all of it".to_owned()).await?;
    /// # if last.replaced() {
    /// assert!(last.replaced() && last.id() == first.id());
    /// # }
    /// assert_eq!(last.begun().await?.result().await?, 9);
    /// # Ok(()) }
    /// ```
    pub fn debounce(&self, key: impl Into<String>, wait: impl IntoDuration) -> Debounce {
        Debounce::new(Arc::clone(&self.shared), key.into(), wait)
    }
}
