//! `ctx.receive` and its kin: waits for messages.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::journal::has_given_back;
use crate::engine::message::{Message, Messages};
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{ReceiveRequest, Request, Until};
use crate::engine::verbs::ask::Reply;
use crate::engine::verbs::within::Within;
use crate::engine::workflow::Accepts;
use crate::storage::record::{self, EntryKind, Failure};

/// What a message becomes for the code.
pub(crate) type Decode<T> = fn(&Operation, &record::Message) -> Result<T, Failure>;

/// A wait for one message; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct Receive<T> {
    operation: Operation,
    names: Vec<&'static str>,
    most: usize,
    until: Result<Option<Until>, InvalidDuration>,
    decode: Decode<T>,
}

/// A wait for messages, at least one; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct ReceiveMany<T> {
    wait: Receive<T>,
    or_none: bool,
}

impl<W> Ctx<W> {
    /// Waits for the next message of a type and takes it. Messages of a type are taken in the order in which they
    /// were sent, whenever that was.
    ///
    /// Of several waits at once, the one that has waited longest is served first.
    ///
    /// Waits for a type are told apart by their number in their scope. New code that waits once more before a wait that an
    /// instance has passed is given what that one took: guard it with [`Ctx::patched`], or give it a scope of its own.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Approval { by: String }
    ///
    /// #[workflow(accepts(Approval))]
    /// async fn request(ctx: Ctx<Request>) -> Result<String> {
    ///     let approval: Approval = ctx.receive().timeout("7d").await?;
    ///     ok(approval.by)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(request).open("memory:").await?;
    /// let request = runtime.start(request, ()).await?;
    /// request.send(Approval { by: "kim".into() }).await?;
    /// assert_eq!(request.result().await?, "kim");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn receive<M: Message>(&self) -> Receive<M>
    where
        W: Accepts<M>,
    {
        self.waiting(M::NAME, vec![M::NAME], decode_one)
    }

    /// Waits for the next message of several types, whichever came first, and takes it. The types are the variants of
    /// an enum that derives [`Messages`](macro@crate::Messages).
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Messages, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Refusal { why: String }
    /// #[derive(Messages)]
    /// enum Decision {
    ///     Approved(Approval),
    ///     Refused(Refusal),
    /// }
    ///
    /// #[workflow(accepts(Approval, Refusal))]
    /// async fn request(ctx: Ctx<Request>) -> Result<String> {
    ///     ok(match ctx.receive_any().timeout("7d").await? {
    ///         Decision::Approved(approval) => format!("approved by {}", approval.by),
    ///         Decision::Refused(refusal) => format!("refused: {}", refusal.why),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(request).open("memory:").await?;
    /// # let request = runtime.start(request, ()).await?;
    /// request.send(Refusal { why: "too much".into() }).await?;
    /// assert_eq!(request.result().await?, "refused: too much");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn receive_any<M: Messages<W>>(&self) -> Receive<M> {
        self.waiting(M::NAME, M::NAMES.to_vec(), |operation, message| {
            let _unanswered = Reply::<()>::of(operation, message);
            let (name, payload) = told(message);
            let decoded = M::decode(name, &mut Decoder { operation, payload });
            decoded.unwrap_or_else(|| unreachable!("a wait takes only what it asks for"))
        })
    }

    /// Waits until there is a message of a type and takes up to `most` of them.
    ///
    /// ```
    /// use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    ///
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// struct Reading(u32);
    ///
    /// #[workflow(accepts(Reading))]
    /// async fn sum(ctx: Ctx<Sum>) -> Result<u32> {
    ///     let mut sum = 0;
    ///     while sum < 6 {
    ///         let readings: Vec<Reading> = ctx.receive_many(100).await?;
    ///         sum += readings.iter().map(|reading| reading.0).sum::<u32>();
    ///     }
    ///     ok(sum)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(sum).open("memory:").await?;
    /// let sum = runtime.start(sum, ()).await?;
    /// for reading in [1, 2, 3] {
    ///     sum.send(Reading(reading)).await?;
    /// }
    /// assert_eq!(sum.result().await?, 6);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn receive_many<M: Message>(&self, most: usize) -> ReceiveMany<M>
    where
        W: Accepts<M>,
    {
        let mut wait = self.waiting(M::NAME, vec![M::NAME], decode_one);
        wait.most = most.max(1);
        ReceiveMany { wait, or_none: false }
    }

    #[track_caller]
    pub(crate) fn waiting<T>(&self, place: &'static str, names: Vec<&'static str>, decode: Decode<T>) -> Receive<T> {
        Receive {
            operation: Operation::new(self.scope().clone(), Place::Next(place)),
            names,
            most: 1,
            until: Ok(None),
            decode,
        }
    }
}

