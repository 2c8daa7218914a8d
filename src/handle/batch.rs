//! `runtime.batch`: the same for many instances.
//!
//! A batch is an instance of a built-in workflow. It goes through the listing in the order in which instances were
//! started, page by page: it writes down who is on a page, then operates on each of them, then goes on behind the last
//! one. What it writes down says which run of an instance was meant, and messages have ids that are made of the batch and
//! of the instance, so a page that is done again after a crash changes nothing twice.

mod item;
mod plan;
mod run;

use std::ops::Deref;
use std::sync::Arc;

use crate::actor::Shared;
use crate::engine::{Message, Untyped};
use crate::handle::batch::plan::{Operation, Plan};
use crate::handle::list::{self, List};
use crate::handle::start::{Options, Starting};
use crate::handle::{AnyHandle, Error, Result, Waiting, wait};
use crate::ids::InstanceId;
use crate::storage;
use crate::storage::record::Status;

pub use plan::{BatchCount, BatchFailure, BatchProgress};
pub(crate) use run::definition;

/// What the ids of batches begin with. Nobody else can take such an id.
const PREFIX: &str = "__batch ";

/// The instances of a listing, to be operated on; say how.
///
/// **Who is included.** Everyone who matches when the batch comes to them, in the order in which they were started, each
/// once. Who is started after the batch began is not; who began to match or ceased to match meanwhile is included or not
/// depending on whether the batch had come to them. What the runtime itself is made of (topics, other batches) never is.
///
/// ```
/// # use everstep::{Ctx, Result, Runtime, ok, workflow};
/// # use everstep::storage::record::Status;
/// # #[workflow] async fn nap(ctx: Ctx<Nap>) -> Result<()> { ctx.sleep("nap", "30d").await?; ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(nap).open("memory:").await?;
/// # for shop in ["paris", "paris", "oslo"] { runtime.start(nap, ()).tag("shop", shop).await?; }
/// let paris = || runtime.batch(runtime.list().workflow("nap").tag("shop", "paris")).cancel("the shop closes");
/// let counted = paris().dry_run().await?;
/// assert_eq!((counted.matched, counted.applicable), (2, 2));
/// let closing = paris().start("close-paris").await?;
/// let progress = closing.finished().await?;
/// assert_eq!((progress.done, progress.unchanged, progress.failed), (2, 0, 0));
/// // The same id is the same batch, also in another process.
/// assert_eq!(runtime.batch_handle("close-paris")?.progress().await?.matched, 2);
/// # Ok(()) }
/// ```
#[must_use = "nothing is done until it is said what, and started"]
#[derive(Debug)]
pub struct Batch {
    shared: Arc<Shared>,
    list: List,
}

/// A batch that knows what it is to do.
#[must_use = "nothing is done until it is started"]
#[derive(Debug)]
pub struct BatchStart {
    shared: Arc<Shared>,
    plan: Result<Plan>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>, list: List) -> Self {
        Self { shared, list }
    }

    /// Asks each of them to end, as [`AnyHandle::cancel`] does. Done is who was asked: one that is paused ends when it is
    /// resumed.
    pub fn cancel(self, reason: impl Into<String>) -> BatchStart {
        let reason = reason.into();
        self.plan(Ok(Operation::Cancel { reason }))
    }

    /// Ends each of them at once, as [`AnyHandle::terminate`] does.
    pub fn terminate(self, reason: impl Into<String>) -> BatchStart {
        let reason = reason.into();
        self.plan(Ok(Operation::Terminate { reason }))
    }

    /// Gives each of them that failed another chance, as [`AnyHandle::retry`] does: one, also if it fails again before
    /// the batch is over. Who was cancelled or terminated is left alone, unless the listing asks for that status.
    pub fn retry(self) -> BatchStart {
        let asked = self.list.statuses();
        let ended = if asked.is_empty() {
            vec![Status::Failed, Status::Compensated]
        } else {
            asked.iter().copied().filter(|status| status.is_terminal()).collect()
        };
        self.plan(Ok(Operation::Retry { ended }))
    }

    /// Holds each of them, as [`AnyHandle::pause`] does. Done is who was told to.
    pub fn pause(self) -> BatchStart {
        self.plan(Ok(Operation::Pause))
    }

    /// Lets each of them go on that is paused.
    pub fn resume(self) -> BatchStart {
        self.plan(Ok(Operation::Resume))
    }

    /// Sends a message to each of them, once. Whose workflow does not accept it is counted as failed.
    pub fn send<M: Message>(self, message: &M) -> BatchStart {
        let codecs = self.shared.store.codecs();
        let packed = codecs
            .pack(message)
            .and_then(|packed| Ok(codecs.cbor(&packed)?.into_owned()));
        let name = M::NAME.to_owned();
        let send = packed.map(|bytes| Operation::send(name, Untyped::Cbor(bytes)));
        self.plan(send.map_err(|error| storage::Error::from(error).into()))
    }

    /// The same for a message that is known by its name.
    pub fn send_named(self, name: impl Into<String>, value: impl Into<Untyped>) -> BatchStart {
        let send = Operation::send(name.into(), value.into());
        self.plan(Ok(send))
    }

    /// Removes each of them that has ended, as [`AnyHandle::delete`] does.
    pub fn delete(self) -> BatchStart {
        self.plan(Ok(Operation::Delete))
    }

    fn plan(self, operation: Result<Operation>) -> BatchStart {
        let (filter, range) = self.list.parts();
        let plan = operation.map(|operation| Plan {
            filter,
            from_ms: range.from_ms,
            before_ms: range.before_ms,
            operation,
        });
        let shared = self.shared;
        BatchStart { shared, plan }
    }
}

