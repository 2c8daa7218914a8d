//! What can be done with a schedule.

use std::sync::Arc;

use crate::actor::Shared;
use crate::engine::schedule::{Order, Outcome, Schedule as Behind, Slot, instance_name, schedule_of};
use crate::handle::{AnyHandle, Effect, Error, Handle, List, Result, ScheduleDescription, look, send, wait};
use crate::ids::InstanceId;

/// A schedule, as its callers see it. Cheap to clone.
///
/// ```
/// # use everstep::{Ctx, Effect, Every, Result, Runtime, ok, workflow};
/// # #[workflow] async fn tidy(ctx: Ctx<Tidy>) -> Result<()> { ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(tidy).open("memory:").await?;
/// runtime.schedule("tidy", Every::new("1h")).starts(tidy, ()).await?;
/// let schedule = runtime.schedule_handle("tidy")?;
/// assert_eq!(schedule.pause().await?, Effect::Done);
/// assert_eq!(schedule.pause().await?, Effect::Already);
/// assert!(schedule.describe().await?.paused);
/// schedule.resume().await?;
/// schedule.delete().await?;
/// assert_eq!(schedule.describe().await.unwrap_err().code(), "ES0408");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ScheduleHandle {
    pub(super) any: AnyHandle,
    name: String,
}

/// What became of an instance that was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Triggered {
    /// It was started.
    Started(AnyHandle),
    /// It waits until another one has ended. There is no such instance before that.
    Waits(AnyHandle),
    /// Another one has not ended, and the schedule passes over what comes meanwhile.
    Skipped,
}

impl Triggered {
    /// The instance, unless the asking was passed over.
    pub fn instance(&self) -> Option<&AnyHandle> {
        match self {
            Self::Started(instance) | Self::Waits(instance) => Some(instance),
            Self::Skipped => None,
        }
    }
}

impl ScheduleHandle {
    pub(super) fn new(shared: Arc<Shared>, name: String, instance: InstanceId) -> Self {
        let any = AnyHandle::new(shared, instance);
        Self { any, name }
    }

    pub(crate) fn of(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        let instance = schedule_of(name)?;
        Ok(Self::new(Arc::clone(shared), name.to_owned(), instance))
    }

    /// The name of the schedule.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All that is known of it. It is read from the store: the schedule sleeps on.
    ///
    /// ```
    /// # use everstep::{Cron, Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let yearly = runtime.schedule("yearly", Cron::new("@yearly")).starts(payment, 20).await?;
    /// let described = yearly.describe().await?;
    /// assert!(described.next_at_ms.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn describe(&self) -> Result<ScheduleDescription> {
        let seen = look::existing(&self.any.shared, &self.any.instance)?;
        super::describe::describe(&self.any, &self.name, &seen)
    }

    /// Lets no slot begin until somebody resumes it. Slots that come meanwhile are passed over, and are not caught up
    /// with; what waits already waits on. Triggering still works.
    pub async fn pause(&self) -> Result<Effect> {
        self.effect(Order::Pause).await
    }

    /// Lets slots begin again, from the next one on.
    pub async fn resume(&self) -> Result<Effect> {
        self.effect(Order::Resume).await
    }

    /// Starts an instance now, beside the slots. If one has not ended, it is treated as [`Overlap`](crate::Overlap)
    /// says.
    ///
    /// ```
    /// # use everstep::{Cron, Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let yearly = runtime.schedule("yearly", Cron::new("@yearly")).starts(payment, 20).await?;
    /// let triggered = yearly.trigger().await?;
    /// let instance = triggered.instance().ok_or("nothing is in its way")?;
    /// assert_eq!(instance.result_as::<u32>().await?, 20);
    /// # Ok(()) }
    /// ```
    pub async fn trigger(&self) -> Result<Triggered> {
        let shared = &self.any.shared;
        let name = send::message_id(shared, None)?.to_string();
        let instance = InstanceId::new(instance_name(&self.name, &Slot::Asked(name.clone())))?;
        let handle = AnyHandle::new(Arc::clone(shared), instance);
        match self.order(Order::Trigger(name)).await? {
            Outcome::Skipped => Ok(Triggered::Skipped),
            Outcome::Waits => Ok(Triggered::Waits(handle)),
            Outcome::Started | Outcome::Done | Outcome::Already => {
                // It is durably on its way, and there in a moment.
                let is_there = || Ok(look::instance(shared, &handle.instance)?.map(|_| ()));
                wait::until(shared, &handle.instance, is_there).await?;
                Ok(Triggered::Started(handle))
            }
        }
    }

    /// Ends the schedule and removes it. The instances that it started go on.
    ///
    /// ```
    /// # use everstep::{Cron, Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let yearly = runtime.schedule("yearly", Cron::new("@yearly")).starts(payment, 20).await?;
    /// yearly.delete().await?;
    /// assert!(yearly.describe().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self) -> Result<()> {
        self.any.delete_anyway("its schedule was deleted").await
    }

    /// The instances that it started.
    pub fn instances(&self) -> List {
        List::new(Arc::clone(&self.any.shared)).parent(self.any.instance.as_str())
    }

    async fn effect(&self, order: Order) -> Result<Effect> {
        match self.order(order).await {
            Ok(Outcome::Already) => Ok(Effect::Already),
            Ok(_) => Ok(Effect::Done),
            Err(Error::Finished { .. } | Error::Unanswered(_)) => Ok(Effect::Ended),
            Err(error) => Err(error),
        }
    }

    async fn order(&self, order: Order) -> Result<Outcome> {
        let AnyHandle { shared, instance } = &self.any;
        let handle = Handle::<Behind>::new(Arc::clone(shared), instance.clone());
        handle.ask(order).await
    }
}
