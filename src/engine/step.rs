//! `ctx.step`: a unit of work with an effect.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::context::{Ctx, Operation};
use crate::engine::error::{StepFailed, WorkflowError};
use crate::engine::journal::{Outcome, Request, StepTask};
use crate::storage::payload::Codecs;
use crate::storage::record::StepOutcome;

/// A step on its way; await it.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<T> {
    operation: Operation,
    result: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Step<T> {
    pub(crate) fn new<F, Work>(ctx: Ctx, name: &str, work: F) -> Self
    where
        F: FnOnce() -> Work + Send + 'static,
        Work: Future<Output = Result<T, WorkflowError>> + Send + 'static,
    {
        let codecs = ctx.codecs();
        let task: StepTask = Box::new(move || Box::pin(async move { outcome(&codecs, work().await) }));
        Self {
            operation: Operation::new(ctx, name, Request::Step(task)),
            result: PhantomData,
        }
    }
}

fn outcome<T: Serialize>(codecs: &Codecs, result: Result<T, WorkflowError>) -> StepOutcome {
    let stored = result.and_then(|value| Ok(codecs.pack(&value)?));
    match stored {
        Ok(payload) => StepOutcome::Completed(payload),
        Err(error) => StepOutcome::Failed(error.into_failure()),
    }
}

impl<T: DeserializeOwned> Future for Step<T> {
    type Output = Result<T, StepFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.operation).poll(cx))?;
        Poll::Ready(match outcome {
            Outcome::Step(StepOutcome::Completed(payload)) => Ok(self.operation.codecs().unpack(&payload)?),
            Outcome::Step(StepOutcome::Failed(failure)) => Err(StepFailed::Failed {
                name: self.operation.name().to_owned(),
                failure,
            }),
            Outcome::Slept | Outcome::Message(_) => unreachable!("the journal delivers what was asked for"),
        })
    }
}

impl<T> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("name", &self.operation.name())
            .finish_non_exhaustive()
    }
}
