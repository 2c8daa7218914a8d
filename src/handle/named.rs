//! `runtime.start_named` and `instance.send_named`: for callers that know a workflow or a message by its name alone.

use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::actor::Shared;
use crate::duration::IntoDuration;
use crate::engine::{Accepted, Definition, Untyped};
use crate::handle::start::{Options, Starting};
use crate::handle::{AnyHandle, Crowded, Error, Existing, Result, Sent, look, send, size};
use crate::storage;
use crate::storage::payload::{Payload, PayloadError};
use crate::storage::record::{Content, Priority};

/// The start of an instance by the type name of its workflow; await it. It is durable when that returns.
///
/// ```
/// # use everstep::{Ctx, Result, Runtime, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// let payment = runtime.start_named("payment", serde_json::json!(20)).id("order-123").await?;
/// assert_eq!(payment.result_as::<u32>().await?, 20);
/// let refused = runtime.start_named("payment", serde_json::json!("much")).await.unwrap_err();
/// assert_eq!(refused.code(), "ES0418");
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until it is awaited"]
pub struct StartNamed {
    shared: Arc<Shared>,
    workflow: String,
    input: Untyped,
    options: Options,
    version: Option<u32>,
}

/// An instance that was started by the name of its workflow, now or before.
#[derive(Debug, Clone)]
pub struct StartedNamed {
    handle: AnyHandle,
    existed: bool,
    input_differs: bool,
}

impl StartNamed {
    pub(crate) fn new(shared: Arc<Shared>, workflow: String, input: Untyped) -> Self {
        let (options, version) = (Options::new(1), None);
        Self {
            shared,
            workflow,
            input,
            options,
            version,
        }
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

    /// With this version of the code instead of the newest.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// To be done within this time, from when it begins; after that it fails.
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
    pub fn after(mut self, duration: impl IntoDuration) -> Self {
        self.options.at = None;
        self.options.after = duration.into_duration().map(Some);
        self
    }

    /// With at most so many instances of this key running at once, as with [`Start::at_most`](crate::Start::at_most).
    pub fn at_most(mut self, limit: u32, key: impl Into<String>) -> Self {
        self.options.flow.at_most(limit, key);
        self
    }

    /// Before or after others that wait for the same place, as with [`Start::priority`](crate::Start::priority).
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.flow.priority = priority;
        self
    }

    /// What to do if so many wait already, as with [`Start::if_crowded`](crate::Start::if_crowded).
    pub fn if_crowded(mut self, waiting: usize, crowded: Crowded) -> Self {
        self.options.crowd = Some((waiting, crowded));
        self
    }

    /// What to do if the id is taken.
    pub fn if_exists(mut self, existing: Existing) -> Self {
        self.options.existing = existing;
        self
    }

    async fn run(self) -> Result<StartedNamed> {
        let Self {
            shared,
            workflow,
            input,
            mut options,
            version,
        } = self;
        let definition = definition(&shared, &workflow)?;
        let codecs = shared.store.codecs();
        let input = packed(definition.erased.input(&input, codecs), || {
            format!("the input of `{workflow}`")
        })?;
        options.version = version.unwrap_or(definition.version);
        let starting = Starting::new(&shared, &workflow, options, input)?;
        let (existed, input_differs) = starting.run().await?;
        let handle = AnyHandle::new(Arc::clone(&starting.shared), starting.instance);
        Ok(StartedNamed {
            handle,
            existed,
            input_differs,
        })
    }
}

impl IntoFuture for StartNamed {
    type Output = Result<StartedNamed>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl StartedNamed {
    /// Whether it was there before this start.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Whether it was there, and had been started with another input.
    pub fn input_differs(&self) -> bool {
        self.input_differs
    }

    /// The handle alone.
    pub fn into_handle(self) -> AnyHandle {
        self.handle
    }
}

impl Deref for StartedNamed {
    type Target = AnyHandle;

