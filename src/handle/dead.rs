//! `runtime.dead_letters()`: messages between instances that could not be delivered, and that their senders wanted kept.

use std::sync::Arc;
use std::time::SystemTime;

use crate::actor::{self, Shared};
use crate::clock::{Millis, wall_ms};
use crate::handle::{Error, Result, Sent, look, named, wait};
use crate::ids::{InstanceId, MessageId, Shard};
use crate::storage::payload::Payload;
use crate::storage::record::DeadLetter;
use crate::storage::{self, Buried, Commit, Refusal};

/// Messages that could not be delivered: to be looked at, delivered after all, or thrown away.
///
/// ```
/// # use everstep::{Runtime, Result};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().open("memory:").await?;
/// let mut after: Option<String> = None;
/// loop {
///     let page = runtime.dead_letters().list(after.as_deref()).await?;
///     for letter in &page.letters {
///         println!("{} to {}: {}", letter.id(), letter.to(), letter.reason());
///     }
///     after = page.next;
///     if after.is_none() {
///         break;
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DeadLetters {
    shared: Arc<Shared>,
}

/// A message that could not be delivered.
#[derive(Debug, Clone)]
pub struct Letter {
    shard: Shard,
    at_ms: Millis,
    dead: DeadLetter,
}

/// Some of the messages that could not be delivered, oldest first in each shard.
#[derive(Debug)]
pub struct Letters {
    /// The messages.
    pub letters: Vec<Letter>,
    /// How many lie among them that can't be read, because what is stored is damaged. `everstep verify` says what it is.
    pub damaged: usize,
    /// Where the next ones begin, for [`DeadLetters::list`]; none if there are no more. It holds in every process.
    pub next: Option<String>,
}

impl Letter {
    /// The id of the message.
    pub fn id(&self) -> &MessageId {
        &self.dead.message.id
    }

    /// Whom it was for.
    pub fn to(&self) -> &str {
        &self.dead.to
    }

    /// Who sent it.
    pub fn from(&self) -> Option<&str> {
        self.dead.message.from.as_deref()
    }

    /// Why it could not be delivered.
    pub fn reason(&self) -> &str {
        &self.dead.reason
    }

    /// When that was, in milliseconds since the epoch.
    pub fn at_ms(&self) -> Millis {
        self.at_ms
    }

    /// The name of the message and what it says.
    pub fn content(&self) -> Option<(&str, &Payload)> {
        self.dead.message.told_or_asked()
    }
}

impl DeadLetters {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The messages behind a place, or the first ones.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Note { text: String }
    /// # #[workflow(accepts(Note))] async fn reads(ctx: Ctx<Reads>) -> Result<String> { ok(ctx.receive::<Note>().await?.text) }
    /// # #[workflow] async fn writes(ctx: Ctx<Writes>) -> Result<()> {
    /// #     let note = Note { text: "hello".into() };
    /// #     ok(ctx.send(reads, "nobody", note).dead_letter().await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(reads).workflow(writes).open("memory:").await?;
    /// # runtime.start(writes, ()).await?.result().await?;
    /// # while runtime.dead_letters().list(None).await?.letters.is_empty() { tokio::task::yield_now().await; }
    /// let dead = runtime.dead_letters();
    /// let page = dead.list(None).await?;
    /// let letter = &page.letters[0];
    /// println!("{} to {}: {}", letter.id(), letter.to(), letter.reason());
    /// # Ok(()) }
    /// ```
    pub async fn list(&self, after: Option<&str>) -> Result<Letters> {
        let store = &self.shared.store;
        let after = After::parse(after)?;
        let shard = store.shards().find(|shard| *shard == after.shard);
        let shard = shard.ok_or_else(|| after.invalid())?;
        let page = match &after.letter {
            Some((at_ms, id)) => store.dead_letters_behind(shard, (*at_ms, id))?,
            None => store.dead_letters(shard, None)?,
        };
        let last = page.rows.last().filter(|_| page.next.is_some());
        let behind = last.map(|last| format!("{}.{}.{}", shard.0, last.at_ms, last.id));
        let (mut letters, mut damaged) = (Vec::new(), 0);
        for Buried { at_ms, id, dead } in page.rows {
            match dead {
                Ok(dead) => letters.push(Letter { shard, at_ms, dead }),
                Err(error) => {
                    tracing::error!(message = id, %error, code = error.code(), "a dead letter can't be read");
                    damaged += 1;
                }
            }
        }
        let next_shard = Shard(shard.0 + 1);
        let next = match behind {
            Some(behind) => Some(behind),
            _ => store
                .shards()
                .any(|shard| shard == next_shard)
                .then(|| next_shard.0.to_string()),
        };
        Ok(Letters { letters, damaged, next })
    }

