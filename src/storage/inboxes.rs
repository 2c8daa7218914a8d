//! How full inboxes are, counted in the order of commits.
//!
//! The committer sees every message that is put into an inbox and every one that is taken out. So it counts: an inbox
//! is read once, when its instance is first heard of, and no further than its bounds; from then on the count is kept
//! in memory. A sender that floods an inbox is refused by a look at two numbers: of messages, and of their bytes.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::ids::{InstanceId, Shard};
use crate::limits::INBOX_COUNTS_MAX;
use crate::storage::commit::Commit;
use crate::storage::engine::{Direction, Engine, Scan};
use crate::storage::error::{Refusal, Result};
use crate::storage::intent::Intent;
use crate::storage::key::{self, Arrival, Local};
use crate::storage::namespace::Namespace;

/// What an inbox may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InboxBounds {
    pub(crate) messages: usize,
    /// Bytes of their values. One message is held however large it is.
    pub(crate) bytes: usize,
}

/// What an inbox holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    messages: usize,
    bytes: usize,
}

impl Held {
    fn put(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        // An empty one weighs nothing, whatever was counted.
        self.bytes = if self.messages == 0 {
            0
        } else {
            self.bytes.saturating_sub(bytes)
        };
    }

    /// Whether a message of so many bytes has no room.
    fn is_full(self, bytes: usize, bounds: InboxBounds) -> bool {
        self.messages >= bounds.messages || (self.messages > 0 && self.bytes.saturating_add(bytes) > bounds.bytes)
    }
}

/// Counts what lies in inboxes. Lives with the committer: nobody else knows the order.
#[derive(Debug)]
pub(crate) struct Inboxes {
    bounds: InboxBounds,
    /// What is in each inbox, with the group so far. Where a process with larger bounds left more than this one allows,
    /// the count is too small by the rest.
    counts: HashMap<InstanceId, Held>,
    /// What the commit at hand has changed so far: the place of an intent in it, and the count before. Kept so that a
    /// commit costs no allocation.
    before: Vec<(usize, Held)>,
    /// Whether a commit was counted that was not done after all.
    doubtful: bool,
}

impl Inboxes {
    pub(crate) fn new(bounds: InboxBounds) -> Self {
        Self {
            bounds,
            counts: HashMap::new(),
            before: Vec::new(),
            doubtful: false,
        }
    }

    /// Refuses a commit that would put a message into a full inbox; counts what an accepted one puts in and takes out.
    /// What an instance is owed or told by an operator (the end of a child, a cancellation) is counted and not refused:
    /// its own operations bound it.
    pub(crate) fn settle(&mut self, commit: &Commit, engine: &dyn Engine) -> Result<()> {
        for intent in &commit.intents {
            if let Intent::Delivered { instance, .. } | Intent::Taken(instance, _) | Intent::Returned(instance, _) =
                intent
                && !self.counts.contains_key(instance)
            {
                let held = count(commit.shard, instance, self.bounds, engine)?;
                self.counts.insert(instance.clone(), held);
            }
        }
        self.before.clear();
        for (index, intent) in commit.intents.iter().enumerate() {
            let (Intent::Delivered { instance, .. }
            | Intent::Returned(instance, _)
            | Intent::Taken(instance, _)
            | Intent::Purged(instance)) = intent
            else {
                continue;
            };
            // Nobody has to know how many there are of what goes.
            let Some(held) = self.counts.get_mut(instance) else {
                continue;
            };
            self.before.push((index, *held));
            match intent {
                Intent::Delivered { refusable, bytes, .. } if *refusable && held.is_full(*bytes, self.bounds) => {
                    let Held { messages, bytes } = *held;
                    self.take_back(&commit.intents);
                    return Err(Refusal::InboxFull { messages, bytes }.into());
                }
                Intent::Delivered { bytes, .. } | Intent::Returned(_, bytes) => held.put(*bytes),
                // Of the only one nobody has to know how large it was: most inboxes hold no more.
                Intent::Taken(..) if held.messages <= 1 => held.take(0),
                Intent::Taken(instance, arrival) => match size(commit.shard, instance, *arrival, engine) {
                    Ok(bytes) => held.take(bytes),
                    Err(error) => {
                        self.take_back(&commit.intents);
                        return Err(error);
                    }
                },
                Intent::Purged(_) | Intent::Runs(..) | Intent::Rests(_) => *held = Held::default(),
            }
        }
        Ok(())
    }

    /// A commit that was counted is not done.
    pub(crate) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// The group is done. If it was not written as it was counted, the counts say nothing any more; and when there are
    /// too many, all are forgotten. Each inbox is then read once more.
    pub(crate) fn forget(&mut self, written: bool) {
        let doubtful = std::mem::take(&mut self.doubtful) || !written;
        if doubtful || self.counts.len() > INBOX_COUNTS_MAX {
            self.counts.clear();
        }
    }

    /// Undoes what a commit that is refused has counted so far.
    fn take_back(&mut self, intents: &[Intent]) {
        for (index, held) in self.before.drain(..).rev() {
            if let Intent::Delivered { instance, .. }
            | Intent::Returned(instance, _)
            | Intent::Taken(instance, _)
            | Intent::Purged(instance) = &intents[index]
            {
                self.counts.insert(instance.clone(), held);
            }
        }
    }
}

