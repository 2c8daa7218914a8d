//! `ctx.race`: named branches of which the first to complete wins.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use crate::engine::context::Ctx;
use crate::engine::error::{Misuse, Result, WorkflowError};
use crate::engine::journal::Whole;
use crate::engine::scope::Scope;
use crate::engine::verbs::join::Branch;
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::record::{EntryKind, Failure, FailureKind};

/// The branch that won a race, and what it gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Winner<T> {
    /// The name of the branch.
    pub name: String,
    /// What it gave.
    pub value: T,
}

/// A branch on its way.
type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A branch that has not begun, with its name.
type Contestant<'a, W, T> = (String, Box<dyn FnOnce(Ctx<W>) -> Running<'a, T> + Send + 'a>);

/// The branches of a race, with their types taken off: a tuple of up to eight, or a vector of alike ones.
pub trait Contestants<'a, W, T> {
    /// The branches by name.
    fn contestants(self) -> Vec<Contestant<'a, W, T>>;
}

impl<W: 'static> Ctx<W> {
    /// Runs named branches concurrently until the first completes. The others are dropped: their running steps are
    /// cancelled, their sleeps lose their alarms, their waits take no message. A branch that fails drops out; if all
    /// fail, the error has them all.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, branch, ok, workflow};
    ///
    /// #[workflow]
    /// async fn quote(ctx: Ctx<Quote>) -> Result<String> {
    ///     let winner = ctx
    ///         .race("quote", (
    ///             branch("ours", |ctx: Ctx<Quote>| async move { ok(ctx.step("ask", || async { ok(7) }).await?) }),
    ///             branch("too late", |ctx: Ctx<Quote>| async move {
    ///                 ctx.sleep("limit", "1h").await?;
    ///                 ok(0)
    ///             }),
    ///         ))
    ///         .await?;
    ///     ok(format!("{}: {}", winner.name, winner.value))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(quote).open("memory:").await?;
    /// assert_eq!(runtime.start(quote, ()).await?.result().await?, "ours: 7");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn race<'a, T>(
        &self,
        name: &str,
        branches: impl Contestants<'a, W, T>,
    ) -> impl Future<Output = std::result::Result<Winner<T>, Failure>> {
        racing(self.scope(), name, branches, std::panic::Location::caller())
    }
}

async fn racing<'a, W: 'static, T>(
    scope: &Scope,
    name: &str,
    branches: impl Contestants<'a, W, T>,
    call_site: CallSite,
) -> std::result::Result<Winner<T>, Failure> {
    let location = {
        let mut journal = scope.journal().lock();
        let location = journal.locate(scope.location(), name)?;
        journal.know(&location, "race", call_site)?;
        location
    };
    let whole = Whole::begin(scope.journal(), &location);
    let mut running = begin(scope, &location, branches.contestants())?;
    let mut failures = Vec::new();
    let winner = std::future::poll_fn(|cx| {
        let mut at = 0;
        while at < running.len() {
            match running[at].1.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(value)) => return Poll::Ready(Some((running[at].0.clone(), value))),
                Poll::Ready(Err(error)) => {
                    let (name, _) = running.remove(at);
                    failures.push((name, WorkflowError::into_failure(error)));
                }
            }
        }
        if running.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    })
    .await;
    drop(running);
    whole.end();
    settle(scope, &location, winner.as_ref().map(|(name, _)| name.as_str()));
    let Some((name, value)) = winner else {
        let path = scope.journal().lock().names.path(&location);
        let failure = Failure::new(FailureKind::Branches, "every branch failed").at(path);
        return Err(failure.in_branches(failures));
    };
    Ok(Winner { name, value })
}

fn begin<'a, W, T>(
    scope: &Scope,
    location: &Location,
    branches: Vec<Contestant<'a, W, T>>,
) -> std::result::Result<Vec<(String, Running<'a, T>)>, Failure> {
    let mut scopes: Vec<Scope> = Vec::with_capacity(branches.len());
    let mut journal = scope.journal().lock();
    if !journal.entries.contains_key(location) {
        journal.check_branches(branches.len() as u64)?;
    }
    let mut known = HashSet::with_capacity(branches.len());
    for (name, _) in &branches {
        let inside = scope.inside(journal.locate(location, name)?);
        if !known.insert(name.as_str()) {
            return Err(Misuse::BranchTwice(name.clone()).into());
        }
        scopes.push(inside);
    }
    if !journal.entries.contains_key(location) {
        journal.note(location, EntryKind::Race { winner: None });
    }
    drop(known);
    drop(journal);
    let begun = branches.into_iter().zip(scopes);
    Ok(begun
        .map(|((name, body), scope)| (name, body(Ctx::new(scope))))
        .collect())
}

/// Records the winner, or compares it with the one that is recorded.
fn settle(scope: &Scope, location: &Location, winner: Option<&str>) {
    let mut journal = scope.journal().lock();
    let recorded = journal.entries.get(location).map(|entry| entry.kind.clone());
    match (recorded, winner) {
        (Some(EntryKind::Race { winner: Some(recorded) }), Some(winner)) if recorded == winner => {}
        (Some(EntryKind::Race { winner: Some(_) }), Some(winner)) => {
            journal.diverge(location, &format!("race with another winner, `{winner}`"));
        }
        (Some(EntryKind::Race { winner: Some(_) }), None) => journal.diverge(location, "race that nobody wins"),
        (_, Some(winner)) => journal.note(
            location,
            EntryKind::Race {
                winner: Some(winner.to_owned()),
            },
        ),
        (_, None) => {}
    }
}

impl<'a, W, T, F, Fut> Contestants<'a, W, T> for Vec<Branch<F>>
where
    F: FnOnce(Ctx<W>) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T>> + Send + 'a,
{
    fn contestants(self) -> Vec<Contestant<'a, W, T>> {
        self.into_iter().map(Branch::boxed).collect()
    }
}

impl<F> Branch<F> {
    fn boxed<'a, W, T, Fut>(self) -> Contestant<'a, W, T>
    where
        F: FnOnce(Ctx<W>) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let body = self.body;
        (self.name, Box::new(move |ctx| Box::pin(body(ctx))))
    }
}

macro_rules! contestants {
    ($($body:ident $future:ident $index:tt),+) => {
        impl<'a, W, T, $($body, $future),+> Contestants<'a, W, T> for ($(Branch<$body>,)+)
        where
            $($body: FnOnce(Ctx<W>) -> $future + Send + 'a,
            $future: Future<Output = Result<T>> + Send + 'a,)+
        {
            fn contestants(self) -> Vec<Contestant<'a, W, T>> {
                vec![$(self.$index.boxed()),+]
            }
        }
    };
}

contestants!(A FA 0, B FB 1);
contestants!(A FA 0, B FB 1, C FC 2);
contestants!(A FA 0, B FB 1, C FC 2, D FD 3);
contestants!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4);
contestants!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, F FF 5);
contestants!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, F FF 5, G FG 6);
contestants!(A FA 0, B FB 1, C FC 2, D FD 3, E FE 4, F FF 5, G FG 6, H FH 7);
