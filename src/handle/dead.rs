//! `runtime.dead_letters()`: messages between instances that could not be delivered, and that their senders wanted kept.

use std::sync::Arc;

use crate::actor::Shared;
use crate::clock::Millis;
use crate::handle::{Error, Result, Sent, look};
use crate::ids::{InstanceId, MessageId, Shard};
use crate::storage::payload::Payload;
use crate::storage::record::DeadLetter;
use crate::storage::{self, Commit, Cursor, Refusal};

/// Messages that could not be delivered: to be looked at, delivered after all, or thrown away.
///
/// ```
/// # use everstep::{Runtime, Result};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().open("memory:").await?;
/// let mut after = None;
/// loop {
///     let page = runtime.dead_letters().list(after).await?;
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
    /// Where the next ones begin; none if there are no more.
    pub next: Option<LettersAfter>,
}

/// A place between two pages.
#[derive(Debug, Clone)]
pub struct LettersAfter {
    shard: Shard,
    cursor: Option<Cursor>,
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
    pub async fn list(&self, after: Option<LettersAfter>) -> Result<Letters> {
        let (shard, cursor) = after.map_or((Shard(0), None), |after| (after.shard, after.cursor));
        let page = self.shared.store.dead_letters(shard, cursor.as_ref())?;
        let letter = |(at_ms, dead)| Letter { shard, at_ms, dead };
        let next_shard = Shard(shard.0 + 1);
        let next = match page.next {
            Some(cursor) => Some((shard, Some(cursor))),
            None => self
                .shared
                .store
                .shards()
                .find(|found| *found == next_shard)
                .map(|shard| (shard, None)),
        };
        Ok(Letters {
            letters: page.rows.into_iter().map(letter).collect(),
            next: next.map(|(shard, cursor)| LettersAfter { shard, cursor }),
        })
    }

    /// Delivers a message to the instance that it was for. It is gone from here when that has worked, and taken once
    /// however often this is called.
    pub async fn replay(&self, letter: &Letter) -> Result<Sent> {
        let to = InstanceId::internal(letter.to())?;
        self.deliver(letter, &to).await
    }

    /// The same, to another instance.
    pub async fn replay_to(&self, letter: &Letter, to: &str) -> Result<Sent> {
        self.deliver(letter, &InstanceId::new(to)?).await
    }

    /// Throws a message away.
    pub async fn discard(&self, letter: &Letter) -> Result<()> {
        let mut commit = Commit::new(letter.shard);
        commit.unbury(letter.at_ms, letter.id());
        self.shared.store.commit(commit).await?;
        Ok(())
    }

    async fn deliver(&self, letter: &Letter, to: &InstanceId) -> Result<Sent> {
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
        let sent = match pending.await?.durable().await {
            Ok(_) => {
                self.shared.directory.wake(to);
                Sent::Accepted
            }
            Err(storage::Error::Refused(Refusal::Duplicate(_))) => Sent::Duplicate,
            Err(storage::Error::Refused(Refusal::Ended(status))) => {
                let instance = to.clone();
                return Err(Error::Finished { instance, status });
            }
            Err(storage::Error::Refused(Refusal::InboxFull { max })) => {
                let instance = to.clone();
                return Err(Error::InboxFull { instance, max });
            }
            Err(storage::Error::Refused(Refusal::Missing)) => return Err(look::absent(&self.shared, to)),
            Err(error) => return Err(error.into()),
        };
        if shard != letter.shard || sent == Sent::Duplicate {
            self.discard(letter).await?;
        }
        Ok(sent)
    }
}
