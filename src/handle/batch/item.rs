//! One instance of a batch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::actor::Shared;
use crate::engine::{self, Untyped};
use crate::handle::batch::plan::{Came, Operation, Value};
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Error, Result, named, operate, send};
use crate::ids::{InstanceId, MessageId};
use crate::storage::record::{Content, Origin, Secret, Status};

/// An instance, as it was when the batch came to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) id: String,
    /// Tells it from another instance that has taken the id since.
    mark: u64,
    run: u32,
    status: Status,
    paused: bool,
}

impl Item {
    pub(super) fn new(id: String, seen: &Seen) -> Self {
        Self {
            id,
            mark: mark(&seen.origin),
            run: seen.state.run,
            status: seen.state.status,
            paused: seen.state.paused,
        }
    }

    /// One that can't be read: that is told when its turn comes.
    pub(super) fn unreadable(id: String, status: Status) -> Self {
        Self {
            id,
            mark: 0,
            run: 0,
            status,
            paused: false,
        }
    }

    /// Whether this is the instance that was meant. Its run may be another: one that begins anew by itself is the same
    /// to whoever wants it to end.
    fn is(&self, seen: &Seen) -> bool {
        self.mark == mark(&seen.origin)
    }

    /// Whether this is the run that was meant. What it came to is what a retry or a deletion is about.
    fn is_run(&self, seen: &Seen) -> bool {
        self.is(seen) && self.run == seen.state.run
    }

    /// Whether it got to this end since the batch came to it.
    fn became(&self, now: Status, end: Status) -> Came {
        came(now == end && !self.status.is_terminal())
    }

    /// Does it. Whoever does it again finds that it was done.
    pub(super) async fn operate(&self, shared: &Arc<Shared>, secret: Secret, operation: &Operation) -> Result<Came> {
        let instance = InstanceId::internal(self.id.as_str())?;
        let handle = AnyHandle::new(Arc::clone(shared), instance);
        let gone = || match operation {
            Operation::Delete => came(self.status.is_terminal()),
            _ => Came::Unchanged,
        };
        let Some(seen) = look::instance(shared, handle.id())? else {
            return Ok(gone());
        };
        if !self.is(&seen) {
            return Ok(gone());
        }
        let now = Now {
            status: seen.state.status,
            paused: seen.state.paused,
            has_not_begun: seen.has_not_begun(shared, handle.id())?,
            workflow: seen.origin.workflow.clone(),
        };
        drop(seen);
        let operated = match operation {
            Operation::Cancel { reason } => self.cancel(&handle, &now, secret, reason).await,
            Operation::Pause => self.set_paused(&handle, &now, secret, true).await,
            Operation::Resume => self.set_paused(&handle, &now, secret, false).await,
            Operation::Send { name, value } => {
                let value = untyped(value)?;
                let payload = named::message(shared, &now.workflow, name, &value)?;
                let name = name.clone();
                self.tell(&handle, secret, Content::Told { name, payload }, |_| Came::Unchanged)
                    .await
            }
            Operation::Terminate { reason } => {
                let item = self.clone();
                let terminated = handle.terminate_if(reason.clone(), move |seen| item.is(seen)).await;
                terminated.map(|operated| match operated {
                    Some(operated) if operated.is_done() => Came::Done,
                    Some(operated) => self.became(operated.now, Status::Terminated),
                    None => Came::Unchanged,
                })
            }
            Operation::Retry { .. } => {
                let again = operation.applies_to(self.status);
                let item = self.clone();
                let retried = handle.retry_if(move |seen| again && item.is_run(seen)).await;
                // One that has begun another run since was retried, by this batch before a crash or by somebody else.
                retried.map(|operated| came(operated.map_or(again, |operated| operated.is_done())))
            }
            Operation::Delete => {
                let item = self.clone();
                match handle.delete_if(move |seen| item.is_run(seen)).await {
                    Err(Error::NotFinished { .. }) => Ok(Came::Unchanged),
                    deleted => deleted.map(came),
                }
            }
        };
        match operated {
            Err(Error::Unknown(_) | Error::Deleted(_)) => Ok(gone()),
            operated => operated,
        }
    }

    async fn cancel(&self, handle: &AnyHandle, now: &Now, secret: Secret, reason: &str) -> Result<Came> {
        if now.has_not_begun
            && let Some(cancelled) = handle.cancel_before_the_beginning(reason).await?
        {
            return Ok(came(cancelled.is_done()));
        }
        let reason = reason.to_owned();
        let ended = |status| self.became(status, Status::Cancelled);
        self.tell(handle, secret, Content::Cancel { reason }, ended).await
    }

    async fn set_paused(&self, handle: &AnyHandle, now: &Now, secret: Secret, paused: bool) -> Result<Came> {
        if now.status.is_terminal() {
            return Ok(Came::Unchanged);
        }
        if now.paused == paused {
            return Ok(came(self.paused != paused));
        }
        if operate::is_held(now.status) || now.has_not_begun {
            return Ok(came(handle.pause_alone(paused).await?.is_done()));
        }
        let content = if paused { Content::Pause } else { Content::Resume };
        self.tell(handle, secret, content, |_| Came::Unchanged).await
    }

    /// Puts a message into its inbox, once for this batch. That it was taken is not waited for: whoever is to take it may
    /// have to wait for the place in memory that the batch has.
    async fn tell(
        &self,
        handle: &AnyHandle,
        secret: Secret,
        content: Content,
        ended: impl FnOnce(Status) -> Came,
    ) -> Result<Came> {
        let message = send::from_outside(&handle.shared, self.message_id(secret), content);
        match send::deliver(&handle.shared, handle.id(), &message).await {
            Ok(_) => Ok(Came::Done),
            Err(Error::Finished { status, .. }) => Ok(ended(status)),
            Err(error) => Err(error),
        }
    }

    /// The id of the one message that the instance gets from a batch.
    fn message_id(&self, secret: Secret) -> MessageId {
        let half = secret.half(&format!("batch {:016x}", self.mark));
        MessageId::new(format!("{:032x}", u128::from_be_bytes(half))).expect("hexadecimal digits are an id")
    }
}

/// An instance, as it is when it is operated on.
struct Now {
    status: Status,
    paused: bool,
    has_not_begun: bool,
    workflow: String,
}

fn came(done: bool) -> Came {
    if done { Came::Done } else { Came::Unchanged }
}

/// What tells an instance from every other. The secret itself is nobody's business.
fn mark(origin: &Origin) -> u64 {
    xxh3_64(engine::derived_id(origin.secret, 0, "mark").as_bytes())
}

fn untyped(value: &Value) -> Result<Untyped> {
    Ok(match value {
        Value::Json(text) => {
            let value: serde_json::Value = serde_json::from_str(text).map_err(|error| Error::Undecodable {
                what: "JSON".into(),
                why: error.to_string(),
            })?;
            value.into()
        }
        Value::Cbor(bytes) => Untyped::Cbor(bytes.clone()),
    })
}
