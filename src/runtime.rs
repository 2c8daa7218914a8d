//! The composition root: puts the rooms together, starts and stops them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::task::AbortHandle;

use crate::actor::{self, Courier, Leave, Observers, Recovery, Shared, Woken};
use crate::chance::{Chance, SystemChance};
use crate::clock::{Clock, Stopwatch, SystemClock};
use crate::config::{Config, InvalidConfig};
use crate::engine::debounce::Debounce;
use crate::engine::schedule::Schedule;
use crate::engine::topic::Topic;
use crate::engine::{
    Activity, Definition, Incident, IntoActivity, IntoWorkflow, Lifecycle, Message, Untyped, Workflow,
};
use crate::handle::{
    self, AnyHandle, Batch, BatchHandle, DeadLetters, Error, Handle, List, Publishing, Result, Sent, Start, StartNamed,
    Watch,
};
use crate::ids::InstanceId;
use crate::scheduler::{self, Alarms};
use crate::spawn;
use crate::storage::{self, OpenOptions, Store};

mod schedules;
#[cfg(feature = "testing")]
mod simulated;
mod stats;
#[cfg(feature = "testing")]
pub use simulated::Simulated;
pub use stats::RuntimeStats;

/// A running Everstep: workflows, and the store that their instances live in.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    activities: BTreeSet<&'static str>,
    recovery: Recovery,
    /// When the last snapshot of it was made, and how many commits there were.
    snapshot: Mutex<Option<(Stopwatch, u64)>>,
    /// What admits, feeds and sweeps; ended with the runtime.
    tasks: Vec<AbortHandle>,
    /// The threads of user code. A simulation has none: there everything runs in the caller's thread.
    _workers: Workers,
    /// The watchdog ends when this is dropped.
    _watchdog: Option<mpsc::Sender<()>>,
}

/// Gathers what a runtime needs before it opens.
#[derive(Clone, Default)]
pub struct Builder {
    definitions: HashMap<&'static str, Definition>,
    activities: BTreeSet<&'static str>,
    observers: Observers,
    config: Config,
}

impl Builder {
    /// Adds a workflow that this process can run.
    #[must_use]
    pub fn workflow<As, W: IntoWorkflow<As>>(mut self, _workflow: W) -> Self {
        let definition = Definition::of::<W::Workflow>();
        self.definitions.insert(definition.name, definition);
        self
    }

    /// Adds an activity that workflows of this process run. Those that are not added run as well; what is added can be
    /// asked for with [`Runtime::activities`].
    #[must_use]
    pub fn activity<As, A: IntoActivity<As>>(mut self, _activity: A) -> Self {
        self.activities.insert(A::Activity::NAME);
        self
    }