impl BatchStart {
    /// Counts whom it would be about if it were started now, and changes nothing.
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
    /// let all = runtime.list().workflow("payment");
    /// let counted = runtime.batch(all).terminate("it was a test").dry_run().await?;
    /// assert_eq!((counted.matched, counted.applicable), (1, 1));
    /// # Ok(()) }
    /// ```
    pub async fn dry_run(self) -> Result<BatchCount> {
        let Self { shared, plan } = self;
        let plan = plan?;
        let store = shared.store.clone();
        list::blocking(&store, move || {
            let mut count = BatchCount::default();
            list::each_shard(&shared, &plan.range(None, None), &plan.filter, &mut |row| {
                if !plan::is_own(&row.instance) {
                    count.matched += 1;
                    count.applicable += u64::from(plan.operation.applies_to(row.row.status));
                }
                true
            })?;
            Ok(count)
        })
        .await
    }

    /// Starts it under this id, durably. A batch with the same id that is to do the same is given back as it is; one
    /// that is to do something else is in the way (`ES0404`).
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
    /// let all = runtime.list().workflow("payment");
    /// let closing = runtime.batch(all).terminate("it was a test").start("close").await?;
    /// let progress = closing.finished().await?;
    /// assert_eq!(progress.done, 1);
    /// # Ok(()) }
    /// ```
    pub async fn start(self, id: impl AsRef<str>) -> Result<BatchHandle> {
        let Self { shared, plan } = self;
        let instance = instance_of(id.as_ref())?;
        let input = shared.store.codecs().pack(&plan?).map_err(storage::Error::from)?;
        let options = Options::new(1);
        let starting = Starting::under(&shared, run::NAME, instance.clone(), options, input)?;
        let (_, differs) = starting.run().await?;
        if differs {
            return Err(Error::Exists(instance));
        }
        Ok(BatchHandle::new(AnyHandle::new(shared, instance)))
    }
}

/// A batch that was started. It is an instance like any other: it can be paused, resumed, cancelled and deleted. One
/// that is cancelled leaves off where it is; what it has done stays done.
#[derive(Debug, Clone)]
pub struct BatchHandle {
    handle: AnyHandle,
}

impl BatchHandle {
    fn new(handle: AnyHandle) -> Self {
        Self { handle }
    }

    pub(crate) fn of(shared: &Arc<Shared>, id: &str) -> Result<Self> {
        let instance = instance_of(id)?;
        Ok(Self::new(AnyHandle::new(Arc::clone(shared), instance)))
    }

    /// How far it is. What is told is durable: a page that is being worked on is counted when all of it is done.
    pub async fn progress(&self) -> Result<BatchProgress> {
        let progress: Option<BatchProgress> = self.handle.query(run::PROGRESS).await?;
        let mut progress = progress.unwrap_or_default();
        progress.is_over = self.handle.outcome()?.is_some();
        Ok(progress)
    }

    /// Waits until it is over, also across restarts, and says what it came to.
    pub fn finished(&self) -> Waiting<BatchProgress> {
        let this = self.clone();
        Waiting::new(&self.handle, async move {
            let handle = &this.handle;
            wait::until(&handle.shared, handle.id(), || handle.outcome())
                .await?
                .map_err(Error::Failed)?;
            this.progress().await
        })
    }
}

impl Deref for BatchHandle {
    type Target = AnyHandle;

    fn deref(&self) -> &AnyHandle {
        &self.handle
    }
}

fn instance_of(id: &str) -> Result<InstanceId> {
    // What people give is an id by itself; with the prefix it may be too long for one.
    InstanceId::new(id)?;
    Ok(InstanceId::internal(format!("{PREFIX}{id}"))?)
}