    /// Delivers a message to the instance that it was for. It is gone from here when that has worked, and taken once
    /// however often this is called. A message that is no longer here is refused (`ES0423`).
    pub async fn replay(&self, letter: &Letter) -> Result<Sent> {
        let to = InstanceId::internal(letter.to())?;
        self.deliver(letter, &to).await
    }

    /// The same, to another instance. Its workflow has to accept the message, and to be known to this process.
    ///
    /// Only a crash between the delivery and the removal from here leaves a message that one instance has got and that
    /// can be delivered to another one.
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Note { text: String }
    /// # #[workflow(accepts(Note))] async fn reads(ctx: Ctx<Reads>) -> Result<String> { ok(ctx.receive::<Note>().await?.text) }
    /// # #[workflow] async fn writes(ctx: Ctx<Writes>) -> Result<()> {
    /// #     let note = Note { text: "hello".into() };
    /// #     ok(ctx.send(reads, "nobody", note).dead_letter().await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(reads).workflow(writes).open("memory:").await?;
    /// # runtime.start(writes, ()).await?.result().await?;
    /// # while runtime.dead_letters().list(None).await?.letters.is_empty() { tokio::task::yield_now().await; }
    /// let dead = runtime.dead_letters();
    /// let page = dead.list(None).await?;
    /// let letter = &page.letters[0];
    /// // The one it was for is gone; another reads it.
    /// let reader = runtime.start(reads, ()).id("somebody").await?;
    /// dead.replay_to(letter, "somebody").await?;
    /// assert_eq!(reader.result().await?, "hello");
    /// # Ok(()) }
    /// ```
    pub async fn replay_to(&self, letter: &Letter, to: &str) -> Result<Sent> {
        let to = InstanceId::new(to)?;
        if let Some((name, _)) = letter.content() {
            let workflow = look::existing(&self.shared, &to)?.origin.workflow;
            named::accepted(&self.shared, &workflow, name)?;
        }
        self.deliver(letter, &to).await
    }

