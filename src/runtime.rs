//! The composition root: puts the rooms together, starts and stops them.
//!
//! **What lives here:** the builder, the threads, the services and their end. Each method of [`Runtime`] is a line that
//! begins a call of `handle`.
//!
//! **What never lives here:** a decision. What it means to start, to send or to stop an instance is said in the rooms below.
//!
//! **Who may call it:** users; handles hold what it shares; the kit for tests puts one together on a clock of its own.
//!
//! **In which order to read:** `builder` (what is checked before anything opens, and how the rooms meet), `start_services`
//! and `stop` in this file, `threads`; `simulated` is the same without threads.
//!
//! **Architecture invariant:** user code, services and callers have threads of their own: none keeps another from going on.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::task::AbortHandle;

use crate::actor::{self, Courier, Leave, Recovery, Shared};
use crate::clock::Stopwatch;
use crate::engine::{IntoWorkflow, Message, Untyped, Workflow};
use crate::handle::{
    self, AnyHandle, Batch, BatchHandle, DeadLetters, Handle, List, Publishing, Resting, Result, Sent, Start,
    StartNamed, Watch,
};
use crate::ids::InstanceId;
use crate::scheduler;
use crate::spawn;

mod builder;
mod schedules;
#[cfg(feature = "testing")]
mod simulated;
mod stats;
mod store;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod threads;

pub use builder::Builder;
#[cfg(feature = "testing")]
pub use simulated::Simulated;
pub use stats::RuntimeStats;
use threads::Threads;

/// A running Everstep: workflows, and the store that their instances live in.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    activities: BTreeSet<&'static str>,
    recovery: Recovery,
    /// When the last snapshot of it was made, and how many commits there were.
    snapshot: Mutex<Option<(Stopwatch, u64)>>,
    /// What rings, admits, feeds and sweeps; ended with the runtime.
    tasks: Vec<AbortHandle>,
    /// Until it is stopped. A simulation has none: there everything runs in the caller's thread.
    threads: Mutex<Threads>,
}

impl Runtime {
    /// Begins to put a runtime together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a store without any workflow: to look at instances, send to them and operate on them, but not to run them.
    pub async fn open(url: &str) -> Result<Self> {
        Self::builder().open(url).await
    }

