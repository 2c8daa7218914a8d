//! `handle.ask`: puts a question into the inbox of an instance, once, and waits for the answer.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_128;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::{Accepts, Question, UNANSWERED, Workflow, answer_to};
use crate::handle::{AnyHandle, Error, Handle, Result, Waiting, look, send, wait};
use crate::ids::MessageId;
use crate::limits::ID_BYTES_MAX;
use crate::storage;
use crate::storage::record::{Content, Decided, Message};

/// A question on its way; await it to get the answer.
///
/// Question and answer are durable. Whoever stops waiting, or dies, asks again under the same id and gets the same
/// answer.
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
///     let price = asked.of.len() as u32;
///     asked.reply(&price)?;
///     ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(shop).open("memory:").await?;
/// let shop = runtime.start(shop, ()).await?;
/// let price = shop.ask(Price { of: "bread".into() }).id("from-kim").timeout("10s").await?;
/// assert_eq!(price, 5);
/// // The same id is the same question.
/// assert_eq!(shop.ask(Price { of: "butter".into() }).id("from-kim").await?, 5);
/// # Ok(()) }
/// ```
#[must_use = "nothing is asked until it is awaited"]
pub struct Asking<W, Q> {
    handle: Handle<W>,
    question: Q,
    id: Option<String>,
    timeout: std::result::Result<Option<Duration>, InvalidDuration>,
    or_held: bool,
}

impl<W: Workflow> Handle<W> {
    /// Asks a question and waits for the answer. Only what the workflow accepts can be asked.
    ///
    /// An answer that is an error gives [`Error::Refused`]; an instance that ends without one, [`Error::Unanswered`].
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] #[message(reply(u32))] struct Total;
    /// # #[workflow(accepts(Total))] async fn cart(ctx: Ctx<Cart>) -> Result<()> { ctx.question::<Total>().await?.reply(&20)?; ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(cart).open("memory:").await?;
    /// # let cart = runtime.start(cart, ()).await?;
    /// let total = cart.ask(Total).id("invoice-9").timeout("10s").await?;
    /// assert_eq!(total, 20);
    /// # Ok(()) }
    /// ```
    pub fn ask<Q: Question>(&self, question: Q) -> Asking<W, Q>
    where
        W: Accepts<Q>,
    {
        Asking {
            handle: self.clone(),
            question,
            id: None,
            timeout: Ok(None),
            or_held: false,
        }
    }
}

impl<W, Q> Asking<W, Q> {
    /// Under this id: asking the same again under the same one asks nothing new, and gives the same answer. Without, every
    /// question is one of its own. Ids of other questions, and of what is sent, have nothing to do with it.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Gives up after this long. The question stays: asking again under the same id waits on.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.timeout = timeout.into_duration().map(Some);
        self
    }

    /// Gives up when the instance is stuck, parked or quarantined, as [`Waiting::or_held`] does.
    pub fn or_held(mut self) -> Self {
        self.or_held = true;
        self
    }
}

impl<W: Workflow, Q: Question> IntoFuture for Asking<W, Q> {
    type Output = Result<Q::Reply>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            handle: Handle { any: handle, .. },
            question,
            id,
            timeout,
            or_held,
        } = self;
        let asked = asked(&handle, &question, id);
        let whose = handle.clone();
        let answer = async move { handle.answer(asked?).await };
        let waiting = Waiting::new(&whose, answer).within(timeout);
        if or_held { waiting.or_held() } else { waiting }.into_future()
    }
}

/// The question as it lies in an inbox.
fn asked<Q: Question>(handle: &AnyHandle, question: &Q, id: Option<String>) -> Result<Message> {
    let id = id.map(|id| question_id(Q::NAME, &id)).transpose()?;
    let id = send::message_id(&handle.shared, id)?;
    let codecs = handle.shared.store.codecs();
    let payload = codecs.pack(question).map_err(storage::Error::from)?;
    let name = Q::NAME.to_owned();
    Ok(send::from_outside(&handle.shared, id, Content::Asked { name, payload }))
}

/// The id that a question has in the inbox: nobody who sends something, or asks something else, under the same id is in
/// its way.
fn question_id(name: &str, id: &str) -> Result<String> {
    MessageId::new(id)?;
    let digest = xxh3_128(format!("{} {name} {id}", name.len()).as_bytes());
    let both = format!("{id} ?{digest:032x}");
    Ok(if both.len() > ID_BYTES_MAX {
        format!("?{digest:032x}")
    } else {
        both
    })
}

impl AnyHandle {
    /// Asks, unless it was asked before, and waits for the answer.
    async fn answer<T: DeserializeOwned>(&self, question: Message) -> Result<T> {
        send::deliver(&self.shared, &self.instance, &question).await?;
        let namespace = self.shared.store.namespace(&self.instance);
        let decided = wait::until(&self.shared, &self.instance, || {
            let (_, snapshot) = look::existing_state(&self.shared, &self.instance)?;
            Ok(answer_to(&namespace, &*snapshot, &question.id)?)
        });
        match decided.await? {
            Decided::Completed(payload) => self.unpack(&payload),
            Decided::Failed(failure) if failure.code.as_deref() == Some(UNANSWERED) => {
                Err(Error::Unanswered(self.instance.clone()))
            }
            Decided::Failed(failure) => Err(Error::Refused(failure)),
        }
    }
}
