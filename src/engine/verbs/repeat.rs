//! `ctx.repeat`: the durable loop.
//!
//! The body is given the state and returns the next one, or breaks with a value. Every so many iterations the state
//! is recorded, and what lies before it never has to be replayed again; every so many, the history of old iterations
//! is removed. So a loop of a million iterations costs no more disk, memory or replay than one of a hundred.

use std::any::type_name;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Millis;
use crate::engine::bounds::Exceeded;
use crate::engine::context::Ctx;
use crate::engine::error::{Misuse, Result};
use crate::engine::journal::{Again, SharedJournal, Whole, poll_inside};
use crate::engine::witness::CallSite;
use crate::limits::VALUE_BYTES_MAX;
use crate::location::{Location, Segment, TooDeep};
use crate::storage::payload::Payload;
use crate::storage::record::{EntryKind, Failure, LoopState, Retained};

/// What the row of a loop has beside its payloads, at most.
const ENTRY_BYTES: usize = 1024;

/// How an iteration ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loop<S, T> {
    /// Go on with this state.
    Continue(S),
    /// End the loop with this value.
    Break(T),
}

/// A loop on its way; await it.
#[must_use = "a loop does nothing until it is awaited"]
pub struct Repeat<'a, W, S, T, F> {
    ctx: Ctx<W>,
    name: String,
    state: S,
    body: F,
    commit_interval: u64,
    history_every: u64,
    history_keep: u64,
    call_site: CallSite,
    output: PhantomData<fn() -> &'a T>,
}

impl<W: 'static> Ctx<W> {
    /// Repeats `body` until it breaks. Each iteration is a scope of its own.
    ///
    /// After a restart the loop goes on from the last state that was recorded, not from its beginning. So the state is
    /// all that outlives an iteration: what `body` counts or collects elsewhere begins anew. In an iteration use the
    /// context that `body` is given. The context around the loop, and what was made with it and never awaited before the
    /// loop, answer with an error there.
    ///
    /// ```
    /// use everstep::{Ctx, Loop, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn pages(ctx: Ctx<Pages>) -> Result<u32> {
    ///     ok(ctx
    ///         .repeat("pages", 0, |ctx: Ctx<Pages>, page: u32| async move {
    ///             let last = ctx.step("fetch", move || async move { ok(page >= 9) }).await?;
    ///             ok(if last { Loop::Break(page) } else { Loop::Continue(page + 1) })
    ///         })
    ///         .await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(pages).open("memory:").await?;
    /// assert_eq!(runtime.start(pages, ()).await?.result().await?, 9);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn repeat<'a, S, T, F, Fut>(&self, name: &str, state: S, body: F) -> Repeat<'a, W, S, T, F>
    where
        S: Serialize + DeserializeOwned + Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'a,
        F: FnMut(Ctx<W>, S) -> Fut + Send + 'a,
        Fut: Future<Output = Result<Loop<S, T>>> + Send + 'a,
    {
        Repeat {
            ctx: self.clone(),
            name: name.to_owned(),
            state,
            body,
            commit_interval: 20,
            history_every: 20,
            history_keep: 20,
            call_site: std::panic::Location::caller(),
            output: PhantomData,
        }
    }
}

impl<W, S, T, F> Repeat<'_, W, S, T, F> {
    /// Records the state every so many iterations.
    pub fn commit_interval(self, iterations: u64) -> Self {
        Self {
            commit_interval: iterations.max(1),
            ..self
        }
    }

    /// Removes the history of old iterations every so many iterations.
    pub fn history_every(self, iterations: u64) -> Self {
        Self {
            history_every: iterations.max(1),
            ..self
        }
    }

    /// Keeps the history of so many iterations.
    pub fn history_keep(self, iterations: u64) -> Self {
        Self {
            history_keep: iterations,
            ..self
        }
    }
}

