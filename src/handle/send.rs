//! `handle.send`: puts a message into the inbox of an instance, once.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use crate::actor::{self, Shared};
use crate::engine::{Accepts, Message, Workflow};
use crate::handle::{Error, Handle, Result, look, size, wait};
use crate::ids::{InstanceId, MessageId};
use crate::storage::key::{Arrival, Local};
use crate::storage::record::{self, Content};
use crate::storage::{self, Commit, Namespace, Refusal};
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
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, Sent, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
    /// # #[workflow(accepts(Approval))] async fn order(ctx: Ctx<Order>) -> Result<String> { ok(ctx.receive::<Approval>().await?.by) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// # let order = runtime.start(order, ()).await?;
    /// // Under an id it is taken once, however often it is sent.
    /// let sent = order.send(Approval { by: "kim".into() }).id("click-17").await?;
    /// assert_eq!(sent, Sent::Accepted);
    /// assert_eq!(order.result().await?, "kim");
    /// # Ok(()) }
    /// ```
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
            size::check_message(&handle.shared, W::NAME, M::NAME, &payload)?;
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

/// Puts a message into the inbox of an instance, durably, and tells the instance: also if whoever sends it goes away when it
/// is on its way.
pub(crate) async fn deliver(
    shared: &Arc<Shared>,
    instance: &InstanceId,
    message: &record::Message,
) -> Result<Delivered> {
    put(shared, instance, message, Commit::deliver).await
}

/// The same for a message whose id nobody knows: it can't be sent again, and is not remembered.
pub(crate) async fn hand_over(
    shared: &Arc<Shared>,
    instance: &InstanceId,
    message: &record::Message,
) -> Result<Delivered> {
    put(shared, instance, message, Commit::hand_over).await
}

type Put = for<'c> fn(&'c mut Commit, &Namespace, Arrival, &record::Message) -> &'c mut Commit;

async fn put(shared: &Arc<Shared>, instance: &InstanceId, message: &record::Message, add: Put) -> Result<Delivered> {
    wait::goes_on(shared)?;
    let namespace = shared.store.namespace(instance);
    let (shard, mut place) = (namespace.shard(), None);
    let pending = shared.store.submit_delivery(shard, |arrivals| {
        let mut commit = Commit::new(shard);
        add(&mut commit, &namespace, *place.insert(arrivals.next_place()), message);
        commit
    });
    let (pending, to) = (pending.await?, instance.clone());
    let settled = actor::handed_over(shared, pending, move |shared| shared.directory.wake(&to));
    match settled.await {
        Ok(_) => Ok(Delivered::Now(place.expect("a commit that was done was built"))),
        Err(storage::Error::Refused(Refusal::Duplicate(seen))) => {
            wake_for(shared, instance, seen.arrival())?;
            Ok(Delivered::Before(seen.arrival()))
        }
        Err(storage::Error::Refused(Refusal::Ended(status))) => Err(Error::Finished {
            instance: instance.clone(),
            status,
        }),
        Err(storage::Error::Refused(Refusal::InboxFull { messages, bytes })) => Err(Error::InboxFull {
            instance: instance.clone(),
            messages,
            bytes,
        }),
        Err(storage::Error::Refused(Refusal::Missing)) => Err(look::absent(shared, instance)),
        Err(error) => Err(error.into()),
    }
}

/// Wakes an instance for a message that was accepted before and lies in its inbox still: whoever sent it then may not have
/// known that it was, and told nobody.
fn wake_for(shared: &Shared, instance: &InstanceId, arrival: Arrival) -> storage::Result<()> {
    let namespace = shared.store.namespace(instance);
    let mut key = Vec::new();
    namespace.key_into(&Local::Inbox(arrival), &mut key);
    if shared.store.snapshot(namespace.shard())?.get(&key)?.is_some() {
        shared.directory.wake(instance);
    }
    Ok(())
}
