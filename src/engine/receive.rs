//! `ctx.receive`: a wait for a message.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::engine::context::{Ctx, Operation};
use crate::engine::error::StepFailed;
use crate::engine::journal::{Outcome, Request};
use crate::engine::message::Message;

/// A wait for a message on its way; await it.
#[must_use = "nothing is received until it is awaited"]
pub struct Receive<M> {
    operation: Operation,
    message: PhantomData<fn() -> M>,
}

impl<M: Message> Receive<M> {
    pub(crate) fn new(ctx: Ctx, name: &str) -> Self {
        let operation = Operation::new(ctx, name, Request::Receive(M::NAME));
        Self {
            operation,
            message: PhantomData,
        }
    }
}

impl<M: Message> Future for Receive<M> {
    type Output = Result<M, StepFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.operation).poll(cx))? {
            Outcome::Message(payload) => Poll::Ready(Ok(self.operation.codecs().unpack(&payload)?)),
            Outcome::Step(_) | Outcome::Slept => unreachable!("the journal delivers what was asked for"),
        }
    }
}

impl<M> std::fmt::Debug for Receive<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receive")
            .field("name", &self.operation.name())
            .finish_non_exhaustive()
    }
}