impl<'a, W, S, T, F, Fut> IntoFuture for Repeat<'a, W, S, T, F>
where
    W: 'static,
    S: Serialize + DeserializeOwned + Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    F: FnMut(Ctx<W>, S) -> Fut + Send + 'a,
    Fut: Future<Output = Result<Loop<S, T>>> + Send + 'a,
{
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A loop that has found its place.
struct Begun {
    location: Location,
    name: u32,
    recorded: LoopState,
}

impl Begun {
    /// Where an iteration is.
    fn iteration(&self, number: u64) -> std::result::Result<Location, TooDeep> {
        let name = self.name;
        self.location.child(Segment::Iteration { name, number })
    }
}

impl<W: 'static, S, T, F> Repeat<'_, W, S, T, F>
where
    S: Serialize + DeserializeOwned + Send,
    T: Serialize + DeserializeOwned + Send,
{
    async fn run<Fut>(mut self) -> Result<T>
    where
        F: FnMut(Ctx<W>, S) -> Fut + Send,
        Fut: Future<Output = Result<Loop<S, T>>> + Send,
    {
        let begun = self.begin()?;
        let whole = Whole::begin(self.ctx.scope().journal(), &begun.location);
        let ended = self.go_on(begun).await;
        whole.end();
        ended
    }

    /// Goes on where the loop stands, to its end.
    async fn go_on<Fut>(&mut self, mut begun: Begun) -> Result<T>
    where
        F: FnMut(Ctx<W>, S) -> Fut + Send,
        Fut: Future<Output = Result<Loop<S, T>>> + Send,
    {
        let journal = self.ctx.scope().journal().clone();
        if let Some(retained) = begun.recorded.undo.clone() {
            self.go_through_again(&begun, retained).await?;
        }
        let (seen, now_ms) = (begun.recorded.seen, begun.recorded.now_ms);
        resume(journal.clone(), seen, now_ms).await;
        if let Some(output) = &begun.recorded.output {
            return self.read(&begun, output);
        }
        let mut state: S = self.read(&begun, &begun.recorded.state)?;
        // What is recorded was within the bounds of its time.
        let (mut iteration, mut packed) = (begun.recorded.iteration, begun.recorded.state.clone());
        loop {
            let inside = begun.iteration(iteration)?;
            let ctx = Ctx::new(self.ctx.scope().inside(inside.clone()));
            self.enter(&begun, iteration, packed);
            let next = poll_inside(&journal, &inside, || (self.body)(ctx, state)).await?;
            journal.lock().leave_iteration(&begun.location, &inside, iteration);
            iteration += 1;
            match next {
                Loop::Continue(next) => {
                    packed = self.pack(&next)?;
                    if iteration.is_multiple_of(self.commit_interval) {
                        begun.recorded.iteration = iteration;
                        begun.recorded.state = packed.clone();
                        self.record(&mut begun)?;
                    }
                    state = next;
                }
                Loop::Break(value) => {
                    begun.recorded.iteration = iteration;
                    begun.recorded.output = Some(self.pack(&value)?);
                    // Nobody goes on from there any more.
                    begun.recorded.state = Payload::nothing();
                    self.record(&mut begun)?;
                    return Ok(value);
                }
            }
        }
    }

    /// Goes once more through the iteration that can be undone, over what is recorded of it: so that what undoes it is
    /// known again. It ended well then, and does so now.
    async fn go_through_again<Fut>(&mut self, begun: &Begun, retained: Retained) -> Result<()>
    where
        F: FnMut(Ctx<W>, S) -> Fut + Send,
        Fut: Future<Output = Result<Loop<S, T>>> + Send,
    {
        let scope = self.ctx.scope().clone();
        resume(scope.journal().clone(), retained.seen, retained.now_ms).await;
        let inside = begun.iteration(retained.iteration)?;
        let state: S = self.read(begun, &retained.state)?;
        let number = retained.iteration;
        scope.journal().lock().enter_iteration(&begun.location, retained);
        let again = Again::begin(scope.journal(), &inside);
        let ctx = Ctx::new(scope.inside(inside.clone()));
        let ended = poll_inside(scope.journal(), &inside, || (self.body)(ctx, state)).await;
        drop(again);
        let mut journal = scope.journal().lock();
        if ended.is_err() {
            journal.diverge(&begun.location, "loop whose iteration fails");
        }
        journal.leave_iteration(&begun.location, &inside, number);
        drop(journal);
        ended.map(|_| ())
    }

    /// Remembers how an iteration begins.
    fn enter(&self, begun: &Begun, iteration: u64, state: Payload) {
        let mut journal = self.ctx.scope().journal().lock();
        let (seen, now_ms) = (journal.seen, journal.now_ms);
        let running = Retained {
            iteration,
            state,
            seen,
            now_ms,
        };
        journal.enter_iteration(&begun.location, running);
    }

    /// Reads what is recorded of the loop. If that can't be read, the code is not the code that it was recorded for.
    fn read<V: DeserializeOwned>(&self, begun: &Begun, recorded: &Payload) -> Result<V> {
        let read = self.ctx.scope().codecs().unpack(recorded);
        Ok(read.inspect_err(|error| {
            let asked = format!("loop with a {}, which says: {error}", type_name::<V>());
            self.ctx.scope().journal().lock().diverge(&begun.location, &asked);
        })?)
    }

    /// A value as it will be stored, if it is not too large for that. One from the past was not; so one that is ends the
    /// function, or code that went on from the error would not get it again.
    fn pack<V: Serialize>(&self, value: &V) -> Result<Payload> {
        let scope = self.ctx.scope();
        let packed = scope.codecs().pack(value)?;
        let mut journal = scope.journal().lock();
        if journal.caught_up()
            && let Err(exceeded) = journal.bounds.check_payload(packed.bytes.len())
        {
            journal.refuse(exceeded).map_err(Failure::from)?;
        }
        Ok(packed)
    }

    fn begin(&self) -> Result<Begun> {
        let scope = self.ctx.scope();
        let state = scope.codecs().pack(&self.state)?;
        let mut journal = scope.journal().lock();
        let location = journal.locate(scope.location(), &self.name).map_err(Failure::from)?;
        journal.know(&location, "loop", self.call_site).map_err(Failure::from)?;
        let name = journal.names.index(&self.name).map_err(Misuse::from);
        let name = name.map_err(Failure::from)?;
        let recorded = match journal.entries.get(&location).map(|entry| entry.kind.clone()) {
            Some(EntryKind::Loop(recorded)) => recorded,
            _ => {
                // What is recorded was within the bounds of its time.
                journal.bounds.check_payload(state.bytes.len()).map_err(Failure::from)?;
                let recorded = LoopState {
                    iteration: 0,
                    state,
                    kept_from: 0,
                    output: None,
                    seen: journal.seen,
                    now_ms: journal.now_ms,
                    undo: None,
                };
                journal.note(&location, EntryKind::Loop(recorded.clone()));
                recorded
            }
        };
        // What lies before the recorded state is over: its completions have nobody to be delivered to.
        let over = if recorded.output.is_some() {
            u64::MAX
        } else {
            recorded.iteration
        };
        let retained = recorded.undo.as_ref().map(|retained| retained.iteration);
        journal.leave_iterations(&location, name, over, retained);
        Ok(Begun {
            location,
            name,
            recorded,
        })
    }

    /// Records where the loop stands, and removes the history of iterations that are not kept.
    ///
    /// Not at a moment that replay could not find again: there it goes through the last iterations once more. And not
    /// after a mistake that ends the function: replay has to come to it again.
    fn record(&self, begun: &mut Begun) -> std::result::Result<(), Failure> {
        let mut journal = self.ctx.scope().journal().lock();
        if !journal.is_told_by_place() || journal.misused.is_some() {
            return Ok(());
        }
        let marked = journal.marked_iteration(&begun.location).cloned();
        let before = std::mem::replace(&mut begun.recorded.undo, marked);
        // Each part of it is within bounds, and all of them are one row. If they are too much nothing may be removed: replay
        // begins where the loop was recorded last.
        let bytes = EntryKind::Loop(begun.recorded.clone()).bytes();
        let max = VALUE_BYTES_MAX - ENTRY_BYTES;
        if bytes > max {
            return Ok(journal.refuse(Exceeded::Payload { bytes, max })?);
        }
        let LoopState {
            iteration,
            kept_from,
            output,
            undo,
            ..
        } = &begun.recorded;
        let retained = undo.as_ref().map(|retained| retained.iteration);
        // One that was kept for its undoing alone has no more use.
        if let Some(before) = before.map(|before| before.iteration)
            && before < *kept_from
            && retained != Some(before)
            && let Ok(old) = begun.iteration(before)
        {
            journal.trim(&old);
        }
        let keep_from = iteration.saturating_sub(self.history_keep);
        if keep_from >= kept_from.saturating_add(if output.is_some() { 1 } else { self.history_every }) {
            for number in (*kept_from..keep_from).filter(|number| retained != Some(*number)) {
                if let Ok(old) = begun.iteration(number) {
                    journal.trim(&old);
                }
            }
            begun.recorded.kept_from = keep_from;
        }
        begun.recorded.seen = journal.seen;
        begun.recorded.now_ms = journal.now_ms;
        journal.note(&begun.location, EntryKind::Loop(begun.recorded.clone()));
        Ok(())
    }
}

/// Waits until replay has come to where the state was recorded: what the loop does next, it did there.
async fn resume(journal: SharedJournal, seen: u64, now_ms: Millis) {
    std::future::poll_fn(|cx| {
        let mut journal = journal.lock();
        if journal.has_come_to(seen, now_ms, cx.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
