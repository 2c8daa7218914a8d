//! `ctx.join`: named branches that all run to their end.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::context::Ctx;
use crate::engine::error::{Misuse, Result, WorkflowError};
use crate::engine::journal::Whole;
use crate::engine::scope::Scope;
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::record::{BranchStatus, EntryKind, Failure, FailureKind};

/// Branches of a join up to which the end of each is stored along with what ended it.
const EACH_STORED_MAX: usize = 64;

/// A named part of a join or a race.
#[derive(Debug)]
pub struct Branch<F> {
    pub(crate) name: String,
    pub(crate) body: F,
}

/// A branch: a name, and a closure that is given a context of its own.
pub fn branch<W, F, Fut, T>(name: &str, body: F) -> Branch<F>
where
    F: FnOnce(Ctx<W>) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    Branch {
        name: name.to_owned(),
        body,
    }
}

/// The branches of a join: a tuple of up to eight, or a vector of alike ones.
pub trait Branches<W> {
    /// What the join gives: the results, in the same shape.
    type Output;

    /// Runs all branches to their end.
    fn run(self, join: JoinScope) -> impl Future<Output = std::result::Result<Self::Output, Failure>> + Send;
}

/// The scope of a join, and what is recorded of its branches.
#[derive(Debug, Clone)]
pub struct JoinScope {
    scope: Scope,
    location: Location,
    /// Branches that have not ended.
    running: Arc<AtomicUsize>,
}

impl JoinScope {
    fn begin(scope: &Scope, name: &str, call_site: CallSite) -> std::result::Result<Self, Failure> {
        let mut journal = scope.journal().lock();
        let location = journal.locate(scope.location(), name)?;
        journal.know(&location, "join", call_site)?;
        Ok(Self {
            scope: scope.clone(),
            location,
            running: Arc::new(AtomicUsize::new(0)),
        })
    }

    fn declare(&self, names: &[&str]) -> std::result::Result<Vec<Scope>, Failure> {
        self.running.store(names.len(), Ordering::Relaxed);
        let mut journal = self.scope.journal().lock();
        if !journal.entries.contains_key(&self.location) {
            journal.check_branches(names.len() as u64)?;
        }
        let mut scopes = Vec::with_capacity(names.len());
        let mut known = HashSet::with_capacity(names.len());
        for name in names {
            let location = journal.locate(&self.location, name)?;
            if !known.insert(*name) {
                return Err(Misuse::BranchTwice((*name).to_owned()).into());
            }
            scopes.push(self.scope.inside(location));
        }
        match journal.entries.get(&self.location).map(|entry| &entry.kind) {
            Some(EntryKind::Join { branches }) => {
                if !branches.iter().map(|(name, _)| name.as_str()).eq(names.iter().copied()) {
                    journal.diverge(&self.location, &format!("join of {}", names.join(", ")));
                }
            }
            Some(_) => {}
            None => {
                let running = |name: &&str| ((*name).to_owned(), BranchStatus::Running);
                let branches = names.iter().map(running).collect();
                journal.note(&self.location, EntryKind::Join { branches });
            }
        }
        Ok(scopes)
    }

    /// A branch has ended. History may know already, and then must know the same.
    fn ended(&self, index: usize, completed: bool) {
        let status = if completed {
            BranchStatus::Completed
        } else {
            BranchStatus::Failed
        };
        let running = self.running.fetch_sub(1, Ordering::Relaxed);
        let mut journal = self.scope.journal().lock();
        let entry = journal.entries.get_mut(&self.location);
        let Some(EntryKind::Join { branches }) = entry.map(|entry| &mut entry.kind) else {
            return;
        };
        let many = branches.len() > EACH_STORED_MAX;
        match branches.get_mut(index) {
            Some((_, before @ (BranchStatus::Pending | BranchStatus::Running))) => {
                *before = status;
                // The whole list is stored each time, so a long one is not stored for each of its branches.
                if !many || running == 1 {
                    journal.dirty.push(self.location.clone());
                }
            }
            Some((name, before)) if *before != status => {
                let asked = format!("join whose branch `{name}` ended as {status:?}").to_lowercase();
                journal.diverge(&self.location, &asked);
            }
            _ => {}
        }
    }

    fn path(&self) -> String {
        self.scope.journal().lock().names.path(&self.location)
    }

