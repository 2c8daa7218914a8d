//! What a runtime is put together from.

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use super::Runtime;
use super::threads::Threads;
use crate::actor::{self, Observers, Shared};
use crate::chance::{Chance, SystemChance};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, InvalidConfig};
use crate::engine::debounce::Debounce;
use crate::engine::schedule::Schedule;
use crate::engine::topic::Topic;
use crate::engine::{Activity, Definition, Incident, IntoActivity, IntoWorkflow, Lifecycle};
use crate::handle::{self, Error, Result};
use crate::ids::RESERVED;
use crate::limits::{BLOCKING_THREADS_MAX, NAME_BYTES_MAX, STORE_WAITS};
use crate::spawn;
use crate::storage::payload::{Codec, Codecs};
use crate::storage::{self, OpenOptions, Store};

/// Gathers what a runtime needs before it opens.
#[derive(Clone, Default)]
pub struct Builder {
    pub(super) definitions: HashMap<&'static str, Definition>,
    /// The types that these names stand for.
    types: HashMap<&'static str, TypeId>,
    /// Names that stand for more than one.
    ambiguous: BTreeSet<&'static str>,
    activities: BTreeSet<&'static str>,
    observers: Observers,
    pub(super) codecs: Codecs,
    pub(super) config: Config,
}

impl Builder {
    /// Adds a workflow that this process can run. A type name stands for one workflow: two of the same name are refused
    /// when the runtime opens.
    #[must_use]
    pub fn workflow<As, W: IntoWorkflow<As>>(mut self, _workflow: W) -> Self {
        let definition = Definition::of::<W::Workflow>();
        let (name, found) = (definition.name, TypeId::of::<W::Workflow>());
        if self.types.insert(name, found).is_some_and(|before| before != found) {
            self.ambiguous.insert(name);
        }
        self.definitions.insert(name, definition);
        self
    }

    /// Has everything that users store (inputs, results, messages, state) go through a codec on its way to the disk and
    /// back: to encrypt it, or to make it smaller. What was stored before, plain or with another key, stays readable as
    /// long as the codec reads it; the ids of instances, tags, and the names of steps do not go through it.
    ///
    /// ```
    /// use everstep::storage::payload::{Codec, KeyId, Payload, PayloadError};
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, card: String) -> Result<usize> { ok(card.len()) }
    ///
    /// /// Stands for a cipher that authenticates what it encrypts.
    /// #[derive(Debug)]
    /// struct Vault;
    ///
    /// impl Codec for Vault {
    ///     fn encode(&self, plain: Vec<u8>) -> Result<Payload, PayloadError> {
    ///         let bytes = plain.into_iter().map(|byte| byte ^ 0x55).collect();
    ///         Ok(Payload { key_id: KeyId(1), bytes })
    ///     }
    ///
    ///     fn decode(&self, key_id: KeyId, stored: &[u8]) -> Result<Vec<u8>, PayloadError> {
    ///         match key_id {
    ///             KeyId(1) => Ok(stored.iter().map(|byte| byte ^ 0x55).collect()),
    ///             unknown => Err(PayloadError::KeyUnknown(unknown)),
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(payment).codec(Vault).open("memory:").await?;
    /// assert_eq!(runtime.start(payment, "4711".to_owned()).await?.result().await?, 4);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codecs = Codecs::through(Arc::new(codec));
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
    /// replay. It is called in the task that made it durable and must not block. Different tasks start an instance and end
    /// it: of one that ends at once, the end may be heard before the start.
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
    /// let heard = heard.lock().unwrap();
    /// assert_eq!(heard.len(), 2);
    /// assert!(heard.contains(&Moment::Started) && heard.contains(&Moment::Ended(Status::Completed)));
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
            .codecs(self.codecs.clone())
            .shards(self.config.shards)
            .inbox_max(self.config.inbox_max)
            .inbox_bytes_max(self.config.inbox_bytes_max);
        let store = open_store(&options, url).await?;
        let every = self.config.poll_warn;
        let threads = self.config.workers.unwrap_or_else(spawn::cores);
        let blocking = self.config.attempts_max.min(BLOCKING_THREADS_MAX);
        let mut threads = Threads::start(threads, blocking)?;
        let mut runtime = self
            .assemble(store, threads.handles(), clock, Arc::new(SystemChance))
            .await?;
        threads.watch(&runtime.shared, every)?;
        runtime.threads = Mutex::new(threads);
        Ok(runtime)
    }

    /// Says everything that is wrong with the configuration, with workflows, and with what they change of it.
    fn check(&self) -> Result<()> {
        let mut problems = self
            .config
            .check()
            .err()
            .map_or_else(Vec::new, |invalid| invalid.problems);
        for definition in self.definitions.values() {
            let of = format!(" of `{}`", definition.name);
            definition.bounds(self.config.bounds).check(&of, &mut |holds, problem| {
                // What is wrong for all has been said.
                if !holds && !problems.contains(&problem.replace(&of, "")) {
                    problems.push(problem);
                }
            });
        }
        for name in self.definitions.keys().filter(|name| name.starts_with(RESERVED)) {
            problems.push(format!(
                "a workflow is called `{name}`: names that begin with `{RESERVED}` are the runtime's own"
            ));
        }
        for name in self
            .definitions
            .keys()
            .filter(|name| !(1..=NAME_BYTES_MAX).contains(&name.len()))
        {
            let length = name.len();
            problems.push(format!(
                "the name of a workflow has 1 to {NAME_BYTES_MAX} bytes, one has {length}: `{name}`"
            ));
        }
        for definition in self.definitions.values() {
            if let Some(invalid) = &definition.policy.invalid {
                problems.push(format!("the policy of `{}`: {invalid}", definition.name));
            }
        }
        for name in &self.ambiguous {
            problems.push(format!(
                "two workflows are called `{name}`: give one of them another name"
            ));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            problems.sort();
            Err(InvalidConfig::new(problems).into())
        }
    }

    /// Puts the rooms together around an open store.
    pub(super) async fn assemble(
        mut self,
        store: Store,
        (user_code, system): (tokio::runtime::Handle, tokio::runtime::Handle),
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
            threads: Mutex::default(),
        };
        runtime.start_services(&system);
        Ok(runtime)
    }
}

/// Opens the store. A runtime of this process that was dropped a moment ago lets go of it when the last of its tasks
/// is gone, which is worth waiting for; another process is not.
async fn open_store(options: &OpenOptions, url: &str) -> Result<Store> {
    let (most, wait) = STORE_WAITS;
    let mut waits = 0;
    loop {
        let (options, url) = (options.clone(), url.to_owned());
        let opened = spawn::blocking(move || options.open(&url)).await;
        match opened.map_err(|error| Error::Start(error.to_string()))? {
            Err(storage::Error::Locked { pid: Some(pid), .. }) if pid == std::process::id() && waits < most => {
                waits += 1;
                tokio::time::sleep(wait).await;
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
