//! `runtime.start`: begins an instance, once.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::actor::{self, Shared};
use crate::clock::{Millis, Stopwatch};
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::{Definition, Workflow};
use crate::handle::exclusive::Decision;
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Error, Handle, Result, size, wait};
use crate::ids::InstanceId;
use crate::limits::{CROWD_MAX, TAG_BYTES_MAX, TAGS_MAX};
use crate::storage::key::Key;
use crate::storage::payload::Payload;
use crate::storage::record::{Flow, Origin, Priority, Secret};
use crate::storage::{self, Refusal};
use crate::telemetry;
use crate::ulid;

mod begun;
mod crowd;

use begun::Begun;
use crowd::Passed;

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

/// What can be set of a start, whether its types are known or not.
pub(super) struct Options {
    pub(super) id: Option<String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) version: u32,
    pub(super) deadline: std::result::Result<Option<Duration>, InvalidDuration>,
    pub(super) at: Option<SystemTime>,
    pub(super) after: std::result::Result<Option<Duration>, InvalidDuration>,
    pub(super) existing: Existing,
    pub(super) flow: Flow,
    pub(super) crowd: Option<(usize, Crowded)>,
}

impl Options {
    /// What is so if nothing is said.
    pub(super) fn new(version: u32) -> Self {
        Self {
            id: None,
            tags: BTreeMap::new(),
            version,
            deadline: Ok(None),
            at: None,
            after: Ok(None),
            existing: Existing::default(),
            flow: Flow::default(),
            crowd: None,
        }
    }
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
    /// number is 1 to [`CROWD_MAX`].
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

/// A start with its types taken off.
pub(super) struct Starting {
    pub(super) shared: Arc<Shared>,
    pub(super) instance: InstanceId,
    origin: Origin,
    input: Payload,
    begin_at_ms: Option<Millis>,
    existing: Existing,
    flow: Flow,
    crowd: Option<(usize, Crowded)>,
}

impl Starting {
    pub(super) fn new(shared: &Arc<Shared>, workflow: &str, options: Options, input: Payload) -> Result<Self> {
        if !shared.definitions.contains_key(workflow) {
            return Err(Error::Unregistered(workflow.to_owned()));
        }
        check_tags(&options.tags)?;
        check_flow(&options.flow)?;
        check_crowd(options.crowd)?;
        size::check_input(shared, workflow, &input)?;
        let instance = match &options.id {
            Some(id) => InstanceId::new(id.as_str())?,
            None => ulid::instance_id(workflow, &*shared.clock, &*shared.chance),
        };
        Self::under(shared, workflow, instance, options, input)
    }

    /// The same under an id that may be one of the runtime's own.
    pub(super) fn under(
        shared: &Arc<Shared>,
        workflow: &str,
        instance: InstanceId,
        options: Options,
        input: Payload,
    ) -> Result<Self> {
        let Some(definition) = shared.definitions.get(workflow) else {
            return Err(Error::Unregistered(workflow.to_owned()));
        };
        check_version(definition, options.version)?;
        let now = shared.clock.now_ms();
        let after = options.after?.map(|after| now.saturating_add(whole_ms(after)));
        let begin_at_ms = options.at.map(millis).or(after).filter(|at| *at > now);
        let begin = begin_at_ms.unwrap_or(now);
        let deadline = options
            .deadline?
            .map(|deadline| begin.saturating_add(whole_ms(deadline)));
        let mut origin = Origin::new(workflow, options.version, now, Secret::draw(&*shared.chance));
        origin.tags = options.tags.into_iter().collect();
        origin.deadline_at_ms = deadline.or_else(|| definition.policy.deadline_at_ms(begin));
        Ok(Self {
            shared: Arc::clone(shared),
            instance,
            origin,
            input,
            begin_at_ms,
            existing: options.existing,
            flow: options.flow,
            crowd: options.crowd,
        })
    }

    /// Starts, or finds what was started before: whether it existed, and whether with another input.
    pub(super) async fn run(&self) -> Result<(bool, bool)> {
        loop {
            wait::goes_on(&self.shared)?;
            // Counted among those who wait until it is to be seen there.
            let coming = match self.crowd {
                Some((waiting, crowded)) => crowd::pass(self, waiting, crowded).await?,
                None => None,
            };
            match self.begin().await {
                Ok(()) => {
                    coming.into_iter().for_each(Passed::came);
                    return Ok((false, false));
                }
                Err(Error::Storage(storage::Error::Refused(Refusal::Exists))) => {}
                Err(error) => return Err(error),
            }
            // One that was deleted since is no longer in the way.
            let Some(seen) = look::instance(&self.shared, &self.instance)? else {
                continue;
            };
            seen.expect_type(&self.instance, &self.origin.workflow)?;
            match self.existing {
                Existing::Refuse => return Err(Error::Exists(self.instance.clone())),
                Existing::NewRun if seen.state.status.is_terminal() => {
                    drop(seen);
                    if self.renew().await? {
                        coming.into_iter().for_each(Passed::came);
                        return Ok((false, false));
                    }
                }
                Existing::NewRun | Existing::Return => {
                    self.tell_of_what_is_there(&seen)?;
                    self.begun().nudge_courier(&self.shared);
                    return Ok((true, self.differs(&seen)?));
                }
            }
        }
    }

