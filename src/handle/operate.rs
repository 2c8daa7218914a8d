//! Pause, resume and cancel: what an instance is asked through its inbox, and does when it gets there.

use crate::actor;
use crate::engine;
use crate::handle::look::{self, Seen};
use crate::handle::send::{self, Delivered};
use crate::handle::{AnyHandle, Error, Result, Waiting, wait};
use crate::ids::MessageId;
use crate::storage::key::{Arrival, Local};
use crate::storage::record::{Content, Message, Origin, Status};

/// What became of an operation on an instance, decided by the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operated {
    /// What it came to.
    pub effect: Effect,
    /// The status that the instance had before.
    pub before: Status,
    /// The status that it has now.
    pub now: Status,
}

/// What an operation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// It was done, durably.
    Done,
    /// It was so before: nothing was changed.
    Already,
    /// The instance has ended, which came first: nothing was changed.
    Ended,
    /// It is stored, and will be done when the instance can run again: it is paused or held, or its workflow is unknown
    /// here.
    Asked,
}

impl AnyHandle {
    /// Holds the instance: no new step begins, running ones end and are recorded, messages are accepted. Returns when
    /// that is so. It stays so across restarts, until somebody resumes it.
    ///
    /// ```
    /// # use everstep::{Ctx, Effect, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn nap(ctx: Ctx<Nap>) -> Result<()> { ctx.sleep("nap", "10ms").await?; ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(nap).open("memory:").await?;
    /// let nap = runtime.start(nap, ()).await?;
    /// nap.pause().await?;
    /// assert_eq!(nap.pause().await?.effect, Effect::Already);
    /// nap.resume().await?;
    /// nap.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn pause(&self) -> Waiting<Operated> {
        let this = self.clone();
        Waiting::new(self, async move { this.set_paused(true).await })
    }

    /// Lets an instance go on that was paused.
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
    /// payment.pause().await?;
    /// let resumed = payment.resume().await?;
    /// assert_eq!(resumed.before, Status::Paused);
    /// # Ok(()) }
    /// ```
    pub fn resume(&self) -> Waiting<Operated> {
        let this = self.clone();
        Waiting::new(self, async move { this.set_paused(false).await })
    }

    /// Asks the instance to end. What it waits for ends with an error, its code may clean up, what can be undone is
    /// undone; then it is cancelled. Returns when the asking is recorded: [`AnyHandle::reached`] waits for the end.
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
    /// payment.cancel("the shop closes").await?;
    /// payment.reached(|status| status == Status::Cancelled).await?;
    /// # Ok(()) }
    /// ```
    pub fn cancel(&self, reason: impl Into<String>) -> Waiting<Operated> {
        let (this, reason) = (self.clone(), reason.into());
        Waiting::new(self, async move { this.ask_to_end(reason).await })
    }

    async fn ask_to_end(&self, reason: String) -> Result<Operated> {
        let seen = look::existing(&self.shared, &self.instance)?;
        if seen.has_not_begun(&self.shared, &self.instance)?
            && let Some(cancelled) = self.cancel_before_the_beginning(&reason).await?
        {
            return Ok(cancelled);
        }
        let id = once(&seen.origin, seen.state.run, "cancel");
        self.tell(seen.state.status, id, Content::Cancel { reason }).await
    }

    async fn set_paused(&self, paused: bool) -> Result<Operated> {
        let seen = look::existing(&self.shared, &self.instance)?;
        let status = seen.state.status;
        if status.is_terminal() {
            return Ok(Operated::unchanged(Effect::Ended, status));
        }
        if seen.state.paused == paused {
            return Ok(Operated::unchanged(Effect::Already, status));
        }
        if is_held(status) || seen.has_not_begun(&self.shared, &self.instance)? {
            return self.pause_alone(paused).await;
        }
        let content = if paused { Content::Pause } else { Content::Resume };
        self.tell(status, send::message_id(&self.shared, None)?, content).await
    }

    /// Puts a message to the engine of an instance into its inbox, and waits until it was taken.
    async fn tell(&self, before: Status, id: MessageId, content: Content) -> Result<Operated> {
        let message = send::from_outside(&self.shared, id, content);
        let (arrival, effect) = match send::deliver(&self.shared, &self.instance, &message).await {
            Ok(Delivered::Now(arrival)) => (arrival, Effect::Done),
            Ok(Delivered::Before(arrival)) => (arrival, Effect::Already),
            Err(Error::Finished { status, .. }) => return Ok(Operated::unchanged(Effect::Ended, status)),
            Err(error) => return Err(error),
        };
        let waits = !matches!(message.content, Content::Pause | Content::Resume);
        wait::until(&self.shared, &self.instance, || {
            let (taken, seen) = self.taken(arrival)?;
            let now = seen.state.status;
            // One that is paused takes nothing but pauses and resumes.
            let at_gate = actor::waits_at_gate(&self.shared.store.namespace(&self.instance), &*seen.snapshot)?;
            let holds = is_held(now) || at_gate || (waits && seen.state.paused) || !self.runs_here(&seen);
            let effect = match effect {
                Effect::Done if taken => Effect::Done,
                _ if now.is_terminal() => Effect::Ended,
                Effect::Done if holds => Effect::Asked,
                Effect::Already if taken || holds => Effect::Already,
                _ => return Ok(None),
            };
            Ok(Some(Operated { effect, before, now }))
        })
        .await
    }

    /// Whether a message was taken, and the instance at the same moment.
    fn taken(&self, arrival: Arrival) -> Result<(bool, Seen)> {
        let seen = look::existing(&self.shared, &self.instance)?;
        let namespace = self.shared.store.namespace(&self.instance);
        let row: Option<Message> = namespace.get(&*seen.snapshot, &Local::Inbox(arrival))?;
        Ok((row.is_none(), seen))
    }

    fn runs_here(&self, seen: &Seen) -> bool {
        self.shared.definitions.contains_key(seen.origin.workflow.as_str())
    }
}

impl Operated {
    /// Nothing was changed.
    pub(super) fn unchanged(effect: Effect, status: Status) -> Self {
        let (before, now) = (status, status);
        Self { effect, before, now }
    }

    /// Whether the operation was done.
    pub fn is_done(&self) -> bool {
        self.effect == Effect::Done
    }
}

/// Whether an instance with this status does not run until something else changes.
pub(super) fn is_held(status: Status) -> bool {
    matches!(status, Status::Stuck | Status::Parked | Status::Quarantined)
}

/// The id of a message that a run gets once, however often it is sent.
fn once(origin: &Origin, run: u32, what: &str) -> MessageId {
    let id = engine::derived_id(origin.secret, run, what);
    MessageId::new(id).expect("hexadecimal digits are an id")
}