    /// Has this called for each failure: of an attempt that is made again, of a step for good, of a workflow. Once for
    /// each, when it is durable, and not again in replay. It is called in the task of the instance and must not block.
    /// Several observers are called in the order in which they were added.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # use std::sync::{Arc, Mutex};
    /// #[workflow]
    /// async fn payment(ctx: Ctx<Payment>) -> Result<u32> {
    ///     let charge = || async { Err::<u32, _>(std::io::Error::other("no money")) };
    ///     ok(ctx.step("charge", charge).retries(0).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let heard = Arc::new(Mutex::new(Vec::new()));
    /// let hearing = Arc::clone(&heard);
    /// let runtime = Runtime::builder()
    ///     .workflow(payment)
    ///     .on_error(move |incident| hearing.lock().unwrap().push(incident.consequence))
    ///     .open("memory:")
    ///     .await?;
    /// runtime.start(payment, ()).await?.result().await.unwrap_err();
    /// assert_eq!(heard.lock().unwrap().len(), 2, "of the step, and of the workflow");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_error(mut self, observer: impl Fn(&Incident) + Send + Sync + 'static) -> Self {
        self.observers.add(Arc::new(observer));
        self
    }

    /// Has this called when an instance starts, ends, or is put aside. Once for each, when it is durable, and not again in
    /// replay. It is called in the task that made it durable and must not block.
    ///
    /// ```
    /// # use everstep::{Ctx, Moment, Result, Runtime, ok, workflow};
    /// # use everstep::storage::record::Status;
    /// # use std::sync::{Arc, Mutex};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>) -> Result<u32> { ok(7) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let heard = Arc::new(Mutex::new(Vec::new()));
    /// let hearing = Arc::clone(&heard);
    /// let runtime = Runtime::builder()
    ///     .workflow(payment)
    ///     .on_lifecycle(move |lifecycle| hearing.lock().unwrap().push(lifecycle.moment))
    ///     .open("memory:")
    ///     .await?;
    /// runtime.start(payment, ()).await?.result().await?;
    /// # runtime.stop().await;
    /// assert_eq!(*heard.lock().unwrap(), [Moment::Started, Moment::Ended(Status::Completed)]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_lifecycle(mut self, observer: impl Fn(&Lifecycle) + Send + Sync + 'static) -> Self {
        self.observers.add_lifecycle(Arc::new(observer));
        self
    }

    /// Sets every knob that has another value than its default.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Opens the store and carries on with every instance that has something to do.
    pub async fn open(self, url: &str) -> Result<Runtime> {
        self.check()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let options = OpenOptions::new()
            .clock(Arc::clone(&clock))
            .shards(self.config.shards)
            .inbox_max(self.config.inbox_max);
        let store = open_store(&options, url, &*clock).await?;
        let every = self.config.poll_warn;
        let workers = spawn::workers(self.config.workers.unwrap_or_else(spawn::cores));
        let workers = workers.map_err(|error| Error::Start(error.to_string()))?;
        let user_code = workers.handle().clone();
        // Held from here on by somebody who may drop it: a runtime must not wait for its threads inside another one.
        let workers = Workers(Some(workers));
        let mut runtime = self.assemble(store, user_code, clock, Arc::new(SystemChance)).await?;
        runtime._workers = workers;
        let (alive, stop) = mpsc::channel();
        let shared = Arc::downgrade(&runtime.shared);
        let watching = spawn::thread("everstep-watchdog", move || actor::watch(&shared, every, &stop));
        watching.map_err(|error| Error::Start(error.to_string()))?;
        runtime._watchdog = Some(alive);
        Ok(runtime)
    }

    /// Says everything that is wrong with the configuration, and with what workflows change of it.
    fn check(&self) -> Result<()> {
        let mut problems = self
            .config
            .check()
            .err()
            .map_or_else(Vec::new, |InvalidConfig(problems)| problems);
        for definition in self.definitions.values() {
            let of = format!(" of `{}`", definition.name);
            definition.bounds(self.config.bounds).check(&of, &mut |holds, problem| {
                // What is wrong for all has been said.
                if !holds && !problems.contains(&problem.replace(&of, "")) {
                    problems.push(problem);
                }
            });
        }
        if problems.is_empty() {
            Ok(())
        } else {
            problems.sort();
            Err(InvalidConfig(problems).into())
        }
    }

    /// Puts the rooms together around an open store.
    async fn assemble(
        mut self,
        store: Store,
        user_code: tokio::runtime::Handle,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Runtime> {
        self.check()?;
        let (batch, runtime) = handle::batch_definition();
        let built_in = [
            Definition::of::<Topic>(),
            Definition::of::<Schedule>(),
            Definition::of::<Debounce>(),
            batch,
        ];
        for built_in in built_in {
            self.definitions.insert(built_in.name, built_in);
        }
        let (flight, flown) = store.flight()?;
        let shared = Shared::new(
            store,
            flight,
            user_code,
            (clock, chance),
            self.config,
            self.definitions,
            self.observers,
        );
        runtime
            .set(Arc::downgrade(&shared))
            .expect("the runtime is put together once");
        let recovery = actor::recover(&shared, flown).await?;
        let mut runtime = Runtime {
            shared,
            activities: self.activities,
            recovery,
            snapshot: Mutex::new(None),
            tasks: Vec::new(),
            _workers: Workers::default(),
            _watchdog: None,
        };
        runtime.start_alarms().await?;
        let weak = Arc::downgrade(&runtime.shared);
        let admit = actor::admit(weak.clone(), Arc::clone(&runtime.shared.admission));
        runtime.tasks.push(spawn::task(admit).abort_handle());
        runtime
            .tasks
            .push(spawn::task(actor::feed(weak, Arc::clone(&runtime.shared.admission))).abort_handle());
        let retention = runtime.shared.config.retention.clone();
        if !retention.keeps_everything() {
            let (store, clock) = (runtime.shared.store.clone(), Arc::clone(&runtime.shared.clock));
            let sweep = scheduler::sweep(store, clock, retention);
            runtime.tasks.push(spawn::task(sweep).abort_handle());
        }
        runtime.start_courier();
        Ok(runtime)
    }
}

