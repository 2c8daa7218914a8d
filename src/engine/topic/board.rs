//! What a topic remembers: events that nobody has, those who wait, and what was handed out. All of it bounded.
//!
//! An event for one is handed out and kept aside until the receiver says that it has it. If it gives up instead, which
//! it says in the commit that ends the wait, nobody has taken the event, wherever it is by then: the next one gets it.
//!
//! An event for all is handed out in slices, one in each commit; the board remembers who is still to be told.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::engine::topic::lent::Lent;
use crate::engine::topic::queue::Queue;
use crate::engine::topic::{Event, Note, Waiter};
use crate::limits::{
    OUTGOING_BYTES_MAX, OUTGOING_MAX, TOPIC_EVENT_BYTES_KEPT, TOPIC_EVENT_BYTES_LENT, TOPIC_EVENTS_MAX,
    TOPIC_WAITER_BYTES_MAX, TOPIC_WAITERS_MAX,
};
use crate::storage::payload::Payload;

/// Somebody who is told something: an event, or that there is no room to wait.
pub(super) type Handed = (Waiter, Option<Payload>);

/// An event and the number of the note that brought it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    number: u64,
    event: Event,
}

/// An event for all, and those who are still to be told, the next last.
#[derive(Debug, Serialize, Deserialize)]
struct Spread {
    payload: Payload,
    left: Vec<Waiter>,
}

/// The state of a topic.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Board {
    /// Notes so far: tells what came before what.
    notes: u64,
    events: VecDeque<Kept>,
    waiters: Queue,
    lent: Lent,
    spreads: VecDeque<Spread>,
}

impl Board {
    /// Takes notes, in their order, and says who is to be told what.
    pub(super) fn take(&mut self, notes: Vec<Note>, now: Millis) -> Vec<Handed> {
        let mut handed = Vec::new();
        for note in notes {
            self.notes += 1;
            match note {
                Note::Published(event) => self.publish(event),
                Note::Waits(waiter) => handed.extend(self.wait(waiter)),
                Note::Taken(waiter) => drop(self.lent.remove(&waiter)),
                Note::GaveUp(waiter) | Note::Returned(waiter) => {
                    self.waiters.remove(&waiter);
                    // It was the first, and is again.
                    if let Some(back) = self.lent.remove(&waiter) {
                        self.events.push_front(back);
                    }
                }
            }
            self.match_up(now, &mut handed);
        }
        handed
    }

    /// The next of those whom an event for all has not reached yet: as many as fit into one commit.
    pub(super) fn spread(&mut self) -> Vec<Handed> {
        let Some(spread) = self.spreads.front_mut() else {
            return Vec::new();
        };
        let fit = OUTGOING_BYTES_MAX / spread.payload.bytes.len().max(1);
        let rest = spread.left.len().saturating_sub(fit.clamp(1, OUTGOING_MAX));
        let payload = &spread.payload;
        let slice = spread.left.drain(rest..).rev();
        let slice = slice.map(|waiter| (waiter, Some(payload.clone()))).collect();
        if spread.left.is_empty() {
            self.spreads.pop_front();
        }
        slice
    }

    /// Whether there are some who have to be told before anything else is heard.
    pub(super) fn is_spreading(&self) -> bool {
        !self.spreads.is_empty()
    }

    fn publish(&mut self, event: Event) {
        if event.to_one || self.waiters.is_empty() {
            let number = self.notes;
            self.events.push_back(Kept { number, event });
            return;
        }
        let mut left = self.waiters.take_all();
        left.reverse();
        let payload = event.payload;
        self.spreads.push_back(Spread { payload, left });
    }

    fn wait(&mut self, waiter: Waiter) -> Option<Handed> {
        let many = self.waiters.len() + self.lent.len() >= TOPIC_WAITERS_MAX;
        let bytes = self.waiters.bytes() + self.lent.waiter_bytes() + waiter.bytes();
        if many || bytes > TOPIC_WAITER_BYTES_MAX {
            return Some((waiter, None));
        }
        self.waiters.push(self.notes, waiter);
        None
    }

    /// Hands the oldest events to those who have waited longest, and forgets what is too old or too much.
    fn match_up(&mut self, now: Millis, handed: &mut Vec<Handed>) {
        while let (Some(kept), Some((since, _))) = (self.events.front(), self.waiters.first()) {
            // Who waited already when it was published gets it however long that took.
            if kept.is_too_old(now) && since > kept.number {
                self.events.pop_front();
                continue;
            }
            if self.lent.len() > 0 && self.lent.event_bytes() + kept.bytes() > TOPIC_EVENT_BYTES_LENT {
                break;
            }
            if let (Some(kept), Some(waiter)) = (self.events.pop_front(), self.waiters.pop()) {
                handed.push((waiter.clone(), Some(kept.event.payload.clone())));
                self.lent.insert(waiter, kept);
            }
        }
        if self.waiters.is_empty() {
            self.events.retain(|kept| !kept.is_too_old(now));
        }
        let mut bytes: usize = self.events.iter().map(Kept::bytes).sum();
        while self.events.len() > TOPIC_EVENTS_MAX || bytes > TOPIC_EVENT_BYTES_KEPT {
            bytes -= self.events.pop_front().map_or(bytes, |forgotten| forgotten.bytes());
        }
    }
}

impl Kept {
    fn is_too_old(&self, now: Millis) -> bool {
        self.event.expires_at_ms <= now
    }

    /// About how much room it takes.
    pub(super) fn bytes(&self) -> usize {
        self.event.payload.bytes.len() + 64
    }
}
