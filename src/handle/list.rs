//! `runtime.list`: the instances of a store, by what they are and how they are.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::actor::Shared;
use crate::clock::{Millis, wall_ms};
use crate::handle::{Error, Result, look};
use crate::ids::InstanceId;
use crate::limits::PAGE_ROWS_MAX;
use crate::spawn;
use crate::storage::index::{IndexRange, Indexed};
use crate::storage::record::Status;
use crate::storage::{self, Store};

/// A question about which instances there are; await it for a page of them.
///
/// Pages are stable while things change: whoever goes on with [`ListPage::next`] meets every instance that is there all
/// the time exactly once, with a status that it really had.
///
/// ```
/// # use everstep::{Ctx, Result, Runtime, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// for order in ["a", "b", "c"] {
///     runtime.start(payment, 20).id(order).tag("shop", "paris").await?;
/// }
/// let first = runtime.list().workflow("payment").tag("shop", "paris").limit(2).await?;
/// let rest = runtime.list().workflow("payment").tag("shop", "paris").limit(2).after(first.next.unwrap()).await?;
/// assert_eq!((first.rows.len(), rest.rows.len()), (2, 1));
/// assert_eq!(runtime.list().count().await?, 3);
/// # Ok(()) }
/// ```
#[must_use = "nothing is listed until it is awaited"]
#[derive(Debug)]
pub struct List {
    shared: Arc<Shared>,
    filter: Filter,
    range: IndexRange,
    limit: usize,
    after: Option<String>,
}

/// Who is let through.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Filter {
    workflow: Option<String>,
    statuses: Vec<Status>,
    parent: Option<String>,
    tags: Vec<(String, String)>,
    updated_from_ms: Millis,
    updated_before_ms: Option<Millis>,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// The instances, in order.
    pub rows: Vec<Listed>,
    /// Where the next page begins; none if this was the last. Hand it to [`List::after`] as it is.
    pub next: Option<String>,
}

/// What a listing shows of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The type name of its workflow.
    pub workflow: String,
    /// Where it is in its life.
    pub status: Status,
    /// When it was started.
    pub created_at_ms: Millis,
    /// When its status last changed.
    pub updated_at_ms: Millis,
    /// Who started it, if another instance did.
    pub parent: Option<String>,
    /// What people call it.
    pub tags: Vec<(String, String)>,
}

impl List {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let range = IndexRange {
            newest_first: true,
            ..IndexRange::default()
        };
        Self {
            shared,
            filter: Filter::default(),
            range,
            limit: 100,
            after: None,
        }
    }

    /// Only instances of this workflow, by its type name.
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.filter.workflow = Some(name.into());
        self
    }

    /// Only instances with this status; said several times, with one of them.
    pub fn status(mut self, status: Status) -> Self {
        self.filter.statuses.push(status);
        self
    }

    /// Only instances that this one has started.
    pub fn parent(mut self, id: impl Into<String>) -> Self {
        self.filter.parent = Some(id.into());
        self
    }

    /// Only instances with this tag; said several times, with all of them.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, 20).id("order-123").tag("shop", "paris").await?;
    /// let page = runtime.list().tag("shop", "paris").await?;
    /// assert_eq!(page.rows[0].id, "order-123");
    /// # Ok(()) }
    /// ```
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.filter.tags.push((key.into(), value.into()));
        self
    }

    /// Only instances that were started at this time or later.
    pub fn started_from(mut self, time: SystemTime) -> Self {
        self.range.from_ms = wall_ms(time);
        self
    }

    /// Only instances that were started before this time.
    pub fn started_before(mut self, time: SystemTime) -> Self {
        self.range.before_ms = Some(wall_ms(time));
        self
    }

    /// Only instances whose status changed at this time or later.
    pub fn changed_from(mut self, time: SystemTime) -> Self {
        self.filter.updated_from_ms = wall_ms(time);
        self
    }

    /// Only instances whose status last changed before this time.
    pub fn changed_before(mut self, time: SystemTime) -> Self {
        self.filter.updated_before_ms = Some(wall_ms(time));
        self
    }

    /// The oldest first instead of the newest.
    pub fn oldest_first(mut self) -> Self {
        self.range.newest_first = false;
        self
    }

    /// At most so many in a page; 100 if nothing is said, 1,024 at most.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.clamp(1, PAGE_ROWS_MAX);
        self
    }

    /// Goes on where a page ended.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.after = Some(cursor.into());
        self
    }

    /// How many there are, on all pages.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, 20).id("order-123").await?;
    /// assert_eq!(runtime.list().workflow("payment").count().await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn count(mut self) -> Result<u64> {
        self.begin_behind()?;
        let Self {
            shared, filter, range, ..
        } = self;
        let store = shared.store.clone();
        blocking(&store, move || {
            let mut count = 0;
            each_shard(&shared, &range, &filter, &mut |_| {
                count += 1;
                true
            })?;
            Ok(count)
        })
        .await
    }

    /// Who is asked for, whatever page of them.
    /// The statuses that are asked for; none stands for all.
    pub(super) fn statuses(&self) -> &[Status] {
        &self.filter.statuses
    }

    pub(super) fn parts(self) -> (Filter, IndexRange) {
        (self.filter, self.range)
    }

    fn begin_behind(&mut self) -> Result<()> {
        if let Some(cursor) = &self.after {
            self.range.after = Some(parse(cursor, self.range.newest_first)?);
        }
        Ok(())
    }
}

