//! `ctx.question`: messages that expect an answer.

use std::marker::PhantomData;
use std::ops::Deref;

use serde::Serialize;

use crate::engine::context::Ctx;
use crate::engine::error::unanswered;
use crate::engine::message::Question;
use crate::engine::operation::Operation;
use crate::engine::scope::Scope;
use crate::engine::verbs::receive::{Receive, told, unpack};
use crate::engine::workflow::Accepts;
use crate::ids::MessageId;
use crate::storage::record::{self, Content, Decided, Failure, FailureKind};

/// A question that was asked, and the way to answer it. It reads like the question itself.
///
/// Whoever asked waits until it is answered. Dropping it answers with an error.
#[must_use = "whoever asked waits for an answer"]
pub struct Asked<Q: Question> {
    question: Q,
    reply: Reply<Q::Reply>,
}

impl<W> Ctx<W> {
    /// Waits for the next question of a type and takes it. The answer is stored with what the code does next, and who
    /// asked gets it once it is; asking again under the same id gets the same answer.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// #[derive(Message, serde::Serialize, serde::Deserialize)]
    /// #[message(reply(u32))]
    /// struct Price { of: String }
    ///
    /// #[workflow(accepts(Price))]
    /// async fn shop(ctx: Ctx<Shop>) -> Result<()> {
    ///     let asked = ctx.question::<Price>().await?;
    ///     let item = asked.of.clone();
    ///     let price = ctx.step("look up", move || { let item = item.clone(); async move { ok(item.len() as u32) } }).await?;
    ///     ok(asked.reply(&price)?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(shop).open("memory:").await?;
    /// let shop = runtime.start(shop, ()).await?;
    /// assert_eq!(shop.ask(Price { of: "tea".into() }).await?, 3);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn question<Q: Question>(&self) -> Receive<Asked<Q>>
    where
        W: Accepts<Q>,
    {
        self.waiting(Q::NAME, vec![Q::NAME], |operation, message| {
            let reply = Reply::of(operation, message);
            let question = unpack(operation, told(message).1)?;
            Ok(Asked { question, reply })
        })
    }
}

impl<Q: Question> Asked<Q> {
    /// Answers.
    pub fn reply(self, answer: &Q::Reply) -> Result<(), Failure> {
        self.reply.with(answer)
    }

    /// Answers with an error that says why there is no answer.
    pub fn refuse(self, reason: &str) -> Result<(), Failure> {
        self.reply.refuse(reason)
    }

    /// The question, and the way to answer it, apart.
    pub fn into_parts(self) -> (Q, Reply<Q::Reply>) {
        (self.question, self.reply)
    }
}

impl<Q: Question> Deref for Asked<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.question
    }
}

impl<Q: Question + std::fmt::Debug> std::fmt::Debug for Asked<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Asked").field(&self.question).finish()
    }
}

/// The way to answer a question. Dropping it answers with an error.
#[must_use = "whoever asked waits for an answer"]
pub struct Reply<T> {
    scope: Scope,
    /// The question, until it is answered. What was only told expects no answer.
    question: Option<MessageId>,
    answer: PhantomData<fn(T)>,
}

impl<T> Reply<T> {
    pub(crate) fn of(operation: &Operation, message: &record::Message) -> Self {
        let scope = operation.scope().clone();
        let expected = matches!(message.content, Content::Asked { .. });
        let question = expected.then(|| message.id.clone());
        if let Some(question) = &question {
            scope.journal().lock().asked(question.clone());
        }
        Self {
            scope,
            question,
            answer: PhantomData,
        }
    }

    /// Answers with an error that says why there is no answer.
    pub fn refuse(self, reason: &str) -> Result<(), Failure> {
        self.decide(
            reason.len(),
            Decided::Failed(Failure::new(FailureKind::Rejected, reason)),
        )
    }

    fn decide(mut self, bytes: usize, decided: Decided) -> Result<(), Failure> {
        if let Some(question) = &self.question {
            // What is refused (too large, elsewhere than in the function) leaves the question open.
            let mut journal = self.scope.journal().lock();
            journal.answer(question.clone(), bytes, decided)?;
            drop(journal);
            self.question = None;
        }
        Ok(())
    }
}

impl<T: Serialize> Reply<T> {
    /// Answers.
    pub fn with(self, answer: &T) -> Result<(), Failure> {
        let payload = self.scope.codecs().pack(answer)?;
        self.decide(payload.bytes.len(), Decided::Completed(payload))
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let decided = Decided::Failed(unanswered());
            self.scope.journal().lock().leave_unanswered(question, decided);
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply")
            .field("question", &self.question)
            .finish_non_exhaustive()
    }
}
