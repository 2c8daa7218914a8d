//! `ctx.send`: a message to another instance.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::engine::context::Ctx;
use crate::engine::message::Message;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{Request, SendRequest};
use crate::engine::scope::Scope;
use crate::engine::workflow::{Accepts, IntoWorkflow, Workflow};
use crate::ids::{InstanceId, InvalidId};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::storage::payload::Payload;
use crate::storage::record::{Content, Failure, FailureKind};

/// The instance of a workflow, by its id: where a message can go that the workflow accepts.
///
/// ```
/// # use everstep::{Address, Ctx, Result, Workflow, ok};
/// # struct Payment; impl Workflow for Payment {
/// #     const NAME: &'static str = "payment"; type Input = (); type Output = ();
/// #     async fn run(_: Ctx<Self>, _: ()) -> Result<()> { ok(()) } }
/// let address = Address::of(Payment, "order-1")?;
/// assert_eq!(address.id().as_str(), "order-1");
/// # Ok::<(), everstep::InvalidId>(())
/// ```
pub struct Address<W> {
    instance: InstanceId,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Address<W> {
    /// The address of an instance of a workflow.
    pub fn of<As>(_workflow: impl IntoWorkflow<As, Workflow = W>, id: impl Into<String>) -> Result<Self, InvalidId> {
        InstanceId::new(id).map(Self::new)
    }
}

impl<W> Address<W> {
    pub(crate) fn new(instance: InstanceId) -> Self {
        Self {
            instance,
            workflow: PhantomData,
        }
    }

    /// The id of the instance.
    pub fn id(&self) -> &InstanceId {
        &self.instance
    }
}

impl<W> Clone for Address<W> {
    fn clone(&self) -> Self {
        Self::new(self.instance.clone())
    }
}

impl<W> std::fmt::Debug for Address<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.instance).finish()
    }
}

/// A message on its way to another instance; await it.
#[must_use = "nothing is sent until it is awaited"]
pub struct SendTo {
    operation: Operation,
    to: Result<InstanceId, InvalidId>,
    content: Result<Content, Failure>,
    dead_letter: bool,
}

impl<W> Ctx<W> {
    /// Sends a message to an instance of another workflow. When this returns the message is durably on its way: it
    /// is taken once, whatever crashes, and messages to the same instance arrive in the order in which they were sent.
    ///
    /// A message for an instance that has ended, or that there is not, is dropped; [`SendTo::dead_letter`] keeps it. One
    /// for an instance whose inbox is full waits on disk until there is room, however many that become. A message that the workflow does not accept does not compile.
    ///
    /// What a scope sends is told apart by its number, by whom it is for and by its type: another message of the same type
    /// to the same instance, sent before one that an instance has sent, is taken for that one.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Paid { amount: u32 }
    ///
    /// #[workflow(accepts(Paid))]
    /// async fn shop(ctx: Ctx<Shop>) -> Result<u32> {
    ///     ok(ctx.receive::<Paid>().await?.amount)
    /// }
    ///
    /// #[workflow]
    /// async fn customer(ctx: Ctx<Customer>) -> Result<()> {
    ///     ctx.send(shop, "shop-1", Paid { amount: 7 }).dead_letter().await?;
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(shop).workflow(customer).open("memory:").await?;
    /// let shop = runtime.start(shop, ()).id("shop-1").await?;
    /// runtime.start(customer, ()).await?;
    /// assert_eq!(shop.result().await?, 7);
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "a message that was sent is gone")]
    #[track_caller]
    pub fn send<As, V: IntoWorkflow<As>, M: Message>(&self, _workflow: V, to: impl Into<String>, message: M) -> SendTo
    where
        V::Workflow: Accepts<M>,
    {
        SendTo::new(self.scope(), InstanceId::new(to), told(self.scope(), &message))
    }

    /// The same, to an address.
    ///
    /// ```
    /// use everstep::{Address, Ctx, Message, Result, Runtime, ok, workflow};
    ///
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Paid { amount: u32 }
    ///
    /// #[workflow(accepts(Paid))]
    /// async fn shop(ctx: Ctx<Shop>) -> Result<u32> {
    ///     ok(ctx.receive::<Paid>().await?.amount)
    /// }
    ///
    /// #[workflow]
    /// async fn buyer(ctx: Ctx<Buyer>) -> Result<()> {
    ///     let shop = Address::of(shop, "corner")?;
    ///     ok(ctx.send_to(&shop, Paid { amount: 7 }).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(shop).workflow(buyer).open("memory:").await?;
    /// let shop = runtime.start(shop, ()).id("corner").await?;
    /// runtime.start(buyer, ()).await?.result().await?;
    /// assert_eq!(shop.result().await?, 7);
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "a message that was sent is gone")]
    #[track_caller]
    pub fn send_to<V: Accepts<M>, M: Message>(&self, to: &Address<V>, message: M) -> SendTo {
        SendTo::new(self.scope(), Ok(to.id().clone()), told(self.scope(), &message))
    }
}

impl SendTo {
    #[track_caller]
    pub(crate) fn new(scope: &Scope, to: Result<InstanceId, InvalidId>, content: Result<Content, Failure>) -> Self {
        Self {
            operation: Operation::new(scope.clone(), Place::Next("send")),
            to,
            content,
            dead_letter: false,
        }
    }

    /// Keeps the message as a dead letter if it can't be delivered: see `runtime.dead_letters()`. It is kept until somebody
    /// sees to it, or as long as [`Config::keep_dead_letters`](crate::Config::keep_dead_letters) says.
    pub fn dead_letter(mut self) -> Self {
        self.dead_letter = true;
        self
    }
}

impl Future for SendTo {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let content = match &this.content {
            Ok(content) => content,
            Err(failure) => return Poll::Ready(Err(failure.clone())),
        };
        let (to, dead_letter) = (&this.to, this.dead_letter);
        let request = || {
            let (to, content) = (to.clone()?, content.clone());
            Ok(Request::Send(SendRequest {
                to,
                content,
                dead_letter,
            }))
        };
        ready!(this.operation.poll_with(cx, request))?;
        Poll::Ready(Ok(()))
    }
}

/// A message as it is sent.
pub(crate) fn told<M: Message>(scope: &Scope, message: &M) -> Result<Content, Failure> {
    let payload = scope.codecs().pack(message)?;
    fits(&payload)?;
    let name = M::NAME.to_owned();
    Ok(Content::Told { name, payload })
}

/// Whether a payload is small enough to be sent.
pub(crate) fn fits(payload: &Payload) -> Result<(), Failure> {
    if payload.bytes.len() <= MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let length = payload.bytes.len();
    let message = format!("what is sent has at most {MESSAGE_BYTES_MAX} bytes, this has {length}");
    Err(Failure::new(FailureKind::Limit, message))
}
