//! What a test holds of an instance.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::copies::Copies;
use super::double::{self, Wait};
use super::operate::Kind;
use super::text::or_panic;
use super::{Harness, instances, text};
use crate::engine::{Accepts, Message, Question, Workflow};
use crate::handle::{self, AnyHandle, Description, Error, History, Operated, Sent};
use crate::ids::InstanceId;
use crate::runtime::Runtime;
use crate::storage::payload::Codecs;
use crate::storage::record::{Failure, Status};

/// One instance, as a test sees it: like a [`Handle`](crate::Handle), without awaiting.
///
/// It stays good after a crash. What goes wrong with a call itself, and is not what the test is about, is a panic that
/// says where the instance stands.
pub struct Handle<W> {
    harness: Harness,
    id: String,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Handle<W> {
    pub(super) fn new(harness: Harness, id: String) -> Self {
        let workflow = PhantomData;
        Self { harness, id, workflow }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    #[track_caller]
    fn of(&self, runtime: &Runtime) -> handle::Handle<W> {
        let handle = runtime.instance(&self.id).and_then(|any| any.typed());
        or_panic(handle, |error| format!("{error}"))
    }

    #[track_caller]
    pub(super) fn any(&self, runtime: &Runtime) -> AnyHandle {
        let instance = or_panic(InstanceId::new(&*self.id), |error| format!("{error}"));
        AnyHandle::new(runtime.shared(), instance)
    }

    pub(super) fn harness(&self) -> &Harness {
        &self.harness
    }

    #[track_caller]
    pub(super) fn expect<T>(&self, what: &str, done: Result<T, Error>) -> T {
        or_panic(done, |error| {
            format!("{what} `{}`: {error}\n{}", self.id, self.harness.report())
        })
    }

    /// Sends it a message.
    #[track_caller]
    pub fn send<M: Message>(&self, message: M)
    where
        W: Accepts<M>,
    {
        let sent = self.try_send(message);
        self.expect(&format!("sending {} to", M::NAME), sent);
    }

    /// Sends it a message, and tells what became of it: an instance that has ended takes none.
    pub fn try_send<M: Message>(&self, message: M) -> Result<Sent, Error>
    where
        W: Accepts<M>,
    {
        let (message, id) = (Copies::of(message), self.harness.message_id());
        self.harness
            .first_sent(async |runtime| self.of(runtime).send(message.copy()).id(&id).await)
    }

    /// Asks it a question and waits for the answer, moving the time if that takes any.
    ///
    /// # Panics
    ///
    /// If there is never an answer.
    #[track_caller]
    pub fn ask<Q: Question>(&self, question: Q) -> Q::Reply
    where
        W: Accepts<Q>,
    {
        let answered = self.try_ask(question);
        self.expect(&format!("asking {} of", Q::NAME), answered)
    }

    /// Asks it a question and waits for the answer, and tells why there is none if it refused.
    ///
    /// # Panics
    ///
    /// If it never says anything.
    #[track_caller]
    pub fn try_ask<Q: Question>(&self, question: Q) -> Result<Q::Reply, Error>
    where
        W: Accepts<Q>,
    {
        let (question, id) = (Copies::of(question), self.harness.message_id());
        let answered = self
            .harness
            .wait(async |runtime| self.of(runtime).ask(question.copy()).id(&id).await);
        let Some(answered) = answered else {
            panic!("`{}` never answers {}\n{}", self.id, Q::NAME, self.harness.report());
        };
        answered
    }

    /// Moves the time until the instance has ended, and tells how.
    ///
    /// # Panics
    ///
    /// If it never ends: it waits for something that does not come by itself.
    #[track_caller]
    pub fn run_until_complete(&self) -> Result<W::Output, Failure> {
        let Some(ended) = self.harness.wait(async |runtime| self.of(runtime).result().await) else {
            panic!(
                "`{}` does not come to its end by itself\n{}",
                self.id,
                self.harness.report()
            );
        };
        match ended {
            Err(Error::Failed(failure)) => Err(failure),
            ended => Ok(self.expect("waiting for", ended)),
        }
    }

    /// Moves the time until the instance has completed, and gives what it returned.
    ///
    /// ```
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn naps(ctx: Ctx<Naps>) -> Result<u32> { ctx.sleep("nap", "1d").await?; ok(7) }
    /// # let harness = Harness::new(Runtime::builder().workflow(naps));
    /// assert_eq!(harness.start(naps, ()).output(), 7);
    /// ```
    ///
    /// # Panics
    ///
    /// If it ends in another way, or never, with its history.
    #[track_caller]
    pub fn output(&self) -> W::Output {
        let ended = self.run_until_complete();
        or_panic(ended, |failure| {
            format!("`{}` failed: {failure}\n{}", self.id, self.report())
        })
    }

    /// How it ended; none if it has not. The time does not move.
    #[track_caller]
    pub fn result(&self) -> Option<Result<W::Output, Failure>> {
        if self.status().is_terminal() {
            Some(self.run_until_complete())
        } else {
            None
        }
    }

    /// Where it is in its life.
    #[track_caller]
    pub fn status(&self) -> Status {
        self.describe().status
    }

    /// All that is known of where it stands.
    #[track_caller]
    pub fn describe(&self) -> Description {
        let described = self.harness.call(async |runtime| self.any(runtime).status().await);
        or_panic(described, |error| format!("{error}"))
    }

    /// What it has done.
    #[track_caller]
    pub fn history(&self) -> History {
        let history = self.harness.call(async |runtime| self.any(runtime).history().await);
        or_panic(history, |error| format!("{error}"))
    }

    /// What it has published under a name with [`Ctx::set`](crate::Ctx::set).
    #[track_caller]
    pub fn query<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let found = self.harness.call(async |runtime| self.any(runtime).query(name).await);
        self.expect(&format!("reading `{name}` of"), found)
    }

    /// Asks it to end.
    #[track_caller]
    pub fn cancel(&self, reason: &str) -> Operated {
        let done = self.operated(Kind::Asks, async |any| any.cancel(reason).await);
        self.expect("cancelling", done)
    }

    /// Ends it at once, without cleaning up.
    #[track_caller]
    pub fn terminate(&self, reason: &str) -> Operated {
        let done = self.operated(Kind::Sets, async |any| any.terminate(reason).await);
        self.expect("terminating", done)
    }

    /// Holds it.
    #[track_caller]
    pub fn pause(&self) -> Operated {
        let done = self.operated(Kind::Sets, async |any| any.pause().await);
        self.expect("pausing", done)
    }

    /// Lets it go on.
    #[track_caller]
    pub fn resume(&self) -> Operated {
        let done = self.operated(Kind::Sets, async |any| any.resume().await);
        self.expect("resuming", done)
    }

    /// Gives the step that failed new attempts.
    #[track_caller]
    pub fn retry(&self) -> Operated {
        let done = self.operated(Kind::Renews, async |any| any.retry().await);
        self.expect("retrying", done)
    }

    /// The instance as a file, as `everstep export` writes it: what [`replay_check`](super::replay_check) reads.
    ///
    /// # Panics
    ///
    /// If there is no such instance.
    #[track_caller]
    pub fn export(&self) -> String {
        let instance = or_panic(InstanceId::new(&*self.id), |error| format!("{error}"));
        self.harness.with_store(|store| {
            let mut file = Vec::new();
            let exported = store.export_instance(&instance, &mut file);
            or_panic(exported, |error| format!("{error}"));
            String::from_utf8(file).expect("an export is text")
        })
    }

    /// Where it stands, for a report.
    pub(super) fn report(&self) -> String {
        let hint = self.harness.hint();
        text::description(self.codecs(), &self.describe(), &self.history(), &self.waits()) + &hint
    }

    /// How its values are read.
    pub(super) fn codecs(&self) -> &Codecs {
        self.harness.inner.builder.codecs()
    }

    /// What its code waits for.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let instance = or_panic(InstanceId::new(&*self.id), |error| format!("{error}"));
        let builder = &self.harness.inner.builder;
        self.harness
            .with_store(|store| double::waits(store, builder, &instance))
    }
}

impl Harness {
    /// Where everyone stands, for a report.
    pub(super) fn report(&self) -> String {
        let hint = self.hint();
        let report = self.living(|life| {
            life.run(async {
                let mut report = String::new();
                for id in instances(life.runtime().store()) {
                    let any = life.runtime().instance(&id).expect("the id of an instance is one");
                    if let (Ok(described), Ok(history)) = (any.status().await, any.history().await) {
                        let waits = double::waits(life.runtime().store(), &self.inner.builder, any.id());
                        report.push_str(&text::description(
                            self.inner.builder.codecs(),
                            &described,
                            &history,
                            &waits,
                        ));
                    }
                }
                report
            })
        });
        report + &hint
    }
}

impl<W> Clone for Handle<W> {
    fn clone(&self) -> Self {
        Self {
            harness: self.harness.clone(),
            id: self.id.clone(),
            workflow: PhantomData,
        }
    }
}

impl<W> std::fmt::Debug for Handle<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}
