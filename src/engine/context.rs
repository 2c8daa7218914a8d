//! What a workflow function holds: its way to ask for things.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::error::WorkflowError;
use crate::engine::journal::{Journal, Outcome, Request};
use crate::engine::message::Message;
use crate::engine::receive::Receive;
use crate::engine::sleep::Sleep;
use crate::engine::step::Step;
use crate::location::{Location, TooDeep};
use crate::storage::payload::Codecs;

/// The context of a running workflow. Everything durable goes through it.
#[derive(Clone)]
pub struct Ctx {
    journal: Arc<Mutex<Journal>>,
    codecs: Codecs,
}

impl Ctx {
    pub(crate) fn new(journal: Arc<Mutex<Journal>>, codecs: Codecs) -> Self {
        Self { journal, codecs }
    }

    /// Does a unit of work, once: its result is stored, and replay returns the stored result.
    pub fn step<T, F, Work>(&self, name: &str, work: F) -> Step<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce() -> Work + Send + 'static,
        Work: Future<Output = Result<T, WorkflowError>> + Send + 'static,
    {
        Step::new(self.clone(), name, work)
    }

    /// Sleeps, without costing anything while it does, across restarts.
    pub fn sleep(&self, name: &str, duration: Duration) -> Sleep {
        Sleep::new(self.clone(), name, duration)
    }

    /// Waits for the next message of a type and takes it.
    pub fn receive<M: Message>(&self, name: &str) -> Receive<M> {
        Receive::new(self.clone(), name)
    }

    pub(crate) fn codecs(&self) -> Codecs {
        self.codecs.clone()
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").finish_non_exhaustive()
    }
}

/// One operation: asks when it is first polled, then waits for its outcome.
pub(crate) struct Operation {
    ctx: Ctx,
    name: String,
    request: Option<Request>,
    location: Option<Location>,
}

impl Operation {
    pub(crate) fn new(ctx: Ctx, name: &str, request: Request) -> Self {
        Self {
            ctx,
            name: name.to_owned(),
            request: Some(request),
            location: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn codecs(&self) -> &Codecs {
        &self.ctx.codecs
    }
}

impl Future for Operation {
    type Output = Result<Outcome, TooDeep>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut journal = this.ctx.journal();
        let location = match (&this.location, this.request.take()) {
            (Some(location), _) => location,
            (None, Some(request)) => this.location.insert(journal.ask(&this.name, request)?),
            (None, None) => return Poll::Pending,
        };
        match journal.take(location, cx.waker()) {
            Some(outcome) => Poll::Ready(Ok(outcome)),
            None => Poll::Pending,
        }
    }
}