    fn failed(&self, branches: Vec<(String, Failure)>) -> Failure {
        let message = format!("{} of the branches failed", branches.len());
        let failure = Failure::new(FailureKind::Branches, message).at(self.path());
        failure.in_branches(branches)
    }

    async fn watch<T>(&self, index: usize, body: impl Future<Output = Result<T>>) -> Result<T> {
        let result = body.await;
        self.ended(index, result.is_ok());
        result
    }
}

impl<W: 'static> Ctx<W> {
    /// Runs named branches concurrently, each in a scope of its own, all to their end even if one fails. The error
    /// says which failed and how.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, branch, ok, workflow};
    ///
    /// #[workflow]
    /// async fn page(ctx: Ctx<Page>) -> Result<u32> {
    ///     let (user, posts) = ctx
    ///         .join("fetch", (
    ///             branch("user", |ctx: Ctx<Page>| async move { ok(ctx.step("get", || async { ok(1) }).await?) }),
    ///             branch("posts", |ctx: Ctx<Page>| async move { ok(ctx.step("get", || async { ok(2) }).await?) }),
    ///         ))
    ///         .await?;
    ///     ok(user + posts)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(page).open("memory:").await?;
    /// assert_eq!(runtime.start(page, ()).await?.result().await?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn join<B: Branches<W>>(
        &self,
        name: &str,
        branches: B,
    ) -> impl Future<Output = std::result::Result<B::Output, Failure>> {
        let call_site = std::panic::Location::caller();
        async move {
            let join = JoinScope::begin(self.scope(), name, call_site)?;
            let whole = Whole::begin(self.scope().journal(), &join.location);
            let ended = branches.run(join).await;
            whole.end();
            ended
        }
    }
}

impl<W, F, Fut, T> Branches<W> for Vec<Branch<F>>
where
    W: 'static,
    F: FnOnce(Ctx<W>) -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
    T: Send,
{
    type Output = Vec<T>;

    async fn run(self, join: JoinScope) -> std::result::Result<Vec<T>, Failure> {
        let names: Vec<_> = self.iter().map(|branch| branch.name.clone()).collect();
        let scopes = join.declare(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let bodies = self.into_iter().zip(scopes).enumerate();
        let running = bodies.map(|(index, (branch, scope))| {
            let body = (branch.body)(Ctx::new(scope));
            let join = join.clone();
            async move { join.watch(index, body).await }
        });
        let results = futures_util::future::join_all(running).await;
        gather(&join, names.into_iter().zip(results))
    }
}

fn gather<T>(
    join: &JoinScope,
    results: impl Iterator<Item = (String, Result<T>)>,
) -> std::result::Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    let mut failures = Vec::new();
    for (name, result) in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => failures.push((name, WorkflowError::into_failure(error))),
        }
    }
    if failures.is_empty() {
        Ok(values)
    } else {
        Err(join.failed(failures))
    }
}

macro_rules! branches {
    ($($branch:ident $body:ident $future:ident $output:ident $index:tt),+) => {
        impl<W, $($body, $future, $output),+> Branches<W> for ($(Branch<$body>,)+)
        where
            W: 'static,
            $($body: FnOnce(Ctx<W>) -> $future + Send,
            $future: Future<Output = Result<$output>> + Send,
            $output: Send,)+
        {
            type Output = ($($output,)+);

            async fn run(self, join: JoinScope) -> std::result::Result<Self::Output, Failure> {
                let names = [$(self.$index.name.clone()),+];
                let scopes = join.declare(&names.each_ref().map(String::as_str))?;
                let results = futures_util::join!($(
                    join.watch($index, (self.$index.body)(Ctx::new(scopes[$index].clone())))
                ),+);
                let mut failures = Vec::new();
                $(if let Err(error) = &results.$index {
                    failures.push((names[$index].clone(), error.failure().clone()));
                })+
                match results {
                    ($(Ok($branch),)+) => Ok(($($branch,)+)),
                    _ => Err(join.failed(failures)),
                }
            }
        }
    };
}

branches!(a A FA TA 0, b B FB TB 1);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2, d D FD TD 3);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2, d D FD TD 3, e E FE TE 4);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2, d D FD TD 3, e E FE TE 4, f F FF TF 5);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2, d D FD TD 3, e E FE TE 4, f F FF TF 5, g G FG TG 6);
branches!(a A FA TA 0, b B FB TB 1, c C FC TC 2, d D FD TD 3, e E FE TE 4, f F FF TF 5, g G FG TG 6, h H FH TH 7);
