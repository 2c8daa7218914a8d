//! What a topic remembers: events that nobody has, those who wait, and what was handed out. All of it bounded.
//!
//! An event for one is handed out and kept aside until the receiver says that it has looked at it. If it gives up instead,
//! which it says in the commit that ends the wait, nobody has taken the event, wherever it is by then: the next one gets
//! it, unless it is too old by then.
//!
//! What is kept aside is bounded too, and who has it may be paused for months. So when somebody waits and there is no
//! room, what was handed out long ago counts as taken: it belongs to whoever has it, and goes to nobody else.
//!
//! An event for all is handed out in slices, one in each commit; the board remembers who is still to be told.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::engine::topic::lent::Lent;
use crate::engine::topic::queue::Queue;
use crate::engine::topic::{Event, Note, Waiter};
use crate::limits::{
    OUTGOING_BYTES_MAX, OUTGOING_MAX, TOPIC_EVENT_BYTES_KEPT, TOPIC_EVENT_BYTES_LENT, TOPIC_EVENTS_MAX, TOPIC_LENT_MIN,
    TOPIC_WAITER_BYTES_MAX, TOPIC_WAITERS_MAX,
};
use crate::storage::payload::Payload;
use crate::telemetry;

/// What somebody is told.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) waiter: Waiter,
    pub(super) what: What,
}

/// An event, or that there is no room to wait.
#[derive(Debug)]
pub(super) enum What {
    ForOne(Payload),
    ForAll(Payload),
    NoRoom,
}

/// An event and the number of the note that brought it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    number: u64,
    event: Event,
    /// When it was handed out, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lent_at_ms: Option<Millis>,
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
    /// What happened since it was told.
    #[serde(skip)]
    tally: Tally,
}

/// What happened on a board.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    /// Events that were published.
    published: u64,
    /// Events that were handed to somebody.
    handed: u64,
    /// Events that were forgotten, because there were too many.
    forgotten: u64,
    /// Events that count as taken, though nobody has said that they are.
    presumed: u64,
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
                    if let Some(back) = self.lent.remove(&waiter).filter(|back| !back.comes_too_late(now)) {
                        self.events.push_front(back);
                    }
                }
            }
            self.match_up(now, &mut handed);
        }
        // Nobody has to say anything for time to pass.
        self.match_up(now, &mut handed);
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
        let what = || What::ForAll(payload.clone());
        let slice: Vec<_> = slice.map(|waiter| Handed { waiter, what: what() }).collect();
        if spread.left.is_empty() {
            self.spreads.pop_front();
        }
        self.tally.handed += slice.len() as u64;
        slice
    }

    /// Whether there are some who have to be told before anything else is heard.
    pub(super) fn is_spreading(&self) -> bool {
        !self.spreads.is_empty()
    }

    /// After how long it is worth looking again although nobody has said anything, if it is: somebody waits for an event
    /// that is there, and there is no room to keep another one aside.
    pub(super) fn looks_again_in(&self) -> Option<Duration> {
        (!self.events.is_empty() && !self.waiters.is_empty()).then_some(TOPIC_LENT_MIN)
    }

    /// Says what happened since it was said last; nothing, if it was said before.
    pub(super) fn tell(&mut self, topic: &str, is_silent: bool) {
        let tally = std::mem::take(&mut self.tally);
        if is_silent {
            return;
        }
        let Tally {
            published,
            handed,
            forgotten,
            presumed,
        } = tally;
        telemetry::events(published, handed);
        telemetry::events_lost(forgotten, presumed);
        if forgotten > 0 {
            tracing::warn!(
                topic,
                events = forgotten,
                "events were forgotten: a topic keeps no more of them"
            );
        }
        if presumed > 0 {
            tracing::warn!(
                topic,
                events = presumed,
                "events for one count as taken: who has them has not looked at them for long, and others wait"
            );
        }
    }

    fn publish(&mut self, event: Event) {
        self.tally.published += 1;
        if event.to_one || self.waiters.is_empty() {
            let number = self.notes;
            let lent_at_ms = None;
            self.events.push_back(Kept {
                number,
                event,
                lent_at_ms,
            });
            return;
        }
        let mut left = self.waiters.take_all();
        left.reverse();
        let payload = event.payload;
        self.spreads.push_back(Spread { payload, left });
    }

    fn wait(&mut self, waiter: Waiter) -> Option<Handed> {
        if self.waiters.contains(&waiter) || self.lent.contains(&waiter) {
            return None;
        }
        let many = self.waiters.len() + self.lent.len() >= TOPIC_WAITERS_MAX;
        let bytes = self.waiters.bytes() + self.lent.waiter_bytes() + waiter.bytes();
        if many || bytes > TOPIC_WAITER_BYTES_MAX {
            let what = What::NoRoom;
            return Some(Handed { waiter, what });
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
            let room = TOPIC_EVENT_BYTES_LENT.saturating_sub(kept.bytes());
            while self.lent.event_bytes() > room && self.lent.presume_taken(now) {
                self.tally.presumed += 1;
            }
            if self.lent.len() > 0 && self.lent.event_bytes() > room {
                break;
            }
            if let (Some(mut kept), Some(waiter)) = (self.events.pop_front(), self.waiters.pop()) {
                let what = What::ForOne(kept.event.payload.clone());
                kept.lent_at_ms = Some(now);
                self.lent.insert(waiter.clone(), kept);
                handed.push(Handed { waiter, what });
                self.tally.handed += 1;
            }
        }
        if self.waiters.is_empty() {
            self.events.retain(|kept| !kept.is_too_old(now));
        }
        let mut bytes: usize = self.events.iter().map(Kept::bytes).sum();
        while self.events.len() > TOPIC_EVENTS_MAX || bytes > TOPIC_EVENT_BYTES_KEPT {
            bytes -= self.events.pop_front().map_or(bytes, |forgotten| forgotten.bytes());
            self.tally.forgotten += 1;
        }
    }
}

impl Kept {
    fn is_too_old(&self, now: Millis) -> bool {
        self.event.expires_at_ms <= now
    }

    /// Whether it was handed out long ago, so that whoever waits need not wait for what becomes of it.
    pub(super) fn is_long_gone(&self, now: Millis) -> bool {
        let since = now.saturating_sub(self.lent_at_ms.unwrap_or(0));
        u128::from(since) >= TOPIC_LENT_MIN.as_millis()
    }

    /// Whether nobody is to have it any more when it comes back. That somebody had just left is not held against it: who
    /// waited already when it was published gets it then.
    fn comes_too_late(&self, now: Millis) -> bool {
        self.is_too_old(now) && self.is_long_gone(now)
    }

    /// When it was handed out, and its number: the order in which it counts as taken.
    pub(super) fn lent_order(&self) -> (Millis, u64) {
        (self.lent_at_ms.unwrap_or(0), self.number)
    }

    /// About how much room it takes.
    pub(super) fn bytes(&self) -> usize {
        self.event.payload.bytes.len() + 64
    }
}

#[cfg(test)]
mod tests;
