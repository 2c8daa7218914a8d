//! `ctx.compensate` and `ctx.checkpoint`: what is done when the workflow fails.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::journal::Journal;
use crate::engine::request::StepOptions;
use crate::engine::retry::{Backoff, Retry};
use crate::engine::scope::Scope;
use crate::engine::undo::{IntoUndo, Undo};
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::record::{EntryKind, Failure};

/// A compensation that was registered: it may be told how to be tried.
pub struct Compensation {
    scope: Scope,
    location: Option<Location>,
}

impl<W> Ctx<W> {
    /// Registers what undoes something. If the workflow fails, and only then, `undo` is called with `input`.
    ///
    /// What was registered, and [rollbacks](crate::Step::rollback) of steps, run one after the other in the reverse
    /// order of what was done, each tried by its own options (three attempts unless they say otherwise), and all of
    /// them even if one fails. Neither a cancellation nor a deadline reaches them.
    ///
    /// A name that is taken, or a context that is used outside of its workflow, ends the workflow with that mistake.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ensure, ok, workflow};
    /// async fn release(hold: u32) -> Result<()> {
    ///     ok(println!("released {hold}"))
    /// }
    ///
    /// #[workflow(strategy = "compensate")]
    /// async fn order(ctx: Ctx<Order>, paid: bool) -> Result<()> {
    ///     let hold = ctx.step("reserve", || async { ok(7_u32) }).await?;
    ///     ctx.compensate("release", hold, release).retries(10).timeout("30s");
    ///     ensure!(paid, "nobody paid");
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// runtime.start(order, false).await?.reached(|status| status == Status::Compensated).await?;
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "the caller is done with it")]
    #[track_caller]
    pub fn compensate<T, Arguments>(&self, name: &str, input: T, undo: impl IntoUndo<T, Arguments>) -> Compensation
    where
        T: Serialize + DeserializeOwned + 'static,
    {
        let scope = self.scope().clone();
        let undo = Undo::new(undo, scope.shared_facts());
        match register(&scope, name, &input, undo, std::panic::Location::caller()) {
            Ok(location) => {
                let location = Some(location);
                Compensation { scope, location }
            }
            Err(failure) => {
                scope.journal().lock().misused.get_or_insert(failure);
                let location = None;
                Compensation { scope, location }
            }
        }
    }

    /// From here on, what this iteration of a loop does can be undone; what the iterations before it did no longer.
    ///
    /// A loop may have more iterations than anyone can remember, so in a loop a [compensation](Ctx::compensate) or a
    /// [rollback](crate::Step::rollback) needs a checkpoint before it, in the same iteration. The last iteration that
    /// made one takes part in the undoing, also when the loop is over. Elsewhere a checkpoint changes nothing.
    ///
    /// ```
    /// # use everstep::{Ctx, Loop, Result, Runtime, Status, ensure, ok, workflow};
    /// #[workflow(strategy = "compensate")]
    /// async fn books(ctx: Ctx<Books>, last: u32) -> Result<()> {
    ///     let body = move |ctx: Ctx<Books>, room: u32| async move {
    ///         ctx.checkpoint("booking")?;
    ///         let book = move || async move { ok(room) };
    ///         ctx.step("book", book).rollback(|room: u32| async move { ok(println!("gave back {room}")) }).await?;
    ///         ensure!(room < last, "there are no more rooms");
    ///         ok(Loop::Continue(room + 1))
    ///     };
    ///     ctx.repeat("rooms", 1, body).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(books).open("memory:").await?;
    /// let books = runtime.start(books, 3).await?;
    /// books.reached(|status| status == Status::Compensated).await?;
    /// assert!(books.history().await?.at("rooms/rooms~2/book/rollback").is_some(), "the third room was given back");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn checkpoint(&self, name: &str) -> Result<(), Failure> {
        let mut journal = self.scope().journal().lock();
        let location = journal.locate(self.scope().location(), name)?;
        journal.know(&location, "checkpoint", std::panic::Location::caller())?;
        if !journal.entries.contains_key(&location) {
            journal.note(&location, EntryKind::Checkpoint);
        }
        journal.mark_iterations(self.scope().location());
        Ok(())
    }
}

fn register<T: Serialize>(
    scope: &Scope,
    name: &str,
    input: &T,
    undo: Undo,
    call_site: CallSite,
) -> Result<Location, Failure> {
    let input = scope.pack(input)?;
    let mut journal = scope.journal().lock();
    let location = journal.locate(scope.location(), name)?;
    journal.know(&location, "compensation", call_site)?;
    journal.register(&location, undo)?;
    if !journal.entries.contains_key(&location) {
        let (seen, decided) = (journal.seen, None);
        // What is registered has to be stored with what follows, or it would not be undone.
        journal.has_room_at_once(input.bytes.len())?;
        journal.note(&location, EntryKind::Compensation { input, seen, decided });
    }
    Ok(location)
}

impl Compensation {
    fn option(self, set: impl FnOnce(&mut StepOptions)) -> Self {
        if let Some(location) = &self.location {
            let registered = |journal: &mut Journal| Some(journal.registered(location)?.options.clone());
            let Some(mut options) = registered(&mut self.scope.journal().lock()) else {
                return self;
            };
            // What it had before may be the code of users, and goes when nothing is locked.
            set(&mut options);
            if let Some(undo) = self.scope.journal().lock().registered(location) {
                std::mem::swap(&mut undo.options, &mut options);
            }
        }
        self
    }

    fn duration(&self, duration: Result<std::time::Duration, InvalidDuration>) -> Option<std::time::Duration> {
        let misuse = match duration {
            Ok(duration) => return Some(duration),
            Err(error) => Failure::from(Misuse::from(error)),
        };
        self.scope.journal().lock().misused.get_or_insert(misuse);
        None
    }

    /// Attempts in all, the first included; it is made in any case, so none is taken for one.
    pub fn attempts(self, attempts: u32) -> Self {
        self.option(|options| options.retry.attempts = attempts.max(1))
    }

    /// Attempts after the first.
    pub fn retries(self, retries: u32) -> Self {
        self.attempts(retries.saturating_add(1))
    }

    /// The wait before the second attempt. Those after it grow up to a minute or to this, whichever is longer.
    pub fn delay(self, delay: impl IntoDuration) -> Self {
        let delay = self.duration(delay.into_duration());
        self.option(|options| options.retry.delay = delay.unwrap_or(options.retry.delay))
    }

    /// How waits grow.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.option(|options| options.retry.backoff = backoff)
    }

    /// Everything about retries at once.
    pub fn retry(self, mut retry: Retry) -> Self {
        if let Some(invalid) = retry.invalid.take() {
            self.duration(Err(*invalid));
        }
        self.option(|options| options.retry = retry)
    }

    /// How long an attempt may take. One that takes longer is cancelled, and counts as failed.
    pub fn timeout(self, timeout: impl IntoDuration) -> Self {
        let timeout = self.duration(timeout.into_duration());
        self.option(|options| options.timeout = timeout)
    }
}

impl std::fmt::Debug for Compensation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compensation").finish_non_exhaustive()
    }
}
