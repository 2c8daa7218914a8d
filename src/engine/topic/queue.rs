//! Those who wait for an event: in the order in which they came, and to be found when they give up.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::engine::topic::Waiter;

/// Who waits, each with the number of the note that said so.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: BTreeMap<u64, Waiter>,
    since: HashMap<Waiter, u64>,
    bytes: usize,
}

impl Queue {
    /// The one who has waited longest, and since when.
    pub(super) fn first(&self) -> Option<(u64, &Waiter)> {
        self.order.iter().next().map(|(since, waiter)| (*since, waiter))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn contains(&self, waiter: &Waiter) -> bool {
        self.since.contains_key(waiter)
    }

    /// About how much room they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, since: u64, waiter: Waiter) {
        self.bytes += waiter.bytes();
        self.since.insert(waiter.clone(), since);
        self.order.insert(since, waiter);
    }

    pub(super) fn pop(&mut self) -> Option<Waiter> {
        let (_, waiter) = self.order.pop_first()?;
        self.since.remove(&waiter);
        self.bytes -= waiter.bytes();
        Some(waiter)
    }

    /// Forgets somebody.
    pub(super) fn remove(&mut self, waiter: &Waiter) {
        if let Some(since) = self.since.remove(waiter) {
            self.order.remove(&since);
            self.bytes -= waiter.bytes();
        }
    }

    /// Takes everybody, in order.
    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        let all = std::mem::take(self);
        all.order.into_values().collect()
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.order)
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut queue = Self::default();
        for (since, waiter) in Vec::<(u64, Waiter)>::deserialize(deserializer)? {
            queue.push(since, waiter);
        }
        Ok(queue)
    }
}