fn decode_one<M: Message>(operation: &Operation, message: &record::Message) -> Result<M, Failure> {
    // Who receives a question as a message has nothing to answer it with.
    let _unanswered = Reply::<()>::of(operation, message);
    unpack(operation, told(message).1)
}

pub(crate) fn unpack<T: serde::de::DeserializeOwned>(
    operation: &Operation,
    payload: &crate::storage::payload::Payload,
) -> Result<T, Failure> {
    operation.read_from_others(payload)
}

pub(crate) fn told(message: &record::Message) -> (&str, &crate::storage::payload::Payload) {
    let Some(told) = message.told_or_asked() else {
        unreachable!("only what was told or asked is taken by name");
    };
    told
}

/// Reads the message that came; for the derive of [`Messages`].
#[doc(hidden)]
pub struct Decoder<'a> {
    operation: &'a Operation,
    payload: &'a crate::storage::payload::Payload,
}

impl Decoder<'_> {
    /// The message, as this type.
    pub fn message<M: Message>(&mut self) -> Result<M, Failure> {
        unpack(self.operation, self.payload)
    }
}

impl<T> Receive<T> {
    /// Gives up with an error after this long. A message that is there wins over a time that is over.
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

    fn poll_taken(&mut self, cx: &Context<'_>) -> Poll<Result<Vec<T>, Failure>> {
        let (names, most, until) = (&self.names, self.most, &self.until);
        let request = || {
            let until = until.clone().map_err(Misuse::from)?;
            Ok(Request::Receive(ReceiveRequest {
                names: names.clone(),
                most,
                until,
            }))
        };
        let kind = ready!(self.operation.poll_with(cx, request))?;
        if has_given_back(&kind) {
            // Nobody looked at what had come, and by now somebody else may have it.
            self.operation.diverge("receive whose message it looks at");
            return Poll::Pending;
        }
        let EntryKind::Receive { taken, .. } = kind else {
            unreachable!("a wait for messages is delivered as one");
        };
        let decoded = taken.iter().map(|message| (self.decode)(&self.operation, message));
        Poll::Ready(decoded.collect())
    }

    fn gave_up(&self) -> Failure {
        Failure::timed_out("no message came in time").at(self.operation.path())
    }
}

impl<T> ReceiveMany<T> {
    /// Gives up with an error after this long.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.wait = self.wait.timeout(timeout);
        self
    }

    /// Gives up with an error at this time.
    pub fn until(mut self, time: SystemTime) -> Self {
        self.wait = self.wait.until(time);
        self
    }

    /// Gives none after this long: an empty vector.
    pub fn within(mut self, timeout: impl IntoDuration) -> Self {
        self.or_none = true;
        self.timeout(timeout)
    }
}

impl<T> Future for Receive<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.poll_taken(cx))?;
        Poll::Ready(taken.into_iter().next().ok_or_else(|| self.gave_up()))
    }
}

impl<T> Future for Within<Receive<T>> {
    type Output = Result<Option<T>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.0.poll_taken(cx))?;
        Poll::Ready(Ok(taken.into_iter().next()))
    }
}

impl<T> Future for ReceiveMany<T> {
    type Output = Result<Vec<T>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.wait.poll_taken(cx))?;
        if taken.is_empty() && !self.or_none {
            return Poll::Ready(Err(self.wait.gave_up()));
        }
        Poll::Ready(Ok(taken))
    }
}