    /// Throws a message away. One that is no longer here is refused (`ES0423`).
    ///
    /// ```
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Note { text: String }
    /// # #[workflow(accepts(Note))] async fn reads(ctx: Ctx<Reads>) -> Result<String> { ok(ctx.receive::<Note>().await?.text) }
    /// # #[workflow] async fn writes(ctx: Ctx<Writes>) -> Result<()> {
    /// #     let note = Note { text: "hello".into() };
    /// #     ok(ctx.send(reads, "nobody", note).dead_letter().await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(reads).workflow(writes).open("memory:").await?;
    /// # runtime.start(writes, ()).await?.result().await?;
    /// # while runtime.dead_letters().list(None).await?.letters.is_empty() { tokio::task::yield_now().await; }
    /// let dead = runtime.dead_letters();
    /// let page = dead.list(None).await?;
    /// let letter = &page.letters[0];
    /// dead.discard(letter).await?;
    /// assert!(dead.list(None).await?.letters.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self, letter: &Letter) -> Result<()> {
        wait::goes_on(&self.shared)?;
        let _alone = self.shared.letters.lock().await;
        self.existing(letter)?;
        self.unbury(letter).await
    }

    /// Throws all messages away that could not be delivered before this time, and says how many they were.
    pub async fn discard_before(&self, time: SystemTime) -> Result<u64> {
        let (before_ms, mut after, mut discarded) = (wall_ms(time), None, 0);
        loop {
            let page = self.list(after.as_deref()).await?;
            for letter in page.letters.iter().filter(|letter| letter.at_ms < before_ms) {
                match self.discard(letter).await {
                    Ok(()) => discarded += 1,
                    Err(Error::NotDead(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(discarded);
            }
        }
    }

    /// Whether a message is still here. Ask while nobody else can take it away.
    fn existing(&self, letter: &Letter) -> Result<()> {
        let there = self.shared.store.dead_letter(letter.shard, letter.at_ms, letter.id())?;
        match there {
            Some(_) => Ok(()),
            None => Err(Error::NotDead(letter.id().clone())),
        }
    }

    async fn unbury(&self, letter: &Letter) -> Result<()> {
        let mut commit = Commit::new(letter.shard);
        commit.unbury(letter.at_ms, letter.id());
        self.shared.store.commit(commit).await?;
        Ok(())
    }

    async fn deliver(&self, letter: &Letter, to: &InstanceId) -> Result<Sent> {
        wait::goes_on(&self.shared)?;
        // One after the other: of two who deliver it to different instances, the second finds that it is gone.
        let _alone = self.shared.letters.lock().await;
        self.existing(letter)?;
        let store = &self.shared.store;
        let namespace = store.namespace(to);
        let shard = namespace.shard();
        let pending = store.submit_delivery(shard, |arrivals| {
            let mut commit = Commit::new(shard);
            commit.deliver(&namespace, arrivals.next_place(), &letter.dead.message);
            if shard == letter.shard {
                commit.unbury(letter.at_ms, letter.id());
            }
            commit
        });
        let (pending, woken) = (pending.await?, to.clone());
        let settled = actor::handed_over(&self.shared, pending, move |shared| shared.directory.wake(&woken));
        let sent = match settled.await {
            Ok(_) => Sent::Accepted,
            Err(storage::Error::Refused(Refusal::Duplicate(_))) => Sent::Duplicate,
            Err(storage::Error::Refused(Refusal::Ended(status))) => {
                let instance = to.clone();
                return Err(Error::Finished { instance, status });
            }
            Err(storage::Error::Refused(Refusal::InboxFull { messages, bytes })) => {
                return Err(Error::InboxFull {
                    instance: to.clone(),
                    messages,
                    bytes,
                });
            }
            Err(storage::Error::Refused(Refusal::Missing)) => return Err(look::absent(&self.shared, to)),
            Err(error) => return Err(error.into()),
        };
        if shard != letter.shard || sent == Sent::Duplicate {
            self.unbury(letter).await?;
        }
        Ok(sent)
    }
}

/// A place between two pages.
struct After<'a> {
    text: &'a str,
    shard: Shard,
    letter: Option<(Millis, &'a str)>,
}

impl<'a> After<'a> {
    fn parse(text: Option<&'a str>) -> Result<Self> {
        let text = text.unwrap_or("0");
        let parse = || {
            let mut parts = text.splitn(3, '.');
            let shard = Shard(parts.next()?.parse().ok()?);
            let letter = match (parts.next(), parts.next()) {
                (Some(at_ms), Some(id)) => Some((at_ms.parse().ok()?, id)),
                (None, None) => None,
                _ => return None,
            };
            Some(Self { text, shard, letter })
        };
        parse().ok_or_else(|| Error::InvalidCursor(text.to_owned()))
    }

    fn invalid(&self) -> Error {
        Error::InvalidCursor(self.text.to_owned())
    }
}
