//! What callers hold.

mod error;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::actor::Shared;
use crate::engine::{Accepts, Message, Workflow};
use crate::ids::{InstanceId, MessageId};
use crate::storage::key::{Local, Meta};
use crate::storage::record::{self, Failure, Output, State, Status};
use crate::storage::{self, Commit, Refusal};

pub use error::Error;
pub(crate) use error::Result;

/// One instance of a workflow, as its callers see it. Cheap to clone.
pub struct Handle<W> {
    shared: Arc<Shared>,
    instance: InstanceId,
    workflow: PhantomData<fn() -> W>,
}

/// What became of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is in the inbox.
    Accepted,
    /// One with the same id was accepted before.
    Duplicate,
}

impl<W: Workflow> Handle<W> {
    pub(crate) fn new(shared: Arc<Shared>, instance: InstanceId) -> Self {
        Self {
            shared,
            instance,
            workflow: PhantomData,
        }
    }

    /// The id of the instance.
    pub fn id(&self) -> &InstanceId {
        &self.instance
    }

    /// Sends a message. It is durable when this returns; a second one with the same id is a duplicate.
    pub async fn send<M: Message>(&self, id: MessageId, message: &M) -> Result<Sent>
    where
        W: Accepts<M>,
    {
        let store = &self.shared.store;
        let namespace = store.namespace(&self.instance);
        let message = record::Message {
            name: M::NAME.to_owned(),
            id,
            payload: store.codecs().pack(message).map_err(storage::Error::from)?,
            sent_at_ms: self.shared.clock.now_ms(),
        };
        let shard = namespace.shard();
        let pending = store.submit_delivery(shard, |arrivals| {
            let mut commit = Commit::new(shard);
            commit.deliver(&namespace, arrivals.next_place(), &message);
            commit
        });
        match pending.await?.durable().await {
            Ok(_) => {
                self.shared.directory.wake(&self.instance);
                Ok(Sent::Accepted)
            }
            Err(storage::Error::Refused(Refusal::Duplicate(_))) => Ok(Sent::Duplicate),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the instance is in its life.
    pub async fn status(&self) -> Result<Status> {
        let namespace = self.shared.store.namespace(&self.instance);
        let snapshot = self.shared.store.snapshot(namespace.shard())?;
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
        state
            .map(|state| state.status)
            .ok_or_else(|| Error::Unknown(self.instance.clone()))
    }

    /// Waits until the instance has a status that is wanted.
    pub async fn reached(&self, wanted: impl Fn(Status) -> bool + Send) -> Result<Status> {
        let changes = self.shared.changes.of(&self.instance);
        let status = loop {
            let changed = changes.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let status = self.status().await?;
            if wanted(status) {
                break status;
            }
            changed.await;
        };
        drop(changes);
        self.shared.changes.forget(&self.instance);
        Ok(status)
    }

    /// Waits for the end of the instance, also across restarts, and gives what it returned.
    pub async fn result(&self) -> Result<W::Output> {
        self.reached(Status::is_terminal).await?;
        let store = &self.shared.store;
        let namespace = store.namespace(&self.instance);
        let snapshot = store.snapshot(namespace.shard())?;
        if let Some(Output(payload)) = namespace.get(&*snapshot, &Local::Meta(Meta::Output))? {
            return Ok(store.codecs().unpack(&payload).map_err(storage::Error::from)?);
        }
        let failure: Option<Failure> = namespace.get(&*snapshot, &Local::Meta(Meta::Failure))?;
        let lost = || storage::Error::Corrupt(format!("instance {} ended without a word", self.instance));
        Err(Error::Failed(failure.ok_or_else(lost)?))
    }
}

impl<W> Clone for Handle<W> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            instance: self.instance.clone(),
            workflow: PhantomData,
        }
    }
}

impl<W> std::fmt::Debug for Handle<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}
