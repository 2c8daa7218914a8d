//! `ctx.map`: the same for many items, a bounded number at a time.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream;

use crate::engine::context::Ctx;
use crate::engine::error::{Result, WorkflowError};
use crate::location::Segment;
use crate::storage::record::{Failure, FailureKind};

impl<W: 'static> Ctx<W> {
    /// Does the same for every item, at most `concurrency` at a time, each in a scope of its own. Results come in the
    /// order of the items; all run to their end even if one fails.
    pub async fn map<I, T, F, Fut>(
        &self,
        name: &str,
        items: I,
        concurrency: usize,
        body: F,
    ) -> std::result::Result<Vec<T>, Failure>
    where
        I: IntoIterator,
        F: Fn(Ctx<W>, I::Item) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let scope = self.scope();
        let (location, index) = {
            let mut journal = scope.journal().lock();
            let location = journal.locate(scope.location(), name)?;
            journal.know(&location, "map")?;
            (
                location,
                journal.names.index(name).map_err(crate::engine::error::Misuse::from)?,
            )
        };
        let bodies = items.into_iter().zip(0_u64..).map(|(item, number)| {
            let inside = location.child(Segment::Iteration { name: index, number });
            let inside = inside.map(|inside| body(Ctx::new(scope.inside(inside)), item));
            async move {
                match inside {
                    Ok(running) => running.await,
                    Err(error) => Err(error.into()),
                }
            }
        });
        let results: Vec<Result<T>> = stream::iter(bodies).buffered(concurrency.max(1)).collect().await;
        let mut values = Vec::with_capacity(results.len());
        let mut failures = Vec::new();
        for (number, result) in results.into_iter().enumerate() {
            match result {
                Ok(value) => values.push(value),
                Err(error) => failures.push((format!("{number}"), WorkflowError::into_failure(error))),
            }
        }
        if failures.is_empty() {
            return Ok(values);
        }
        let path = scope.journal().lock().names.path(&location);
        let message = format!("{} of {} items failed", failures.len(), failures.len() + values.len());
        Err(Failure {
            branches: failures,
            ..Failure::new(FailureKind::Branches, message).at(path)
        })
    }
}
