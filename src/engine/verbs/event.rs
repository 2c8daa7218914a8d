//! `ctx.publish` and `ctx.wait_event`: something that any number of instances may wait for.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use crate::clock::whole_ms;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::journal::has_given_back;
use crate::engine::message::Message;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{PublishRequest, Request, Until};
use crate::engine::verbs::within::Within;
use crate::limits::EVENT_BYTES_MAX;
use crate::storage::payload::Payload;
use crate::storage::record::{Decided, EntryKind, Failure, FailureKind};

/// How long an event is kept that nobody waits for, unless said otherwise.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// An event that is being published; await it.
#[must_use = "nothing is published until it is awaited"]
pub struct Publish {
    operation: Operation,
    topic: &'static str,
    payload: Result<Payload, Failure>,
    to_one: bool,
    keep: Result<Duration, InvalidDuration>,
}

/// A wait for an event; await it.
#[must_use = "nothing is waited for until it is awaited"]
pub struct WaitEvent<E> {
    operation: Operation,
    until: Result<Option<Until>, InvalidDuration>,
    event: PhantomData<fn() -> E>,
}

impl<W> Ctx<W> {
    /// Publishes an event: everyone gets it who waits for its type with [`Ctx::wait_event`]. If nobody does, it is kept
    /// for a day, or as long as [said](Publish::keep), for the next one who does.
    ///
    /// What a scope publishes is told apart by its number and its type: another type in the place of a recorded one is
    /// divergence, another event of the same type is not noticed.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct PriceChanged { to: u32 }
    ///
    /// #[workflow]
    /// async fn shop(ctx: Ctx<Shop>) -> Result<()> {
    ///     ctx.publish(PriceChanged { to: 7 }).keep("1h").await?;
    ///     ok(())
    /// }
    ///
    /// #[workflow]
    /// async fn customer(ctx: Ctx<Customer>) -> Result<u32> {
    ///     let change: PriceChanged = ctx.wait_event().timeout("7d").await?;
    ///     ok(change.to)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(shop).workflow(customer).open("memory:").await?;
    /// runtime.start(shop, ()).await?.result().await?;
    /// // Nobody waited for it yet. It is kept for the one who comes.
    /// assert_eq!(runtime.start(customer, ()).await?.result().await?, 7);
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "an event that was published is gone")]
    #[track_caller]
    pub fn publish<E: Message>(&self, event: E) -> Publish {
        let operation = Operation::new(self.scope().clone(), Place::Next("publish"));
        let payload = operation.codecs().pack(&event).map_err(Failure::from);
        Publish {
            operation,
            topic: E::NAME,
            payload: payload.and_then(|payload| event_fits(&payload).map(|()| payload)),
            to_one: false,
            keep: Ok(KEPT),
        }
    }

    /// Waits for an event of a type: one that is kept, or the next.
    ///
    /// Waits for a type are told apart by their number in their scope, as those for [messages](Ctx::receive) are.
    ///
    /// A wait that was polled takes its event when that comes, also if the code looks elsewhere. An event
    /// [for one](Publish::to_one) that came so goes to the next one who waits when the wait is dropped, as a message goes
    /// back to the inbox.
    ///
    /// ```
    /// use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    ///
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Opened { shop: String }
    ///
    /// #[workflow]
    /// async fn customer(ctx: Ctx<Customer>) -> Result<String> {
    ///     let opened: Opened = ctx.wait_event().timeout("7d").await?;
    ///     ok(opened.shop)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(customer).open("memory:").await?;
    /// let customer = runtime.start(customer, ()).await?;
    /// runtime.publish(Opened { shop: "corner".into() }).await?;
    /// assert_eq!(customer.result().await?, "corner");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn wait_event<E: Message>(&self) -> WaitEvent<E> {
        WaitEvent {
            operation: Operation::new(self.scope().clone(), Place::Next(E::NAME)),
            until: Ok(None),
            event: PhantomData,
        }
    }
}

impl Publish {
    /// Only one of those who wait gets it: the one who has waited longest.
    pub fn to_one(mut self) -> Self {
        self.to_one = true;
        self
    }

    /// Keeps it so long for somebody to wait for it; with a time of zero only those get it who wait already.
    pub fn keep(mut self, time: impl IntoDuration) -> Self {
        self.keep = time.into_duration();
        self
    }
}

impl<E: Message> WaitEvent<E> {
    /// Gives up with an error after this long. An event that is there wins over a time that is over.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.until = timeout.into_duration().map(|timeout| Some(Until::After(timeout)));
        self
    }

    /// Gives up with an error at this time.
    pub fn until(mut self, time: SystemTime) -> Self {
        self.until = Until::time(time, self.operation.scope().now_ms()).map(Some);
        self
    }

    /// Gives none when it gives up, instead of an error.
    pub fn or_none(self) -> Within<Self> {
        Within(self)
    }

    /// Gives none after this long.
    pub fn within(self, timeout: impl IntoDuration) -> Within<Self> {
        self.timeout(timeout).or_none()
    }
}

impl Future for Publish {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let payload = match &this.payload {
            Ok(payload) => payload,
            Err(failure) => return Poll::Ready(Err(failure.clone())),
        };
        let (topic, to_one, keep) = (this.topic, this.to_one, &this.keep);
        let request = || {
            let keep = keep.clone()?;
            Ok(Request::Publish(PublishRequest {
                topic,
                payload: payload.clone(),
                to_one,
                keep_ms: whole_ms(keep),
            }))
        };
        ready!(this.operation.poll_with(cx, request))?;
        Poll::Ready(Ok(()))
    }
}

impl<E: Message> WaitEvent<E> {
    /// The event; none if none came in time.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<E>, Failure>> {
        let this = self;
        let until = &this.until;
        let request = || Ok(Request::Event(E::NAME, until.clone()?));
        let kind = ready!(this.operation.poll_with(cx, request))?;
        if has_given_back(&kind) {
            // Nobody looked at what had come, and by now somebody else may have it.
            this.operation.diverge("event that it looks at");
            return Poll::Pending;
        }
        let EntryKind::Event { decided, .. } = kind else {
            unreachable!("a wait for an event is delivered as one");
        };
        let payload = match decided {
            Some(Decided::Completed(payload)) => payload,
            Some(Decided::Failed(failure)) => return Poll::Ready(Err(failure.at(this.operation.path()))),
            None => return Poll::Ready(Ok(None)),
        };
        Poll::Ready(this.operation.read_from_others(&payload).map(Some))
    }
}

impl<E: Message> Future for WaitEvent<E> {
    type Output = Result<E, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = ready!(self.poll_event(cx))?;
        let gave_up = || Failure::timed_out("no event came in time").at(self.operation.path());
        Poll::Ready(event.ok_or_else(gave_up))
    }
}

impl<E: Message> Future for Within<WaitEvent<E>> {
    type Output = Result<Option<E>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_event(cx)
    }
}

/// Whether an event is small enough to be published.
fn event_fits(payload: &Payload) -> Result<(), Failure> {
    let length = payload.bytes.len();
    if length <= EVENT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("an event has at most {EVENT_BYTES_MAX} bytes, this has {length}");
    Err(Failure::new(FailureKind::Limit, message))
}
