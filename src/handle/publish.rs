//! `runtime.publish`: an event from outside.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::{Shared, start_commit};
use crate::clock::whole_ms;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::topic::{Event, Note, origin, topic_of};
use crate::engine::{KEPT, Message};
use crate::handle::send::{self, Delivered};
use crate::handle::{Result, Sent, wait};
use crate::limits::EVENT_BYTES_MAX;
use crate::storage::record;
use crate::storage::{self, Refusal};

/// An event that is being published; await it. It is durable when that returns.
#[must_use = "nothing is published until it is awaited"]
pub struct Publishing<E> {
    shared: Arc<Shared>,
    event: E,
    id: Option<String>,
    to_one: bool,
    keep: std::result::Result<Duration, InvalidDuration>,
}

impl<E: Message> Publishing<E> {
    pub(crate) fn new(shared: Arc<Shared>, event: E) -> Self {
        Self {
            shared,
            event,
            id: None,
            to_one: false,
            keep: Ok(KEPT),
        }
    }

    /// Under this id: a second event with the same one is a duplicate, and is not delivered. The topic remembers the id
    /// for as long as the store lives, which is a small row for each; an event without an id leaves nothing behind.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Only one of those who wait gets it: the one who has waited longest.
    pub fn to_one(mut self) -> Self {
        self.to_one = true;
        self
    }

    /// Keeps it so long for somebody to wait for it, instead of a day.
    pub fn keep(mut self, time: impl IntoDuration) -> Self {
        self.keep = time.into_duration();
        self
    }
}

impl<E: Message> IntoFuture for Publishing<E> {
    type Output = Result<Sent>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self {
                shared,
                event,
                id,
                to_one,
                keep,
            } = self;
            wait::goes_on(&shared)?;
            let is_named = id.is_some();
            let id = send::message_id(&shared, id)?;
            let (topic, now) = (topic_of(E::NAME), shared.clock.now_ms());
            let codecs = shared.store.codecs();
            let payload = codecs.pack(&event).map_err(storage::Error::from)?;
            let bytes = payload.bytes.len();
            if bytes > EVENT_BYTES_MAX {
                let max = EVENT_BYTES_MAX;
                return Err(storage::Error::TooLarge { bytes, max }.into());
            }
            let event = Event {
                payload,
                to_one,
                expires_at_ms: now.saturating_add(whole_ms(keep?)),
            };
            let payload = codecs.pack(&Note::Published(event)).map_err(storage::Error::from)?;
            let nothing = codecs.pack(&()).map_err(storage::Error::from)?;
            let begun = start_commit(
                &shared.store,
                &topic,
                &origin(now, record::Secret::draw(&*shared.chance)),
                nothing,
                None,
            );
            match shared.store.commit(begun).await {
                Ok(_) | Err(storage::Error::Refused(Refusal::Exists)) => {}
                Err(error) => return Err(error.into()),
            }
            let note = record::Message::told(Note::NAME, id, payload, now);
            let delivered = if is_named {
                send::deliver(&shared, &topic, &note).await
            } else {
                send::hand_over(&shared, &topic, &note).await
            };
            match delivered? {
                Delivered::Now(_) => Ok(Sent::Accepted),
                Delivered::Before(_) => Ok(Sent::Duplicate),
            }
        })
    }
}