/// Opens the store. A runtime of this process that was stopped a moment ago lets go of it when the last of its tasks
/// is gone, which is worth waiting for; another process is not.
async fn open_store(options: &OpenOptions, url: &str, clock: &dyn Clock) -> Result<Store> {
    const WAITS: u64 = 100;
    const WAIT_MS: u64 = 10;
    let mut waits = 0;
    loop {
        let (options, url) = (options.clone(), url.to_owned());
        let opened = spawn::blocking(move || options.open(&url)).await;
        match opened.map_err(|error| Error::Start(error.to_string()))? {
            Err(storage::Error::Locked { pid: Some(pid), .. }) if pid == std::process::id() && waits < WAITS => {
                waits += 1;
                clock.wait_until(clock.now_ms() + WAIT_MS).await;
            }
            opened => return Ok(opened?),
        }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("workflows", &self.definitions.keys())
            .field("activities", &self.activities)
            .field("observers", &self.observers)
            .field("config", &self.config)
            .finish()
    }
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
    pub fn handle<As, W: IntoWorkflow<As>>(&self, _workflow: W, id: &str) -> Result<Handle<W::Workflow>> {
        Handle::of(&self.shared, id)
    }

    /// An instance that was started before, whatever its workflow is.
    pub fn instance(&self, id: &str) -> Result<AnyHandle> {
        Ok(AnyHandle::new(Arc::clone(&self.shared), InstanceId::new(id)?))
    }

    /// Lists instances; await what this gives, after saying which.
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
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.shared))
    }

    /// Keeps a promise: the instance that waits for it goes on with this value. The first decision holds; a later one is
    /// a [duplicate](Sent::Duplicate). If the instance has given the promise up before, the answer is
    /// [an error](Error::TooLate), and if the answer is none, the instance does not give it up.
    pub async fn resolve<T: Serialize>(&self, token: impl ToString, value: &T) -> Result<Sent> {
        handle::resolve(&self.shared, &token.to_string(), value).await
    }

    /// Breaks a promise: the instance that waits for it goes on with an error.
    pub async fn reject(&self, token: impl ToString, reason: &str) -> Result<Sent> {
        handle::reject(&self.shared, &token.to_string(), reason).await
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// What was found in the store when it was opened.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Stops. Nobody is activated any more and no attempt begins; those that run have as long as the configured grace
    /// to end, and what they come to is committed. What is not done by then is done after the next start. A second call
    /// waits for nothing.
    ///
    /// Dropping the runtime instead loses nothing either, but running attempts are cancelled at once.
    pub async fn stop(&self) {
        let again = self.shared.stopping.swap(true, Ordering::AcqRel);
        self.shared.admission.close();
        if let Some(alarms) = self.shared.alarms.get() {
            alarms.stop().await;
        }
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
        self.shared.flight.clear();
    }

    fn start_courier(&self) {
        let courier = Courier::start(&self.shared);
        self.shared.courier.set(courier).expect("the courier is started once");
    }

    async fn start_alarms(&self) -> Result<()> {
        let directory = Arc::downgrade(&self.shared);
        let wake = Arc::new(move |instance: &InstanceId| {
            directory
                .upgrade()
                .is_none_or(|shared| shared.directory.try_wake(instance) == Woken::Told)
        });
        let (store, clock) = (self.shared.store.clone(), Arc::clone(&self.shared.clock));
        let started = Alarms::start(store, clock, wake, Arc::clone(&self.shared.admission)).await;
        let alarms = started.map_err(|error| Error::Start(error.to_string()))?;
        self.shared.alarms.set(alarms).expect("the alarms are started once");
        Ok(())
    }
}

/// The threads of user code. They are told to end and not waited for: some of it may never end.
#[derive(Debug, Default)]
struct Workers(Option<tokio::runtime::Runtime>);

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(workers) = self.0.take() {
            workers.shutdown_background();
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
        if let Some(alarms) = self.shared.alarms.get() {
            alarms.kill();
        }
        self.shared.directory.stop_all();
        self.shared.flight.clear();
    }
}
