//! `runtime.start`: begins an instance, once.

use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::actor::Shared;
use crate::duration::IntoDuration;
use crate::engine::Workflow;
use crate::handle::{Handle, Result};
use crate::storage;
use crate::storage::record::Priority;

mod begun;
mod check;
mod crowd;
mod options;
mod starting;

pub(super) use check::{check_flow, check_tags, check_version};
pub(super) use options::Options;
pub(super) use starting::Starting;

/// What becomes of a start whose id is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Existing {
    /// The instance that is there is given back, as it is.
    #[default]
    Return,
    /// The start is refused.
    Refuse,
    /// An instance that has ended begins another run with the new input; one that has not is given back as it is.
    NewRun,
}

/// What becomes of a start when too many wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Crowded {
    /// The start is refused.
    Refuse,
    /// The start waits until there are fewer, and nothing is stored before.
    Wait,
}

/// The start of an instance; await it. It is durable when that returns.
///
/// ```
/// # use everstep::{Ctx, Existing, Result, Runtime, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// let first = runtime.start(payment, 20).id("order-123").tag("customer", "kim").deadline("30d").await?;
/// assert!(!first.existed());
/// // The same id is the same instance.
/// let again = runtime.start(payment, 21).id("order-123").await?;
/// assert!(again.existed() && again.input_differs());
/// assert_eq!(again.result().await?, 20);
/// // Unless a new run was asked for, now that it has ended.
/// let renewed = runtime.start(payment, 21).id("order-123").if_exists(Existing::NewRun).await?;
/// assert!(!renewed.existed());
/// assert_eq!(renewed.result().await?, 21);
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until it is awaited"]
pub struct Start<W: Workflow> {
    shared: Arc<Shared>,
    input: W::Input,
    options: Options,
}

/// An instance that was started, now or before.
#[derive(Debug, Clone)]
pub struct Started<W> {
    handle: Handle<W>,
    existed: bool,
    input_differs: bool,
}

impl<W: Workflow> Start<W> {
    pub(crate) fn new(shared: Arc<Shared>, input: W::Input) -> Self {
        let options = Options::new(W::VERSION);
        Self { shared, input, options }
    }

    /// Under this id. Without one the instance is given a new id, made of the type name and a ULID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.options.id = Some(id.into());
        self
    }

    /// With a tag that listings can filter by. The last value of a key holds.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.tags.insert(key.into(), value.into());
        self
    }

    /// With this version of the code instead of the newest. One that this process does not have is refused.
    pub fn version(mut self, version: u32) -> Self {
        self.options.version = version;
        self
    }

    /// To be done within this time, from when it may begin: now, or at the time that it is to begin at. After that it
    /// fails. Waiting for its turn with a key, or for a place in memory, is part of the time.
    pub fn deadline(mut self, deadline: impl IntoDuration) -> Self {
        self.options.deadline = deadline.into_duration().map(Some);
        self
    }

    /// To begin at this time and not before. Until then it is pending and takes messages.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.options.at = Some(time);
        self.options.after = Ok(None);
        self
    }

    /// To begin when this much time has passed, and not before.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn remind(ctx: Ctx<Remind>, whom: String) -> Result<String> { ok(whom) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(remind).open("memory:").await?;
    /// let reminder = runtime.start(remind, "kim".to_owned()).after("7d").await?;
    /// assert_eq!(reminder.status().await?.status.to_string(), "pending");
    /// # Ok(()) }
    /// ```
    pub fn after(mut self, duration: impl IntoDuration) -> Self {
        self.options.at = None;
        self.options.after = duration.into_duration().map(Some);
        self
    }

    /// With at most so many instances of this key running at once. If there are as many already it waits for its turn, in
    /// the order of the starts, across restarts: until then it is pending, takes messages, and costs no memory. Whoever
    /// runs keeps its place until it has ended, also while it sleeps, is paused or put aside.
    ///
    /// A key with different limits is one gate: each instance keeps to its own, and nobody overtakes who came first.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn import(ctx: Ctx<Import>, file: u32) -> Result<u32> { ok(file) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(import).open("memory:").await?;
    /// // One after the other for each customer, and side by side for different ones.
    /// let first = runtime.start(import, 1).at_most(1, "customer-7").await?;
    /// let second = runtime.start(import, 2).at_most(1, "customer-7").await?;
    /// assert_eq!(second.result().await?, 2);
    /// assert!(first.status().await?.status.is_terminal());
    /// # Ok(()) }
    /// ```
    pub fn at_most(mut self, limit: u32, key: impl Into<String>) -> Self {
        self.options.flow.at_most(limit, key);
        self
    }

    /// Before or after others that wait for the same place, for all that it does. Whoever has a lower priority is served
    /// less often, and never not at all.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.flow.priority = priority;
        self
    }

    /// What to do if so many wait already: for their turn with the same key, or without one, for a place in memory. The
    /// number is 1 to [`CROWD_MAX`](crate::limits::CROWD_MAX).
    ///
    /// Those who wait for a place in memory are counted as far as they are known by name: a workflow has room for its
    /// share of [`WAKE_QUEUE_MAX`](crate::limits::WAKE_QUEUE_MAX), the others lie in the store. Where there is no room
    /// left it is crowded, whatever the number.
    ///
    /// ```
    /// # use everstep::{Crowded, Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn import(ctx: Ctx<Import>) -> Result<()> { ctx.sleep("long", "1d").await?; ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(import).open("memory:").await?;
    /// let start = || runtime.start(import, ()).at_most(1, "customer-7").if_crowded(1, Crowded::Refuse);
    /// let (runs, waits) = (start().await?, start().await?);
    /// assert_eq!(start().await.unwrap_err().code(), "ES0430");
    /// # Ok(()) }
    /// ```
    pub fn if_crowded(mut self, waiting: usize, crowded: Crowded) -> Self {
        self.options.crowd = Some((waiting, crowded));
        self
    }

    /// What to do if the id is taken.
    pub fn if_exists(mut self, existing: Existing) -> Self {
        self.options.existing = existing;
        self
    }
}

impl<W: Workflow> IntoFuture for Start<W> {
    type Output = Result<Started<W>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, input, options } = self;
        Box::pin(async move {
            let input = shared.store.codecs().pack(&input).map_err(storage::Error::from);
            let starting = Starting::new(&shared, W::NAME, options, input?)?;
            let (existed, input_differs) = starting.run().await?;
            let handle = Handle::new(Arc::clone(&starting.shared), starting.instance);
            Ok(Started {
                handle,
                existed,
                input_differs,
            })
        })
    }
}

impl<W: Workflow> Started<W> {
    /// Whether it was there before this start.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Whether it was there, and had been started with another input.
    pub fn input_differs(&self) -> bool {
        self.input_differs
    }

    /// The handle alone.
    pub fn into_handle(self) -> Handle<W> {
        self.handle
    }
}

impl<W> Deref for Started<W> {
    type Target = Handle<W>;

    fn deref(&self) -> &Handle<W> {
        &self.handle
    }
}
