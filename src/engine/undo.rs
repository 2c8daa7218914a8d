//! What undoes something, kept until it is needed.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::attempt::Attempt;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::request::{StepOptions, Work};
use crate::engine::scope::Facts;
use crate::storage::payload::Payload;
use crate::storage::record::Failure;

/// What undoes something: a function of what is to be undone, or of that and the [`Attempt`] that it is called for.
pub trait IntoUndo<T, Arguments>: Send + 'static {
    /// What it returns. It is stored, for people to look at.
    type Output: Serialize + Send + 'static;

    /// Begins an attempt.
    fn begin(&mut self, input: T, attempt: Attempt) -> impl Future<Output = Result<Self::Output>> + Send + 'static;
}

impl<T, R, E, F, Fut> IntoUndo<T, (R, E)> for F
where
    F: FnMut(T) -> Fut + Send + 'static,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: Serialize + Send + 'static,
    E: Into<WorkflowError>,
{
    type Output = R;

    fn begin(&mut self, input: T, _: Attempt) -> impl Future<Output = Result<R>> + Send + 'static {
        let attempting = Box::pin(self(input));
        async move { attempting.await.map_err(Into::into) }
    }
}

impl<T, R, E, F, Fut> IntoUndo<T, (Attempt, R, E)> for F
where
    F: FnMut(T, Attempt) -> Fut + Send + 'static,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: Serialize + Send + 'static,
    E: Into<WorkflowError>,
{
    type Output = R;

    fn begin(&mut self, input: T, attempt: Attempt) -> impl Future<Output = Result<R>> + Send + 'static {
        let attempting = Box::pin(self(input, attempt));
        async move { attempting.await.map_err(Into::into) }
    }
}

/// An undoing with its types taken off. What is to be undone is given to it when it is needed, out of the history.
pub(crate) struct Undo {
    pub(crate) begin: Box<dyn FnOnce(Payload) -> Work + Send>,
    pub(crate) options: StepOptions,
}

impl Undo {
    pub(crate) fn new<T, Arguments>(mut undo: impl IntoUndo<T, Arguments>, facts: Arc<Facts>) -> Self
    where
        T: DeserializeOwned + 'static,
    {
        let begin = move |input: Payload| -> Work {
            let given = input.clone();
            let work = Work::new(move |attempt| {
                let attempting = facts.codecs.unpack(&input).map(|input| undo.begin(input, attempt));
                let facts = Arc::clone(&facts);
                Box::pin(async move {
                    let undone = attempting.map_err(Failure::from)?.await;
                    facts.pack(&undone.map_err(WorkflowError::into_failure)?)
                })
            });
            work.called_with(move || Some(given.clone()))
        };
        Self {
            begin: Box::new(begin),
            options: undo_options(),
        }
    }
}

/// How an undoing is tried unless it is told otherwise. One that took too long is tried again: nobody else will.
pub(crate) fn undo_options() -> StepOptions {
    StepOptions {
        retry_on_timeout: true,
        ..StepOptions::default()
    }
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
