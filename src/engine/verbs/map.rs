//! `ctx.map`: the same for many items, a bounded number at a time.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream;

use crate::engine::context::Ctx;
use crate::engine::error::{Misuse, Result, WorkflowError};
use crate::engine::journal::Whole;
use crate::engine::scope::Scope;
use crate::engine::witness::CallSite;
use crate::location::{Location, Segment};
use crate::storage::record::{EntryKind, Failure, FailureKind};

impl<W: 'static> Ctx<W> {
    /// Does the same for every item, at most `concurrency` at a time, each in a scope of its own. Results come in the
    /// order of the items; all run to their end even if one fails.
    ///
    /// What is recorded belongs to the first item, the second, and so on. So the items have to come in the same order
    /// whenever the function is called, as those of a vector do; a `HashMap` or a `HashSet` has another order after a
    /// restart, and would give what was recorded for one item to another. Sort them first. That there are as many as there
    /// were is checked; that they are the same can't be.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn restock(ctx: Ctx<Restock>, stock: HashMap<String, u32>) -> Result<Vec<String>> {
    ///     let mut stock: Vec<_> = stock.into_iter().collect();
    ///     stock.sort();
    ///     let order = |ctx: Ctx<Restock>, (name, count): (String, u32)| async move {
    ///         let order = move || { let name = name.clone(); async move { ok(format!("{count} {name}")) } };
    ///         ok(ctx.step("order", order).await?)
    ///     };
    ///     ok(ctx.map("orders", stock, 8, order).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(restock).open("memory:").await?;
    /// let stock = HashMap::from([("tea".to_owned(), 2), ("milk".to_owned(), 1)]);
    /// assert_eq!(runtime.start(restock, stock).await?.result().await?, ["1 milk", "2 tea"]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn map<I, T, F, Fut>(
        &self,
        name: &str,
        items: I,
        concurrency: usize,
        body: F,
    ) -> impl Future<Output = std::result::Result<Vec<T>, Failure>>
    where
        I: IntoIterator,
        F: Fn(Ctx<W>, I::Item) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        mapping(
            self.scope(),
            name,
            items,
            concurrency,
            body,
            std::panic::Location::caller(),
        )
    }
}

async fn mapping<W: 'static, I, T, F, Fut>(
    scope: &Scope,
    name: &str,
    items: I,
    concurrency: usize,
    body: F,
    call_site: CallSite,
) -> std::result::Result<Vec<T>, Failure>
where
    I: IntoIterator,
    F: Fn(Ctx<W>, I::Item) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let items: Vec<I::Item> = items.into_iter().collect();
    let (location, index) = begin(scope, name, items.len() as u64, call_site)?;
    let whole = Whole::begin(scope.journal(), &location);
    let bodies = items.into_iter().zip(0_u64..).map(|(item, number)| {
        let inside = location.child(Segment::Iteration { name: index, number });
        let inside = inside.map(|inside| body(Ctx::new(scope.inside(inside)), item));
        async move {
            let ended = match inside {
                Ok(running) => running.await,
                Err(error) => Err(error.into()),
            };
            (number, ended)
        }
    });
    // Whoever is done makes room, also for what comes after one that takes long.
    let running = stream::iter(bodies).buffer_unordered(concurrency.max(1));
    let mut results: Vec<(u64, Result<T>)> = running.collect().await;
    whole.end();
    results.sort_unstable_by_key(|(number, _)| *number);
    let mut values = Vec::with_capacity(results.len());
    let mut failures = Vec::new();
    for (number, result) in results {
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
    let failure = Failure::new(FailureKind::Branches, message).at(path);
    Err(failure.in_branches(failures))
}

/// Finds the place of a map. History may know it already, and then must know it with as many items.
fn begin(scope: &Scope, name: &str, items: u64, call_site: CallSite) -> std::result::Result<(Location, u32), Failure> {
    let mut journal = scope.journal().lock();
    let location = journal.locate(scope.location(), name)?;
    journal.know(&location, "map", call_site)?;
    // What is recorded was within the bounds of its time.
    if !journal.entries.contains_key(&location) {
        journal.check_branches(items)?;
    }
    match journal.entries.get(&location).map(|entry| &entry.kind) {
        Some(EntryKind::Map { items: recorded }) if *recorded != items => {
            journal.diverge(&location, &format!("map of {items} items"));
        }
        Some(_) => {}
        None => journal.note(&location, EntryKind::Map { items }),
    }
    let index = journal.names.index(name).map_err(Misuse::from)?;
    Ok((location, index))
}
