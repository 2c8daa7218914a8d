//! `ctx.receive` and its kin: waits for messages.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::message::Message;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{ReceiveRequest, Request, Until};
use crate::engine::workflow::Accepts;
use crate::storage::record::{self, EntryKind, Failure};

/// What all waits for messages share.
struct Wait {
    operation: Operation,
    names: Vec<&'static str>,
    most: usize,
    until: Result<Option<Until>, InvalidDuration>,
}

impl Wait {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Vec<record::Message>, Failure>> {
        let request = || {
            let until = self.until.clone().map_err(Misuse::from)?;
            Ok(Request::Receive(ReceiveRequest {
                names: self.names.clone(),
                most: self.most,
                until,
            }))
        };
        let kind = ready!(self.operation.poll_with(cx, request))?;
        let EntryKind::Receive { taken, .. } = kind else {
            unreachable!("a wait for messages is delivered as one");
        };
        Poll::Ready(Ok(taken))
    }

    fn decode<M: Message>(&self, message: &record::Message) -> Result<M, Failure> {
        let decoded = self.operation.codecs().unpack(&message.payload);
        decoded.map_err(|error| Failure::from(error).at(self.operation.path()))
    }

    fn gave_up(&self) -> Failure {
        Failure::timed_out("no message came in time").at(self.operation.path())
    }
}

/// A wait for one message; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct Receive<M> {
    wait: Wait,
    message: PhantomData<fn() -> M>,
}

/// A wait for one message that gives none when the time is over; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct Within<M>(Receive<M>);

/// A wait for messages of one type, at least one; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct ReceiveMany<M>(Receive<M>);

impl<W> Ctx<W> {
    /// Waits for the next message of a type and takes it. Messages of a type are taken in the order in which they
    /// were sent, whenever that was.
    ///
    /// Of several waits at once, the one that has waited longest is served first.
    ///
    /// ```
    /// # use everstep::{Accepts, Ctx, Message, Result, Workflow, ok};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
    /// # async fn example<W: Accepts<Approval>>(ctx: Ctx<W>) -> Result<()> {
    /// let approval: Approval = ctx.receive().timeout("7d").await?;
    /// # ok(()) }
    /// ```
    pub fn receive<M: Message>(&self) -> Receive<M>
    where
        W: Accepts<M>,
    {
        self.waiting(1)
    }

    /// Waits until there is a message of a type and takes up to `most` of them.
    pub fn receive_many<M: Message>(&self, most: usize) -> ReceiveMany<M>
    where
        W: Accepts<M>,
    {
        ReceiveMany(self.waiting(most.max(1)))
    }

    fn waiting<M: Message>(&self, most: usize) -> Receive<M> {
        let operation = Operation::new(self.scope().clone(), Place::Next(M::NAME));
        Receive {
            wait: Wait {
                operation,
                names: vec![M::NAME],
                most,
                until: Ok(None),
            },
            message: PhantomData,
        }
    }
}

impl<M: Message> Receive<M> {
    /// Gives up with an error after this long. A message that is there wins over a time that is over.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.wait.until = timeout.into_duration().map(|timeout| Some(Until::After(timeout)));
        self
    }

    /// Gives none after this long.
    pub fn within(self, timeout: impl IntoDuration) -> Within<M> {
        Within(self.timeout(timeout))
    }
}

impl<M: Message> ReceiveMany<M> {
    /// Gives up with an error after this long.
    pub fn timeout(self, timeout: impl IntoDuration) -> Self {
        Self(self.0.timeout(timeout))
    }
}

impl<M: Message> Future for Receive<M> {
    type Output = Result<M, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.wait.poll(cx))?;
        let first = taken.first().map(|message| self.wait.decode(message));
        Poll::Ready(first.unwrap_or_else(|| Err(self.wait.gave_up())))
    }
}

impl<M: Message> Future for Within<M> {
    type Output = Result<Option<M>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.0.wait.poll(cx))?;
        Poll::Ready(taken.first().map(|message| self.0.wait.decode(message)).transpose())
    }
}

impl<M: Message> Future for ReceiveMany<M> {
    type Output = Result<Vec<M>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.0.wait.poll(cx))?;
        if taken.is_empty() {
            return Poll::Ready(Err(self.0.wait.gave_up()));
        }
        Poll::Ready(taken.iter().map(|message| self.0.wait.decode(message)).collect())
    }
}