    /// Whoever started the instance may not have known that it was, and told nobody. One that has nothing to do is left
    /// alone: however often it is started again, it sleeps on.
    fn tell_of_what_is_there(&self, seen: &Seen) -> Result<()> {
        let shard = self.shared.store.shard_of(&self.instance);
        let runnable = Key::Runnable(shard, self.instance.as_str().into()).pack();
        if seen.snapshot.get(&runnable).map_err(storage::Error::from)?.is_some() {
            self.shared.directory.wake(&self.instance);
        } else if let (Some(at), Some(alarms)) = (seen.state.alarm_at_ms, self.shared.alarms.get()) {
            alarms.armed(at, &self.instance);
        }
        Ok(())
    }

    /// Writes what there has to be for the instance to exist, if it does not yet, and tells whom it concerns.
    async fn begin(&self) -> Result<()> {
        let Self {
            shared,
            instance,
            origin,
            flow,
            begin_at_ms,
            ..
        } = self;
        let (store, input) = (&shared.store, self.input.clone());
        if flow.gate.is_some() && begin_at_ms.is_none() {
            let starting = store.submit_delivery(store.shard_of(instance), |arrivals| {
                actor::start_at_gate_commit(store, instance, origin, input, flow, || arrivals.next_place())
            });
            actor::handed_over(shared, starting.await?, self.begun().telling()).await?;
            return Ok(());
        }
        let watch = Stopwatch::start();
        let mut commit = actor::start_commit(store, instance, origin, input, *begin_at_ms);
        if *flow != Flow::default() {
            actor::set_flow(&mut commit, &store.namespace(instance), flow);
        }
        let begun = actor::handed_over(shared, store.submit(commit).await?, self.begun().telling()).await;
        telemetry::committed(watch.elapsed());
        begun?;
        Ok(())
    }

    /// Begins another run. Tells whether it still had ended.
    async fn renew(&self) -> Result<bool> {
        let handle = AnyHandle::new(Arc::clone(&self.shared), self.instance.clone());
        let (wanted, input, flow) = (self.origin.clone(), self.input.clone(), self.flow.clone());
        let (begun, begin_at_ms) = (self.begun(), self.begin_at_ms);
        let renewed = handle.alone(move |handle, seen, now| {
            if !seen.state.status.is_terminal() {
                return Ok(Decision::Leave(false));
            }
            // Where its listing row lies and what its ids are made of stays.
            let origin = Origin {
                created_at_ms: seen.origin.created_at_ms,
                secret: seen.origin.secret,
                ..wanted.clone()
            };
            let (input, times) = (input.clone(), (now, begin_at_ms));
            let namespace = handle.namespace();
            let mut commit = actor::new_run_commit(&namespace, &*seen.snapshot, &origin, &seen.state, input, times)?;
            actor::set_flow(&mut commit, &namespace, &flow);
            Ok(Decision::write(commit, true).then(begun.clone().telling()))
        });
        match renewed.await {
            Err(Error::Unknown(_) | Error::Deleted(_)) => Ok(false),
            renewed => renewed,
        }
    }

    fn begun(&self) -> Begun {
        Begun {
            instance: self.instance.clone(),
            workflow: self.origin.workflow.clone(),
            begin_at_ms: self.begin_at_ms,
            at_gate: self.flow.gate.is_some(),
            deadline_at_ms: self.origin.deadline_at_ms,
        }
    }

    fn differs(&self, seen: &Seen) -> Result<bool> {
        let codecs = self.shared.store.codecs();
        let (ours, theirs) = (codecs.cbor(&self.input), codecs.cbor(&seen.input));
        Ok(ours.map_err(storage::Error::from)? != theirs.map_err(storage::Error::from)?)
    }
}

pub(super) fn check_flow(flow: &Flow) -> Result<()> {
    flow.check().map_err(|invalid| Error::Gate(invalid.to_string()))
}

fn check_crowd(crowd: Option<(usize, Crowded)>) -> Result<()> {
    match crowd {
        Some((waiting, _)) if !(1..=CROWD_MAX).contains(&waiting) => Err(Error::Gate(format!(
            "the number of those who may wait is 1 to {CROWD_MAX}, this one is {waiting}"
        ))),
        _ => Ok(()),
    }
}

/// A version that this process has no code of can't be started with.
pub(super) fn check_version(definition: &Definition, version: u32) -> Result<()> {
    if version > definition.version {
        return Err(Error::Version {
            workflow: definition.name.to_owned(),
            version,
            newest: definition.version,
        });
    }
    Ok(())
}

pub(super) fn check_tags(tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(Error::Tags(format!(
            "an instance has at most {TAGS_MAX} tags, these are {}",
            tags.len()
        )));
    }
    let long = tags
        .iter()
        .flat_map(|(key, value)| [key, value])
        .find(|text| text.len() > TAG_BYTES_MAX);
    if let Some(long) = long {
        let length = long.len();
        return Err(Error::Tags(format!(
            "the key and the value of a tag have at most {TAG_BYTES_MAX} bytes, this one has {length}"
        )));
    }
    Ok(())
}

pub(super) fn millis(time: SystemTime) -> Millis {
    time.duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

pub(super) fn whole_ms(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
