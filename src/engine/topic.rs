//! A topic: a built-in workflow that keeps events until somebody waits for them, and those who wait until there is one.
//!
//! Whoever publishes or waits sends it a note. Notes are taken in the order in which they came, so there is no moment
//! between looking and waiting in which an event could be lost. What is kept, and how it is handed out, is in `board.rs`.

mod board;
mod lent;
mod queue;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::config::Bounds;
use crate::engine::context::Ctx;
use crate::engine::error::{Result, ok};
use crate::engine::message::Message;
use crate::engine::verbs::{Loop, SendTo};
use crate::engine::workflow::{Accepts, Workflow};
use crate::ids::InstanceId;
use crate::limits::{TOPIC_BOARD_BYTES_MAX, TOPIC_NOTES_MAX};
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Content, Decided, Failure, FailureKind, Origin, Reach, Secret};

use board::{Board, Handed, What};

/// What the ids of topics begin with. Nobody can take such an id.
const PREFIX: &str = "__topic ";

/// What a topic is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Note {
    /// There is an event.
    Published(Event),
    /// Somebody waits for one.
    Waits(Waiter),
    /// Somebody does so no more.
    GaveUp(Waiter),
    /// Somebody has looked at what was handed to it.
    Taken(Waiter),
    /// What was handed to somebody was not taken.
    Returned(Waiter),
}

impl Message for Note {
    const NAME: &'static str = "__note";
}

impl Note {
    /// The note as the topic receives it. In plain words: the event inside has gone through the user's codec, and what a
    /// codec could refuse here nobody would hear of.
    pub(crate) fn content(&self) -> Content {
        let payload = Codecs::plain().pack(self);
        Content::Told {
            name: Self::NAME.to_owned(),
            payload: payload.expect("a note is made of numbers, names and bytes"),
        }
    }
}

/// Something that was published.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) payload: Payload,
    /// Whether only one of those who wait gets it.
    pub(crate) to_one: bool,
    /// When it is too old to be delivered.
    pub(crate) expires_at_ms: Millis,
}

/// An operation that waits for an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "(String, u32, u64)")]
pub(crate) struct Waiter {
    pub(crate) instance: String,
    pub(crate) run: u32,
    pub(crate) entry: u64,
}

impl Waiter {
    /// How much room it takes at most.
    fn bytes(&self) -> usize {
        self.instance.len() + 32
    }
}

// Without the names of its fields: a topic has thousands of these in one value.
impl Serialize for Waiter {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (&self.instance, self.run, self.entry).serialize(serializer)
    }
}

impl From<(String, u32, u64)> for Waiter {
    fn from((instance, run, entry): (String, u32, u64)) -> Self {
        Self { instance, run, entry }
    }
}

/// The workflow behind every topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Topic;

impl Accepts<Note> for Topic {}

impl Workflow for Topic {
    const NAME: &'static str = "__topic";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        let events = ctx.repeat(
            "events",
            Board::default(),
            |ctx: Ctx<Self>, mut board: Board| async move {
                let handed = if board.is_spreading() {
                    board.spread()
                } else {
                    let notes = ctx.receive_many::<Note>(TOPIC_NOTES_MAX);
                    let notes = match board.looks_again_in() {
                        Some(wait) => notes.within(wait).await?,
                        None => notes.await?,
                    };
                    board.take(notes, ctx.scope().now_ms())
                };
                let is_silent = ctx.scope().journal().lock().is_silent();
                board.tell(ctx.id().as_str(), is_silent);
                let told = handed.into_iter().map(|handed| hand(&ctx, handed));
                futures_util::future::try_join_all(told).await?;
                ok(Loop::<Board, ()>::Continue(board))
            },
        );
        events.commit_interval(1).history_every(1).history_keep(0).await
    }
}

/// Hands an event to who waits for it, or says that there is no room to wait.
fn hand(ctx: &Ctx<Topic>, Handed { waiter, what }: Handed) -> SendTo {
    let full = || Failure::new(FailureKind::Limit, "too many wait for this event");
    // Of an event for one the topic wants to hear what becomes of it; of the rest it has no use for an answer.
    let (decided, reach) = match what {
        What::ForOne(event) => (Decided::Completed(event), Reach::Waiting),
        What::ForAll(event) => (Decided::Completed(event), Reach::Nobody),
        What::NoRoom => (Decided::Failed(full()), Reach::Nobody),
    };
    let content = Content::Settled {
        run: waiter.run,
        entry: waiter.entry,
        decided,
        reach,
    };
    SendTo::new(ctx.scope(), InstanceId::internal(waiter.instance), Ok(content))
}

/// The bounds of a topic: its board is one value, larger than one of a user may be.
pub(crate) fn bounds(workflow: &str, bounds: Bounds) -> Bounds {
    let payload_bytes_max = if workflow == Topic::NAME {
        TOPIC_BOARD_BYTES_MAX
    } else {
        bounds.payload_bytes_max
    };
    Bounds {
        payload_bytes_max,
        ..bounds
    }
}

/// The instance that keeps the events of a name.
pub(crate) fn topic_of(name: &str) -> InstanceId {
    InstanceId::internal(format!("{PREFIX}{name}")).unwrap_or_else(|_| {
        // A name that is no id, or too long for one.
        let digest = xxhash_rust::xxh3::xxh3_128(name.as_bytes());
        InstanceId::internal(format!("{PREFIX}#{digest:032x}")).expect("hexadecimal digits are an id")
    })
}

/// Whether an id is that of a topic.
pub(crate) fn is_topic(instance: &str) -> bool {
    instance.starts_with(PREFIX)
}

/// What a topic begins with, when it is first heard of. Nobody can guess `secret`.
pub(crate) fn origin(now: Millis, secret: Secret) -> Origin {
    Origin::new(Topic::NAME, Topic::VERSION, now, secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::payload::KeyId;

    /// Found in review: a note that the user's codec refused was never sent, and what it was about counted as done.
    #[test]
    fn no_codec_stands_between_an_instance_and_a_topic() {
        let waiter = || Waiter {
            instance: "i".to_owned(),
            run: 1,
            entry: 2,
        };
        for note in [
            Note::Waits(waiter()),
            Note::GaveUp(waiter()),
            Note::Taken(waiter()),
            Note::Returned(waiter()),
        ] {
            let Content::Told { payload, .. } = note.content() else {
                panic!("{note:?} is not told");
            };
            assert_eq!(payload.key_id, KeyId::PLAIN);
            assert!(Codecs::plain().unpack::<Note>(&payload).is_ok());
        }
    }
}
