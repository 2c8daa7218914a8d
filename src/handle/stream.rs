//! `handle.stream`: what an instance emits, as it becomes durable.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::clock::Millis;
use crate::handle::polled::Polled;
use crate::handle::{AnyHandle, Error, Result, look, wait, watch};
use crate::limits::EMITTED_KEPT_MAX;
use crate::storage::key::Local;
use crate::storage::payload::Payload;
use crate::storage::record::Emitted;

/// What an instance emits. Nothing is kept in memory: each item is read from the store when it is asked for, so a reader
/// may be as slow as it likes, go away, and come back with the cursor of the last item that it has seen.
///
/// It is a [`Stream`](futures_util::Stream) too: `futures::StreamExt` works on it.
#[derive(Debug)]
pub struct Stream<T> {
    polled: Polled<Reader, Result<Option<Raw>>>,
    items: PhantomData<fn() -> T>,
    handle: AnyHandle,
}

/// Something that an instance emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item<T> {
    /// Its place: hand it to [`Stream::after`] to go on behind it. None if it was broadcast, and is stored nowhere.
    pub cursor: Option<u64>,
    /// When it became durable, or was heard.
    pub at_ms: Millis,
    /// What it is.
    pub value: T,
}

/// An item that was not read yet.
type Raw = Item<Payload>;

impl<T: DeserializeOwned> Stream<T> {
    pub(super) fn new(handle: AnyHandle) -> Self {
        let heard = Some(handle.shared.broadcasts.listen(&handle.instance));
        let polled = Polled::new(Reader {
            handle: handle.clone(),
            next: 0,
            heard,
        });
        let items = PhantomData;
        Self { polled, items, handle }
    }

    /// Begins behind the item with this cursor.
    #[must_use]
    pub fn after(mut self, cursor: u64) -> Self {
        self.polled.set(|reader| reader.next = cursor.saturating_add(1));
        self
    }

    /// Waits for the next item, passing over those that are no longer kept; none when the instance has ended and there
    /// are no more. What is broadcast comes behind all that is stored by then; a reader that is too slow misses some.
    ///
    /// An item that is none of this type gives [`Error::Item`], and the next call goes on behind it. Whoever stops waiting
    /// misses nothing.
    pub async fn next(&mut self) -> Result<Option<Item<T>>> {
        let raw = poll_fn(|cx| self.polled.poll(cx, next)).await?;
        raw.map(|raw| self.read(raw)).transpose()
    }

    fn read(&self, Item { cursor, at_ms, value }: Raw) -> Result<Item<T>> {
        match self.handle.unpack(&value) {
            Ok(value) => Ok(Item { cursor, at_ms, value }),
            Err(Error::Storage(source)) => Err(Error::Item { cursor, source }),
            Err(error) => Err(error),
        }
    }
}

impl<T: DeserializeOwned> futures_util::Stream for Stream<T> {
    type Item = Result<Item<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let raw = self.polled.poll_next(cx, next, watch::ends);
        raw.map(|raw| raw.map(|raw| raw.and_then(|raw| self.read(raw))))
    }
}

/// Where a reader is.
struct Reader {
    handle: AnyHandle,
    next: u64,
    /// What is said without being stored, since this reader came.
    heard: Option<Receiver<Payload>>,
}

async fn next(mut reader: Reader) -> (Reader, Result<Option<Raw>>) {
    let next = reader.next().await;
    (reader, next)
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Raw>> {
        loop {
            let stored = tokio::select! {
                biased;
                stored = stored(&self.handle, self.next) => stored?,
                heard = hear(&mut self.heard) => match heard {
                    Some(payload) => return Ok(Some(self.broadcast(payload))),
                    None => continue,
                },
            };
            if let Some((cursor, Emitted { payload: value, at_ms })) = stored {
                self.next = cursor + 1;
                let cursor = Some(cursor);
                return Ok(Some(Item { cursor, at_ms, value }));
            }
            let Some(heard) = &mut self.heard else {
                return Ok(None);
            };
            match heard.try_recv() {
                Ok(payload) => return Ok(Some(self.broadcast(payload))),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(None),
            }
        }
    }

    fn broadcast(&self, value: Payload) -> Raw {
        let (cursor, at_ms) = (None, self.handle.shared.clock.now_ms());
        Item { cursor, at_ms, value }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.heard = None;
        self.handle.shared.broadcasts.forget(&self.handle.instance);
    }
}

/// Waits for the first item from a place on that is stored; none when the instance has ended without another.
async fn stored(AnyHandle { shared, instance }: &AnyHandle, next: u64) -> Result<Option<(u64, Emitted)>> {
    wait::until(shared, instance, || {
        let (state, snapshot) = look::existing_state(shared, instance)?;
        let namespace = shared.store.namespace(instance);
        let cursor = next.max(state.emitted.saturating_sub(EMITTED_KEPT_MAX));
        let emitted: Option<Emitted> = namespace.get(&*snapshot, &Local::Emitted(cursor))?;
        let over = emitted.is_none() && state.status.is_terminal();
        Ok((emitted.is_some() || over).then_some(emitted.map(|emitted| (cursor, emitted))))
    })
    .await
}

/// Waits for what is said next; none if some was missed. When nothing more is said, that is for ever.
async fn hear(heard: &mut Option<Receiver<Payload>>) -> Option<Payload> {
    let Some(receiver) = heard else {
        return std::future::pending().await;
    };
    match receiver.recv().await {
        Ok(payload) => Some(payload),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => {
            *heard = None;
            None
        }
    }
}
