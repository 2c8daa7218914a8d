//! What only one was given, until it says that it has looked at it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::Millis;
use crate::engine::topic::Waiter;
use crate::engine::topic::board::Kept;

/// Events that were handed out, by who was given them.
#[derive(Debug, Default)]
pub(super) struct Lent {
    events: BTreeMap<Waiter, Kept>,
    /// Who has them, by when they were handed out.
    order: BTreeMap<(Millis, u64), Waiter>,
    event_bytes: usize,
    waiter_bytes: usize,
}

impl Lent {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// About how much room the events take.
    pub(super) fn event_bytes(&self) -> usize {
        self.event_bytes
    }

    /// About how much room those take who have them.
    pub(super) fn waiter_bytes(&self) -> usize {
        self.waiter_bytes
    }

    pub(super) fn insert(&mut self, waiter: Waiter, kept: Kept) {
        self.event_bytes += kept.bytes();
        self.waiter_bytes += waiter.bytes();
        self.order.insert(kept.lent_order(), waiter.clone());
        self.events.insert(waiter, kept);
    }

    pub(super) fn contains(&self, waiter: &Waiter) -> bool {
        self.events.contains_key(waiter)
    }

    /// What was handed out first counts as taken, if that is long ago. Tells whether it was.
    pub(super) fn presume_taken(&mut self, now: Millis) -> bool {
        let first = self.order.values().next().cloned();
        let gone = first.filter(|waiter| self.events[waiter].is_long_gone(now));
        gone.and_then(|waiter| self.remove(&waiter)).is_some()
    }

    /// Takes back what somebody was given.
    pub(super) fn remove(&mut self, waiter: &Waiter) -> Option<Kept> {
        let kept = self.events.remove(waiter)?;
        self.order.remove(&kept.lent_order());
        self.event_bytes -= kept.bytes();
        self.waiter_bytes -= waiter.bytes();
        Some(kept)
    }
}

impl Serialize for Lent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.events)
    }
}

impl<'de> Deserialize<'de> for Lent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut lent = Self::default();
        for (waiter, kept) in Vec::<(Waiter, Kept)>::deserialize(deserializer)? {
            lent.insert(waiter, kept);
        }
        Ok(lent)
    }
}
