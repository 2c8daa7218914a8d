//! `runtime.schedules`: which schedules there are.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use crate::actor::Shared;
use crate::engine::Workflow;
use crate::engine::schedule::{Schedule as Behind, schedule_name};
use crate::handle::schedule::{ScheduleDescription, ScheduleHandle};
use crate::handle::{Error, List, Result};

/// A question about which schedules there are; await it for a page of them, the oldest first.
///
/// ```
/// # use everstep::{Ctx, Every, Result, Runtime, ok, workflow};
/// # #[workflow] async fn tidy(ctx: Ctx<Tidy>) -> Result<()> { ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(tidy).open("memory:").await?;
/// runtime.schedule("tidy", Every::new("1h")).starts(tidy, ()).await?;
/// let schedules = runtime.schedules().await?.rows;
/// assert_eq!((schedules[0].name.as_str(), schedules[0].timing.as_str()), ("tidy", "every 1h"));
/// # Ok(()) }
/// ```
#[must_use = "nothing is listed until it is awaited"]
pub struct Schedules {
    shared: Arc<Shared>,
    list: List,
}

/// A part of a listing of schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulesPage {
    /// The schedules, in order.
    pub rows: Vec<ScheduleDescription>,
    /// Where the next page begins; none if this was the last. Hand it to [`Schedules::after`] as it is.
    pub next: Option<String>,
}

impl Schedules {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let list = List::new(Arc::clone(&shared)).workflow(Behind::NAME).oldest_first();
        Self { shared, list }
    }

    /// At most so many in a page; 100 if nothing is said, 1,024 at most.
    pub fn limit(mut self, limit: usize) -> Self {
        self.list = self.list.limit(limit);
        self
    }

    /// Goes on where a page ended.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.list = self.list.after(cursor);
        self
    }
}

impl IntoFuture for Schedules {
    type Output = Result<SchedulesPage>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, list } = self;
        Box::pin(async move {
            let page = list.await?;
            let mut rows = Vec::with_capacity(page.rows.len());
            for name in page.rows.iter().filter_map(|row| schedule_name(&row.id)) {
                match ScheduleHandle::of(&shared, name)?.describe().await {
                    Ok(described) => rows.push(described),
                    // It was deleted since.
                    Err(Error::Unknown(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(SchedulesPage { rows, next: page.next })
        })
    }
}