    fn deref(&self) -> &AnyHandle {
        &self.handle
    }
}

/// A message on its way that is known by its name; await it. It is durable when that returns.
#[must_use = "nothing is sent until it is awaited"]
pub struct SendNamed {
    handle: AnyHandle,
    name: String,
    value: Untyped,
    id: Option<String>,
}

impl AnyHandle {
    /// Sends a message by its name. A name that the workflow of the instance does not accept, and a value that is not
    /// such a message, are refused before anything is stored. This process has to know the workflow: it is what says
    /// what is accepted.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
    /// # #[workflow(accepts(Approval))]
    /// # async fn payment(ctx: Ctx<Payment>) -> Result<String> { ok(ctx.receive::<Approval>().await?.by) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # runtime.start(payment, ()).id("order-123").await?;
    /// let order = runtime.instance("order-123")?;
    /// let refused = order.send_named("Refund", serde_json::json!({ "by": "kim" })).await.unwrap_err();
    /// assert_eq!(refused.code(), "ES0417");
    /// let refused = order.send_named("Approval", serde_json::json!({ "from": "kim" })).await.unwrap_err();
    /// assert_eq!(refused.code(), "ES0418");
    /// order.send_named("Approval", serde_json::json!({ "by": "kim" })).id("from-kim").await?;
    /// assert_eq!(order.result_as::<String>().await?, "kim");
    /// # Ok(()) }
    /// ```
    pub fn send_named(&self, name: impl Into<String>, value: impl Into<Untyped>) -> SendNamed {
        SendNamed {
            handle: self.clone(),
            name: name.into(),
            value: value.into(),
            id: None,
        }
    }
}

impl SendNamed {
    /// Under this id: a second message with the same one is a duplicate, and is not delivered. Without, every send is
    /// a message of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    async fn run(self) -> Result<Sent> {
        let Self {
            handle,
            name,
            value,
            id,
        } = self;
        let shared = &handle.shared;
        let id = send::message_id(shared, id)?;
        let workflow = look::existing(shared, &handle.instance)?.origin.workflow;
        let payload = message(shared, &workflow, &name, &value)?;
        size::check_message(shared, &workflow, &name, &payload)?;
        let message = send::from_outside(shared, id, Content::Told { name, payload });
        Ok(send::deliver(shared, &handle.instance, &message).await?.into())
    }
}

impl IntoFuture for SendNamed {
    type Output = Result<Sent>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A value as a message of this name to an instance of this workflow.
pub(super) fn message(shared: &Shared, workflow: &str, name: &str, value: &Untyped) -> Result<Payload> {
    let accepted = accepted(shared, workflow, name)?;
    packed(accepted.pack(value, shared.store.codecs()), || {
        format!("the message `{name}`")
    })
}

/// A message of this name, if instances of this workflow accept it.
pub(super) fn accepted<'s>(shared: &'s Shared, workflow: &str, name: &str) -> Result<&'s Accepted> {
    let definition = definition(shared, workflow)?;
    let accepted = definition.accepted.iter().find(|accepted| accepted.name() == name);
    accepted.ok_or_else(|| Error::NotAccepted {
        workflow: workflow.to_owned(),
        name: name.to_owned(),
        accepted: definition.accepted.iter().map(Accepted::name).collect(),
    })
}

/// A workflow that this process knows. What the runtime itself is made of is not for callers.
fn definition<'s>(shared: &'s Shared, workflow: &str) -> Result<&'s Definition> {
    let known = shared.definitions.get(workflow).filter(|_| !workflow.starts_with("__"));
    known.ok_or_else(|| Error::Unregistered(workflow.to_owned()))
}

fn packed(packed: Result<Result<Payload, PayloadError>, String>, what: impl FnOnce() -> String) -> Result<Payload> {
    let packed = packed.map_err(|why| Error::Undecodable { what: what(), why })?;
    Ok(packed.map_err(storage::Error::from)?)
}