/// Bytes of a message in an inbox. It was put there by a group before this one: nobody sees it earlier.
fn size(shard: Shard, instance: &InstanceId, arrival: Arrival, engine: &dyn Engine) -> Result<usize> {
    let mut key = Vec::new();
    Namespace::new(shard, instance.clone()).key_into(&Local::Inbox(arrival), &mut key);
    Ok(engine.get(shard, &key)?.map_or(0, |value| value.len()))
}

/// Counts the messages in an inbox, until it is full.
fn count(shard: Shard, instance: &InstanceId, bounds: InboxBounds, engine: &dyn Engine) -> Result<Held> {
    let namespace = Namespace::new(shard, instance.clone());
    let mut prefix = namespace.prefix().to_vec();
    key::inbox_into(&mut prefix);
    let (start, end) = key::below(&prefix);
    let scan = Scan {
        start: &start,
        end: &end,
        direction: Direction::Forward,
        limit: bounds.messages,
    };
    let mut held = Held::default();
    engine.snapshot(shard)?.scan(&scan, &mut |_, value| {
        held.put(value.len());
        if held.bytes > bounds.bytes {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::engines::Memory;

    fn settle(inboxes: &mut Inboxes, intents: Vec<Intent>) -> Result<()> {
        let mut commit = Commit::new(Shard(0));
        commit.intents = intents;
        inboxes.settle(&commit, &Memory::new())
    }

    fn instance() -> InstanceId {
        InstanceId::new("a").unwrap()
    }

    fn delivered() -> Intent {
        Intent::Delivered {
            instance: instance(),
            number: 1,
            bytes: 100,
            refusable: true,
        }
    }

    fn taken() -> Intent {
        Intent::Taken(instance(), Arrival { epoch: 1, number: 1 })
    }

    fn two() -> Inboxes {
        Inboxes::new(InboxBounds {
            messages: 2,
            bytes: 1_000,
        })
    }

    /// Messages in the inbox.
    fn messages(inboxes: &Inboxes) -> usize {
        inboxes.counts[&instance()].messages
    }

    /// Found in review: the committer panicked, and the store was over.
    #[test]
    fn what_is_purged_can_be_written_to_in_the_same_commit() {
        let mut inboxes = two();
        settle(&mut inboxes, vec![delivered(), delivered()]).unwrap();
        settle(&mut inboxes, vec![Intent::Purged(instance()), delivered()]).unwrap();
        assert_eq!(messages(&inboxes), 1);
    }

    fn large(bytes: usize) -> Intent {
        Intent::Delivered {
            instance: instance(),
            number: 1,
            bytes,
            refusable: true,
        }
    }

    /// What an inbox holds is counted to the byte: what was taken would otherwise fill it in the end.
    #[tokio::test]
    async fn bytes_are_counted_back() {
        let (engine, store) = {
            let engine: std::sync::Arc<dyn Engine> = std::sync::Arc::new(Memory::new());
            let opened = crate::storage::OpenOptions::new().open_engine(std::sync::Arc::clone(&engine));
            (engine, opened.unwrap())
        };
        let namespace = store.namespace(&instance());
        let message = |payload: usize| crate::storage::record::Message {
            id: crate::ids::MessageId::new("m").unwrap(),
            sent_at_ms: 0,
            from: None,
            content: crate::storage::record::Content::Told {
                name: "parcel".into(),
                payload: store.codecs().pack(&vec![7_u8; payload]).unwrap(),
            },
        };
        let place = |number| Arrival { epoch: 1, number };
        let mut inboxes = Inboxes::new(InboxBounds {
            messages: 100,
            bytes: 100_000,
        });
        let mut sizes = Vec::new();
        for (number, payload) in [(1, 10), (2, 1_000), (3, 100)] {
            let mut commit = Commit::new(Shard(0));
            commit.set(&namespace, &Local::Inbox(place(number)), &message(payload));
            inboxes.settle(&commit, &*engine).unwrap();
            // Only the row is wanted: what the committer makes of it is not asked here.
            commit.intents.clear();
            store.commit(commit).await.unwrap();
            sizes.push(inboxes.counts[&instance()]);
        }
        let mut commit = Commit::new(Shard(0));
        commit.delete(&namespace, &Local::Inbox(place(2)));
        inboxes.settle(&commit, &*engine).unwrap();
        let (all, before, large) = (sizes[2].bytes, sizes[0].bytes, sizes[1].bytes - sizes[0].bytes);
        assert!(large > 1_000 && before > 10, "{sizes:?}");
        assert_eq!(inboxes.counts[&instance()].bytes, all - large);
        // Read anew, it is as much.
        store.commit(commit).await.unwrap();
        let read = count(Shard(0), &instance(), inboxes.bounds, &*engine).unwrap();
        assert_eq!(read.bytes, all - large);
    }

    #[test]
    fn an_inbox_is_full_of_bytes_before_it_is_full_of_messages() {
        let mut inboxes = two();
        settle(&mut inboxes, vec![large(5_000)]).unwrap();
        settle(&mut inboxes, vec![large(1)]).unwrap_err();
        settle(&mut inboxes, vec![taken(), large(600)]).unwrap();
        settle(&mut inboxes, vec![large(401)]).unwrap_err();
        settle(&mut inboxes, vec![large(400)]).unwrap();
    }

    #[test]
    fn a_commit_that_is_refused_counts_for_nothing() {
        let mut inboxes = two();
        settle(&mut inboxes, vec![delivered()]).unwrap();
        let purged = Intent::Purged(instance());
        settle(
            &mut inboxes,
            vec![taken(), delivered(), purged, delivered(), delivered(), delivered()],
        )
        .unwrap_err();
        assert_eq!(messages(&inboxes), 1);
    }
}
