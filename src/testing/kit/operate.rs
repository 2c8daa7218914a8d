//! What a test does to an instance from outside, and the answer that it gets.
//!
//! A call that the process dies of is made again with the next process, as a careful caller does. The answer to the
//! second one says what the first has already done (`Duplicate`, `Already`, `Ended`), which is not what the test asked
//! for: it gets the answer that the first call would have had. Between two calls of a test everybody rests, so what was
//! done when the process died was done by this call.

use std::cell::Cell;

use super::copies::Copies;
use super::{Handle, Harness};
use crate::engine::{Message, Workflow};
use crate::handle::{AnyHandle, Description, Effect, Error, Operated, Publishing, Sent};
use crate::runtime::Runtime;
use crate::storage::record::Status;

impl Harness {
    /// Does something with the runtime, and tells whether the process died of it, so that it was done again.
    #[expect(clippy::needless_pass_by_value, reason = "closures are given as they are written")]
    pub(super) fn call_again<T>(&self, work: impl AsyncFn(&Runtime, bool) -> T) -> (T, bool) {
        let calls = Cell::new(0_u32);
        let done = self.call(async |runtime| {
            calls.set(calls.get() + 1);
            work(runtime, calls.get() > 1).await
        });
        (done, calls.get() > 1)
    }

    /// Sends something, and tells what became of it when it was sent first.
    #[expect(clippy::needless_pass_by_value, reason = "closures are given as they are written")]
    pub(super) fn first_sent(&self, work: impl AsyncFn(&Runtime) -> Result<Sent, Error>) -> Result<Sent, Error> {
        match self.call_again(async |runtime, _| work(runtime).await) {
            (Ok(Sent::Duplicate), true) => Ok(Sent::Accepted),
            (sent, _) => sent,
        }
    }

    /// Publishes an event with all that [`Runtime::publish`] can be told: for one of those who wait, or kept for longer.
    ///
    /// ```
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Rang { times: u32 }
    /// # #[workflow] async fn hears(ctx: Ctx<Hears>) -> Result<u32> { ok(ctx.wait_event::<Rang>().await?.times) }
    /// # let harness = Harness::new(Runtime::builder().workflow(hears));
    /// harness.publish_with(Rang { times: 3 }, |event| event.to_one().keep("7d"));
    /// harness.advance("6d");
    /// assert_eq!(harness.start(hears, ()).output(), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// If the runtime refuses the event.
    #[track_caller]
    pub fn publish_with<E: Message>(&self, event: E, with: impl Fn(Publishing<E>) -> Publishing<E>) {
        let (event, id) = (Copies::of(event), self.message_id());
        let published = self.call(async |runtime| with(runtime.publish(event.copy()).id(&id)).await);
        published.unwrap_or_else(|error| panic!("`{}` could not be published: {error}", E::NAME));
    }
}

/// What doing it twice would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is asked for once, and what is paused or held is asked until it goes on.
    Asks,
    /// It is so, or it is not.
    Sets,
    /// Each time it begins another run.
    Renews,
}

impl<W: Workflow> Handle<W> {
    /// Does something to the instance, and tells what it came to when it was done first.
    pub(super) fn operated(
        &self,
        kind: Kind,
        work: impl AsyncFn(AnyHandle) -> Result<Operated, Error>,
    ) -> Result<Operated, Error> {
        let before = self
            .harness()
            .call(async |runtime| self.any(runtime).status().await)
            .ok();
        let (done, again) = self.harness().call_again(async |runtime, again| {
            let any = self.any(runtime);
            if let Some(before) = before.as_ref().filter(|_| again && kind == Kind::Renews)
                && let Some(now) = any.status().await.ok().filter(|now| now.run > before.run)
            {
                // A second one would begin another run behind the one that was asked for.
                return Ok(first(before, now.status));
            }
            work(any).await
        });
        let did_nothing = |done: &Operated| matches!(done.effect, Effect::Already | Effect::Ended);
        match (done, before) {
            (Ok(done), Some(before)) if again && did_nothing(&done) => Ok(Operated {
                effect: effect(kind, &before),
                ..first(&before, done.now)
            }),
            (done, _) => done,
        }
    }

    /// Takes it back to an operation in its history, by its path: that one and what came behind it are done again, in
    /// another run.
    #[track_caller]
    pub fn reset(&self, to: &str) -> Operated {
        let done = self.operated(Kind::Renews, async |any| any.reset(to).await);
        self.expect("resetting", done)
    }

    /// Lets it go on if it was put into quarantine, or tries it again if it is stuck or parked.
    #[track_caller]
    pub fn release(&self) -> Operated {
        let done = self.operated(Kind::Renews, async |any| any.release().await);
        self.expect("releasing", done)
    }

    /// Removes it, with everything that is stored of it.
    ///
    /// # Panics
    ///
    /// If it has not ended.
    #[track_caller]
    pub fn delete(&self) {
        let deleted = self
            .harness()
            .call_again(async |runtime, _| self.any(runtime).delete().await);
        match deleted {
            (Err(Error::Deleted(_)), true) => {}
            (deleted, _) => self.expect("deleting", deleted),
        }
    }
}

fn effect(kind: Kind, before: &Description) -> Effect {
    let held = matches!(before.status, Status::Stuck | Status::Parked | Status::Quarantined);
    match kind {
        Kind::Asks if before.paused || held => Effect::Asked,
        Kind::Asks | Kind::Sets | Kind::Renews => Effect::Done,
    }
}

/// The answer to whoever did it first.
fn first(before: &Description, now: Status) -> Operated {
    Operated {
        effect: Effect::Done,
        before: before.status,
        now,
    }
}