    /// The type names of the workflows that this process can run.
    pub fn workflows(&self) -> impl Iterator<Item = &'static str> {
        let built_in = |name: &&str| name.starts_with("__");
        self.shared
            .definitions
            .keys()
            .copied()
            .filter(move |name| !built_in(name))
    }

    /// Publishes an event: everyone gets it who waits for its type with [`Ctx::wait_event`](crate::Ctx::wait_event).
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Opened { by: String }
    ///
    /// #[workflow]
    /// async fn visitor(ctx: Ctx<Visitor>) -> Result<String> {
    ///     ok(ctx.wait_event::<Opened>().await?.by)
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(visitor).open("memory:").await?;
    /// let visitor = runtime.start(visitor, ()).await?;
    /// runtime.publish(Opened { by: "kim".into() }).await?;
    /// assert_eq!(visitor.result().await?, "kim");
    /// # Ok(()) }
    /// ```
    pub fn publish<E: Message>(&self, event: E) -> Publishing<E> {
        Publishing::new(Arc::clone(&self.shared), event)
    }

    /// The messages between instances that could not be delivered.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(Arc::clone(&self.shared))
    }

    /// The names of the activities that it was told about.
    pub fn activities(&self) -> impl Iterator<Item = &'static str> {
        self.activities.iter().copied()
    }

    /// Starts an instance; await what this gives, after setting what needs to be set. One that exists under the same id
    /// is given back as it is.
    pub fn start<As, W: IntoWorkflow<As>>(
        &self,
        _workflow: W,
        input: <W::Workflow as Workflow>::Input,
    ) -> Start<W::Workflow> {
        Start::new(Arc::clone(&self.shared), input)
    }

    /// Starts an instance of a workflow that is known by its type name, with a value that is read as its input: what can't
    /// be is refused, and nothing is stored.
    pub fn start_named(&self, workflow: impl Into<String>, input: impl Into<Untyped>) -> StartNamed {
        StartNamed::new(Arc::clone(&self.shared), workflow.into(), input.into())
    }

    /// The handle of an instance that was started before.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, 20).id("order-123").await?;
    /// let payment = runtime.handle(payment, "order-123")?;
    /// assert_eq!(payment.result().await?, 20);
    /// # Ok(()) }
    /// ```
    pub fn handle<As, W: IntoWorkflow<As>>(&self, _workflow: W, id: &str) -> Result<Handle<W::Workflow>> {
        Handle::of(&self.shared, id)
    }

    /// An instance that was started before, whatever its workflow is.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, 20).id("order-123").await?.result().await?;
    /// let instance = runtime.instance("order-123")?;
    /// println!("{} is {}", instance.id(), instance.status().await?.status);
    /// # Ok(()) }
    /// ```
    pub fn instance(&self, id: &str) -> Result<AnyHandle> {
        Ok(AnyHandle::new(Arc::clone(&self.shared), InstanceId::new(id)?))
    }

    /// Lists instances; await what this gives, after saying which.
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
    /// let page = runtime.list().workflow("payment").status(Status::Sleeping).await?;
    /// assert_eq!(page.rows[0].id, "order-123");
    /// # Ok(()) }
    /// ```
    pub fn list(&self) -> List {
        List::new(Arc::clone(&self.shared))
    }

    /// Does the same for everyone in a listing; say what, and start it. Order, limit and place of the listing make no
    /// difference: it is about all who match.
    pub fn batch(&self, list: List) -> Batch {
        Batch::new(Arc::clone(&self.shared), list)
    }

    /// A batch that was started before, by its id.
    pub fn batch_handle(&self, id: &str) -> Result<BatchHandle> {
        BatchHandle::of(&self.shared, id)
    }

    /// The changes of all instances that run in this process, from now on.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let mut changes = runtime.watch();
    /// runtime.start(payment, 20).id("order-123").await?;
    /// let change = changes.next().await?;
    /// assert!(change.is_some());
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.shared))
    }

    /// Keeps a promise: the instance that waits for it goes on with this value. The first decision holds; a later one is
    /// a [duplicate](Sent::Duplicate). If the instance has given the promise up before, the answer is
    /// [an error](crate::Error::TooLate), and if the answer is none, the instance does not give it up.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Sent, ok, workflow};
    /// # #[workflow] async fn signature(ctx: Ctx<Signature>) -> Result<bool> {
    /// #     let signed = ctx.promise::<bool>("signed")?;
    /// #     ctx.set("token", signed.token())?;
    /// #     ok(signed.await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(signature).open("memory:").await?;
    /// # let asked = runtime.start(signature, ()).id("contract-1").await?;
    /// # asked.reached(|status| status == everstep::Status::Waiting).await?;
    /// # let token: String = asked.query("token").await?.ok_or("it was published")?;
    /// // `token` came back from the person who was sent it.
    /// assert_eq!(runtime.resolve(&token, &true).await?, Sent::Accepted);
    /// assert!(asked.result().await?);
    /// # Ok(()) }
    /// ```
    pub async fn resolve<T: Serialize>(&self, token: impl ToString, value: &T) -> Result<Sent> {
        handle::resolve(&self.shared, &token.to_string(), value).await
    }

    /// Breaks a promise: the instance that waits for it goes on with an error.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn signature(ctx: Ctx<Signature>) -> Result<bool> {
    /// #     let signed = ctx.promise::<bool>("signed")?;
    /// #     ctx.set("token", signed.token())?;
    /// #     ok(signed.await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(signature).open("memory:").await?;
    /// # let asked = runtime.start(signature, ()).id("contract-1").await?;
    /// # asked.reached(|status| status == everstep::Status::Waiting).await?;
    /// # let token: String = asked.query("token").await?.ok_or("it was published")?;
    /// runtime.reject(&token, "nobody answered").await?;
    /// assert!(asked.result().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn reject(&self, token: impl ToString, reason: &str) -> Result<Sent> {
        handle::reject(&self.shared, &token.to_string(), reason).await
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// How many instances rest now, and on what. It reads the whole listing: for a person who asks, not for every minute.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>) -> Result<()> { ok(ctx.sleep("cooling off", "1d").await?) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, ()).await?.reached(|status| status == Status::Sleeping).await?;
    /// assert_eq!(runtime.resting().await?.later, 1);
    /// # Ok(()) }
    /// ```
    pub async fn resting(&self) -> Result<Resting> {
        handle::resting(Arc::clone(&self.shared)).await
    }

    /// What was found in the store when it was opened.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Stops. Nobody is activated any more and no attempt begins; those that run have as long as the configured grace
    /// to end, and what they come to is committed. What is not done by then is done after the next start. A second call
    /// waits for nothing.
    ///
    /// From then on handles can look (status, history, listings) and nothing else: whoever waits for something through
    /// one is told [`Error::Stopped`](crate::Error::Stopped), and so is whoever starts, sends or changes something. Streams of changes end. What
    /// was accepted before is gone on with when the store is next opened.
    ///
    /// When this returns, nothing of the runtime's own has the store any more. It stays locked until the runtime and all
    /// its handles, streams and pending calls are dropped: whoever opens it again, here or in another process, drops them
    /// first.
    ///
    /// Dropping the runtime instead loses nothing either, but running attempts are cancelled at once, and the store is
    /// free a moment later.
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
    /// runtime.stop().await;
    /// // What waits is told so; the instance carries on when the store is next opened.
    /// assert!(payment.result().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn stop(&self) {
        let again = self.shared.stopping.swap(true, Ordering::AcqRel);
        self.shared.admission.close();
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(courier) = self.shared.courier.get() {
            courier.stop();
        }
        let directory = &self.shared.directory;
        if !again {
            directory.ask_all_to_leave(Leave::Settled);
            let grace = self.shared.config.grace;
            if tokio::time::timeout(grace, directory.emptied()).await.is_err() {
                tracing::warn!(
                    residents = directory.residents(),
                    "the grace is over; attempts are cancelled"
                );
            }
        }
        directory.stop_all();
        self.shared.close_flight();
        self.shared.end();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.ended().await;
    }

    /// Starts what admits, feeds, rings, sweeps and carries.
    fn start_services(&mut self, system: &tokio::runtime::Handle) {
        let _here = system.enter();
        let shared = Arc::clone(&self.shared);
        let mut start = |task: tokio::task::JoinHandle<()>| self.tasks.push(task.abort_handle());
        let (weak, admission, idle) = (
            Arc::downgrade(&shared),
            Arc::clone(&shared.admission),
            Arc::clone(&shared.idle),
        );
        start(spawn::service("admission", move || {
            // Whoever was about to be let in when it panicked has a row in the store.
            admission.turn_all_away();
            actor::admit(weak.clone(), Arc::clone(&admission), Arc::clone(&idle))
        }));
        let (weak, admission) = (Arc::downgrade(&shared), Arc::clone(&shared.admission));
        start(spawn::service("feed", move || {
            actor::feed(weak.clone(), Arc::clone(&admission))
        }));
        let weak = Arc::downgrade(&shared);
        start(spawn::service("alarms", move || actor::ring(weak.clone())));
        if !shared.config.retention.keeps_everything() {
            let (store, clock) = (shared.store.clone(), Arc::clone(&shared.clock));
            let (retention, weak) = (shared.config.retention.clone(), Arc::downgrade(&shared));
            // Whoever watches hears of it as of any other change.
            let gone: Arc<scheduler::Gone> = Arc::new(move |instance: &InstanceId| {
                if let Some(shared) = weak.upgrade() {
                    shared.changes.tell(instance);
                }
            });
            start(spawn::service("retention", move || {
                scheduler::sweep(store.clone(), Arc::clone(&clock), retention.clone(), Arc::clone(&gone))
            }));
        }
        if let Ok(failure) = shared.store.failure() {
            let weak = Arc::downgrade(&shared);
            start(spawn::service("failure", move || {
                Shared::hear_of_failure(weak.clone(), Arc::clone(&failure))
            }));
        }
        let courier = Courier::start(&shared);
        shared.courier.set(courier).expect("the courier is started once");
        // What it woke before it was known here may have put something into an outbox.
        if let Some(courier) = shared.courier.get() {
            courier.nudge();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.admission.close();
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(courier) = self.shared.courier.get() {
            courier.stop();
        }
        self.shared.directory.stop_all();
        self.shared.close_flight();
        self.shared.end();
    }
}
