//! An instance of any workflow.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::actor::Shared;
use crate::engine::Workflow;
use crate::handle::wait::{self, Waiting};
use crate::handle::{Description, Error, Handle, History, Result, Stream, describe, history, look};
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
    pub async fn status(&self) -> Result<Description> {
        let seen = look::existing(&self.shared, &self.instance)?;
        describe::describe(&self.shared, &self.instance, &seen)
    }

    /// What the instance has done in this run, and what it is doing. Read from the store, like the status.
    pub async fn history(&self) -> Result<History> {
        let seen = look::existing(&self.shared, &self.instance)?;
        history::history(&self.shared, &self.instance, &seen)
    }

    /// What the code has published under a name, if it has.
    pub async fn query<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let seen = look::existing(&self.shared, &self.instance)?;
        let namespace = self.shared.store.namespace(&self.instance);
        let published: Option<Published> = namespace.get(&*seen.snapshot, &Local::Published(name.into()))?;
        published.map(|Published(payload)| self.unpack(&payload)).transpose()
    }

    /// What the code has emitted and will emit, from the beginning; [`Stream::after`] takes up where one left off.
    pub fn stream<T: DeserializeOwned>(&self) -> Stream<T> {
        Stream::new(self.clone())
    }

    /// Waits until the instance has a status that is wanted.
    pub async fn reached(&self, wanted: impl Fn(Status) -> bool + Send) -> Result<Status> {
        wait::until(&self.shared, &self.instance, || {
            let status = look::existing(&self.shared, &self.instance)?.state.status;
            Ok(wanted(status).then_some(status))
        })
        .await
    }

    /// Waits for the end of the instance, also across restarts, and gives what it returned. Any number may wait. An
    /// instance that did not complete gives [`Error::Failed`], which says how it ended.
    pub fn result_as<T: DeserializeOwned + Send + 'static>(&self) -> Waiting<T> {
        let this = self.clone();
        Waiting::new(&self.shared, async move {
            let ended = wait::until_end(&this.shared, &this.instance, || this.outcome()).await?;
            this.unpack(&ended.map_err(Error::Failed)?)
        })
    }

    /// How the instance ended, if it has.
    pub(crate) fn outcome(&self) -> Result<Option<std::result::Result<Payload, Failure>>> {
        let seen = look::existing(&self.shared, &self.instance)?;
        if !seen.state.status.is_terminal() {
            return Ok(None);
        }
        let namespace = self.shared.store.namespace(&self.instance);
        if let Some(Output(payload)) = namespace.get(&*seen.snapshot, &Local::Meta(Meta::Output))? {
            return Ok(Some(Ok(payload)));
        }
        let failure: Option<Failure> = namespace.get(&*seen.snapshot, &Local::Meta(Meta::Failure))?;
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
