//! `handle.send`: puts a message into the inbox of an instance, once.

use std::future::IntoFuture;
use std::pin::Pin;

use crate::actor::Shared;
use crate::engine::{Accepts, Message, Workflow};
use crate::handle::{Error, Handle, Result, look};
use crate::ids::{InstanceId, MessageId};
use crate::storage::key::Arrival;
use crate::storage::record::{self, Content};
use crate::storage::{self, Commit, Refusal};
use crate::ulid;

/// What became of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is in the inbox.
    Accepted,
    /// One with the same id was accepted before.
    Duplicate,
}

/// A message on its way; await it. It is durable when that returns.
///
/// ```
/// # use everstep::{Ctx, Message, Result, Runtime, Sent, ok, workflow};
/// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
/// # #[workflow(accepts(Approval))]
/// # async fn payment(ctx: Ctx<Payment>) -> Result<String> { ok(ctx.receive::<Approval>().await?.by) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// let payment = runtime.start(payment, ()).await?;
/// let sent = payment.send(Approval { by: "kim".into() }).id("from-kim").await?;
/// assert_eq!(sent, Sent::Accepted);
/// assert_eq!(payment.result().await?, "kim");
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct Sending<W, M> {
    handle: Handle<W>,
    message: M,
    id: Option<String>,
}

impl<W: Workflow> Handle<W> {
    /// Sends a message. Only what the workflow accepts can be sent.
    pub fn send<M: Message>(&self, message: M) -> Sending<W, M>
    where
        W: Accepts<M>,
    {
        Sending {
            handle: self.clone(),
            message,
            id: None,
        }
    }
}

impl<W, M> Sending<W, M> {
    /// Under this id: a second message with the same one is a duplicate, and is not delivered. Without, every send is
    /// a message of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

impl<W: Workflow, M: Message> IntoFuture for Sending<W, M> {
    type Output = Result<Sent>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { handle, message, id } = self;
            let id = message_id(&handle.shared, id)?;
            let payload = handle
                .shared
                .store
                .codecs()
                .pack(&message)
                .map_err(storage::Error::from)?;
            let name = M::NAME.to_owned();
            let told = Content::Told { name, payload };
            let message = from_outside(&handle.shared, id, told);
            Ok(deliver(&handle.shared, &handle.instance, &message).await?.into())
        })
    }
}

/// The id that was asked for, or a new one.
pub(crate) fn message_id(shared: &Shared, id: Option<String>) -> Result<MessageId> {
    match id {
        Some(id) => Ok(MessageId::new(id)?),
        None => Ok(ulid::message_id(&*shared.clock, &*shared.chance)),
    }
}

/// A message that no instance sent.
pub(crate) fn from_outside(shared: &Shared, id: MessageId, content: Content) -> record::Message {
    record::Message {
        id,
        sent_at_ms: shared.clock.now_ms(),
        from: None,
        content,
    }
}

impl From<Delivered> for Sent {
    fn from(delivered: Delivered) -> Self {
        match delivered {
            Delivered::Now(_) => Self::Accepted,
            Delivered::Before(_) => Self::Duplicate,
        }
    }
}

/// Where a message is, or was until it was taken.
pub(crate) enum Delivered {
    /// It was put there.
    Now(Arrival),
    /// One with the same id was put there before.
    Before(Arrival),
}

/// Puts a message into the inbox of an instance, durably, and tells the instance.
pub(crate) async fn deliver(shared: &Shared, instance: &InstanceId, message: &record::Message) -> Result<Delivered> {
    let namespace = shared.store.namespace(instance);
    let (shard, mut place) = (namespace.shard(), None);
    let pending = shared.store.submit_delivery(shard, |arrivals| {
        let mut commit = Commit::new(shard);
        commit.deliver(&namespace, *place.insert(arrivals.next_place()), message);
        commit
    });
    let settled = pending.await?.durable().await;
    match settled {
        Ok(_) => {
            shared.directory.wake(instance);
            Ok(Delivered::Now(place.expect("a commit that was done was built")))
        }
        Err(storage::Error::Refused(Refusal::Duplicate(seen))) => Ok(Delivered::Before(seen.arrival())),
        Err(storage::Error::Refused(Refusal::Ended(status))) => Err(Error::Finished {
            instance: instance.clone(),
            status,
        }),
        Err(storage::Error::Refused(Refusal::InboxFull { max })) => Err(Error::InboxFull {
            instance: instance.clone(),
            max,
        }),
        Err(storage::Error::Refused(Refusal::Missing)) => Err(look::absent(shared, instance)),
        Err(error) => Err(error.into()),
    }
}