impl IntoFuture for List {
    type Output = Result<ListPage>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            self.begin_behind()?;
            let Self {
                shared,
                filter,
                range,
                limit,
                ..
            } = self;
            let store = shared.store.clone();
            blocking(&store, move || page(&shared, &range, &filter, limit)).await
        })
    }
}

/// Reads where it keeps nobody waiting: a filter that few match may read much.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Store,
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // A simulation has one thread, and nothing in it depends on who is faster.
    if store.is_simulated() {
        return read();
    }
    let read = spawn::blocking(read).await;
    read.map_err(|error| storage::Error::Failed(error.to_string()))?
}

fn page(shared: &Shared, range: &IndexRange, filter: &Filter, limit: usize) -> Result<ListPage> {
    let (found, next) = rows(shared, range, filter, limit)?;
    let next = next.map(|last| cursor(&last, range.newest_first));
    let rows = found.into_iter().map(Listed::from).collect();
    Ok(ListPage { rows, next })
}

/// The place of a row in a listing.
type Place = (Millis, String);

/// The next rows that match, and behind which to go on if there are more.
pub(super) fn rows(
    shared: &Shared,
    range: &IndexRange,
    filter: &Filter,
    limit: usize,
) -> Result<(Vec<Indexed>, Option<Place>)> {
    let mut found = Vec::new();
    for shard in shared.store.shards() {
        let mut of_shard = 0;
        // One more than fits says whether there is another page.
        each(shared, shard, range, filter, &mut |row| {
            found.push(row);
            of_shard += 1;
            of_shard <= limit
        })?;
    }
    found.sort_by(|one: &Indexed, two| (one.created_at_ms, &one.instance).cmp(&(two.created_at_ms, &two.instance)));
    if range.newest_first {
        found.reverse();
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|last| (last.created_at_ms, last.instance.clone()));
    Ok((found, next))
}

/// Shows all rows that match to `visit`, shard by shard, until it has seen enough of one.
pub(super) fn each_shard(
    shared: &Shared,
    range: &IndexRange,
    filter: &Filter,
    visit: &mut dyn FnMut(Indexed) -> bool,
) -> Result<()> {
    let mut shards = shared.store.shards();
    shards.try_for_each(|shard| each(shared, shard, range, filter, visit))
}

fn each(
    shared: &Shared,
    shard: crate::ids::Shard,
    range: &IndexRange,
    filter: &Filter,
    visit: &mut dyn FnMut(Indexed) -> bool,
) -> Result<()> {
    let mut range = range.clone();
    loop {
        let rows = shared.store.indexed(shard, &range)?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        range.after = Some((last.created_at_ms, last.instance.clone()));
        for mut row in rows {
            if row.row.status == Status::Pending {
                row.row.status = begun(shared, &row.instance)?;
            }
            if filter.matches(&row) && !visit(row) {
                return Ok(());
            }
        }
    }
}

/// The status of one whose listing row says that it is pending: it may have been begun with.
fn begun(shared: &Shared, instance: &str) -> Result<Status> {
    let instance = InstanceId::internal(instance)?;
    if !shared.directory.is_resident(&instance) {
        return Ok(Status::Pending);
    }
    // An instance that is damaged does not keep the others from being listed: its row is sound.
    Ok(match look::state(shared, &instance) {
        Ok(Some((state, snapshot))) => look::status(shared, &instance, &state, &*snapshot).unwrap_or(Status::Pending),
        Ok(None) | Err(_) => Status::Pending,
    })
}

impl Filter {
    fn matches(&self, Indexed { instance, row, .. }: &Indexed) -> bool {
        // What the runtime itself is made of is nobody's business unless asked for by name.
        let own = instance.starts_with("__") && self.workflow.is_none();
        !own && self.workflow.as_ref().is_none_or(|workflow| *workflow == row.workflow)
            && (self.statuses.is_empty() || self.statuses.contains(&row.status))
            && (self.parent.is_none() || self.parent == row.parent)
            && self.tags.iter().all(|tag| row.tags.contains(tag))
            && row.updated_at_ms >= self.updated_from_ms
            && self.updated_before_ms.is_none_or(|before| row.updated_at_ms < before)
    }
}

impl From<Indexed> for Listed {
    fn from(
        Indexed {
            created_at_ms,
            instance,
            row,
        }: Indexed,
    ) -> Self {
        Self {
            id: instance,
            workflow: row.workflow,
            status: row.status,
            created_at_ms,
            updated_at_ms: row.updated_at_ms,
            parent: row.parent,
            tags: row.tags,
        }
    }
}

fn direction(newest_first: bool) -> char {
    if newest_first { 'n' } else { 'o' }
}

fn cursor((at, instance): &Place, newest_first: bool) -> String {
    format!("{}{at}.{instance}", direction(newest_first))
}

/// A cursor is of the listing that gave it: one of the other order would skip or repeat.
fn parse(cursor: &str, newest_first: bool) -> Result<Place> {
    let place = cursor
        .strip_prefix(direction(newest_first))
        .and_then(|rest| rest.split_once('.'));
    let place = place.and_then(|(at, instance)| Some((at.parse().ok()?, instance.to_owned())));
    place.ok_or_else(|| Error::InvalidCursor(cursor.chars().take(80).collect()))
}
