//! An instance of any workflow.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::actor::Shared;
use crate::engine::Workflow;
use crate::handle::look::Seen;
use crate::handle::wait::{self, Waiting};
use crate::handle::{Description, Error, Handle, History, Result, Stream, describe, history, list, look};
use crate::ids::InstanceId;
use crate::storage;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Failure, Output, Published, Status};

/// One instance, whatever its workflow is: all that can be done with it without knowing the types. Cheap to clone.
///
/// A [`Handle`] is one of these that knows its types as well.
///
/// ```
/// # use everstep::{Ctx, Result, Runtime, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// # runtime.start(payment, 20).id("order-123").await?.result().await?;
/// let instance = runtime.instance("order-123")?;
/// assert_eq!(instance.status().await?.workflow, "payment");
/// let paid: u32 = instance.result_as().timeout("10s").await?;
/// assert_eq!(paid, 20);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AnyHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) instance: InstanceId,
}

impl AnyHandle {
    pub(crate) fn new(shared: Arc<Shared>, instance: InstanceId) -> Self {
        Self { shared, instance }
    }

    /// The id of the instance.
    pub fn id(&self) -> &InstanceId {
        &self.instance
    }

    /// The same with types, if it is an instance of this workflow.
    pub fn typed<W: Workflow>(&self) -> Result<Handle<W>> {
        Handle::of(&self.shared, self.instance.as_str())
    }

    /// All that is known of where the instance stands. It is read from the store: an instance that sleeps sleeps on.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let described = payment.status().await?;
    /// assert_eq!(described.status, Status::Sleeping);
    /// assert_eq!(described.workflow, "payment");
    /// # Ok(()) }
    /// ```
    pub async fn status(&self) -> Result<Description> {
        self.read(|this, seen| describe::describe(&this.shared, &this.instance, seen))
            .await
    }

    /// What the instance has done in this run, and what it is doing. Read from the store, like the status.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let history = payment.history().await?;
    /// let slept = history.at("cooling off").ok_or("it sleeps")?;
    /// assert!(slept.completed.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn history(&self) -> Result<History> {
        self.read(|this, seen| history::history(&this.shared, &this.instance, seen))
            .await
    }

    /// Reads where it keeps nobody waiting: a history may be long.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self, &Seen) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        list::blocking(&self.shared.store, move || {
            let seen = look::existing(&this.shared, &this.instance)?;
            read(&this, &seen)
        })
        .await
    }

    /// What the code has published under a name, if it has.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let paid: Option<u32> = payment.query("paid").await?;
    /// assert_eq!(paid, Some(20));
    /// # Ok(()) }
    /// ```
    pub async fn query<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let (_, snapshot) = look::existing_state(&self.shared, &self.instance)?;
        let namespace = self.shared.store.namespace(&self.instance);
        let published: Option<Published> = namespace.get(&*snapshot, &Local::Published(name.into()))?;
        published.map(|Published(payload)| self.unpack(&payload)).transpose()
    }

    /// What the code has emitted and will emit, from the beginning; [`Stream::after`] takes up where one left off.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let mut items = payment.stream::<String>();
    /// let item = items.next().await?.ok_or("it has not ended")?;
    /// assert_eq!(item.value, "paid");
    /// // Later, and in another process: `payment.stream::<String>().after(cursor)`.
    /// # Ok(()) }
    /// ```
    pub fn stream<T: DeserializeOwned>(&self) -> Stream<T> {
        Stream::new(self.clone())
    }

    /// Waits until the instance has a status that is wanted.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// let status = payment.reached(|status| status == Status::Sleeping).await?;
    /// assert_eq!(status, Status::Sleeping);
    /// # Ok(()) }
    /// ```
    pub async fn reached(&self, wanted: impl Fn(Status) -> bool + Send) -> Result<Status> {
        wait::until(&self.shared, &self.instance, || {
            let (state, snapshot) = look::existing_state(&self.shared, &self.instance)?;
            let status = look::status(&self.shared, &self.instance, &state, &*snapshot)?;
            Ok(wanted(status).then_some(status))
        })
        .await
    }

    /// Waits for the end of the instance, also across restarts, and gives what it returned. Any number may wait. An
    /// instance that did not complete gives [`Error::Failed`], which says how it ended. One that is paused, stuck, parked
    /// or quarantined has not ended: see [`Waiting::or_held`].
    pub fn result_as<T: DeserializeOwned + Send + 'static>(&self) -> Waiting<T> {
        let this = self.clone();
        Waiting::new(self, async move {
            let ended = wait::until_end(&this.shared, &this.instance, || this.outcome()).await?;
            this.unpack(&ended.map_err(Error::Failed)?)
        })
    }

    /// How the instance ended, if it has.
    pub(crate) fn outcome(&self) -> Result<Option<std::result::Result<Payload, Failure>>> {
        let (state, snapshot) = look::existing_state(&self.shared, &self.instance)?;
        if !state.status.is_terminal() {
            return Ok(None);
        }
        let namespace = self.shared.store.namespace(&self.instance);
        if let Some(Output(payload)) = namespace.get(&*snapshot, &Local::Meta(Meta::Output))? {
            return Ok(Some(Ok(payload)));
        }
        let failure: Option<Failure> = namespace.get(&*snapshot, &Local::Meta(Meta::Failure))?;
        let lost = || storage::Error::Corrupt(format!("instance {} ended without a word", self.instance));
        Ok(Some(Err(failure.ok_or_else(lost)?)))
    }

    pub(super) fn unpack<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T> {
        let unpacked = self.shared.store.codecs().unpack(payload);
        Ok(unpacked.map_err(storage::Error::from)?)
    }
}

impl fmt::Debug for AnyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyHandle")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}
