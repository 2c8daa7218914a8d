//! `handle.stream`: what an instance emits, as it becomes durable.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::clock::Millis;
use crate::handle::{AnyHandle, Result, look, wait};
use crate::limits::EMITTED_KEPT_MAX;
use crate::storage::key::Local;
use crate::storage::payload::Payload;
use crate::storage::record::Emitted;

/// What an instance emits. Nothing is kept in memory: each item is read from the store when it is asked for, so a reader
/// may be as slow as it likes, go away, and come back with the cursor of the last item that it has seen.
#[derive(Debug)]
pub struct Stream<T> {
    handle: AnyHandle,
    next: u64,
    /// What is said without being stored, since this stream was made.
    heard: Option<Receiver<Payload>>,
    items: PhantomData<fn() -> T>,
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

impl<T: DeserializeOwned> Stream<T> {
    pub(super) fn new(handle: AnyHandle) -> Self {
        let heard = Some(handle.shared.broadcasts.listen(&handle.instance));
        Self {
            handle,
            next: 0,
            heard,
            items: PhantomData,
        }
    }

    /// Begins behind the item with this cursor.
    #[must_use]
    pub fn after(mut self, cursor: u64) -> Self {
        self.next = cursor.saturating_add(1);
        self
    }

    /// Waits for the next item, passing over those that are no longer kept; none when the instance has ended and there
    /// are no more. What is broadcast comes behind all that is stored by then; a reader that is too slow misses some.
    pub async fn next(&mut self) -> Result<Option<Item<T>>> {
        loop {
            let stored = tokio::select! {
                biased;
                stored = stored(&self.handle, self.next) => stored?,
                heard = hear(&mut self.heard) => match heard {
                    Some(payload) => return self.broadcast(&payload).map(Some),
                    None => continue,
                },
            };
            if let Some((cursor, Emitted { payload, at_ms })) = stored {
                let value = self.handle.unpack(&payload)?;
                self.next = cursor + 1;
                let cursor = Some(cursor);
                return Ok(Some(Item { cursor, at_ms, value }));
            }
            let Some(heard) = &mut self.heard else {
                return Ok(None);
            };
            match heard.try_recv() {
                Ok(payload) => return self.broadcast(&payload).map(Some),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(None),
            }
        }
    }

    fn broadcast(&self, payload: &Payload) -> Result<Item<T>> {
        let (value, at_ms) = (self.handle.unpack(payload)?, self.handle.shared.clock.now_ms());
        let cursor = None;
        Ok(Item { cursor, at_ms, value })
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        self.heard = None;
        self.handle.shared.broadcasts.forget(&self.handle.instance);
    }
}

/// Waits for the first item from a place on that is stored; none when the instance has ended without another.
async fn stored(AnyHandle { shared, instance }: &AnyHandle, next: u64) -> Result<Option<(u64, Emitted)>> {
    wait::until(shared, instance, || {
        let seen = look::existing(shared, instance)?;
        let namespace = shared.store.namespace(instance);
        let cursor = next.max(seen.state.emitted.saturating_sub(EMITTED_KEPT_MAX));
        let emitted: Option<Emitted> = namespace.get(&*seen.snapshot, &Local::Emitted(cursor))?;
        let over = emitted.is_none() && seen.state.status.is_terminal();
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
