//! Who has to run after a restart, decided in the order of commits.
//!
//! An instance that rests says so in a commit, and whoever sends it a message makes another one. Neither knows of the
//! other, and which comes first is settled only here. So a commit does not write the runnable row itself; it says what
//! it means, and the committer turns that into a row or into its removal:
//!
//! - a delivery makes its instance runnable;
//! - a rest makes it not runnable, unless a message was delivered that the instance had not seen when it decided.
//!
//! Without this a message that was acknowledged just before a crash could lie in the inbox of an instance that nobody
//! wakes.

use std::collections::HashMap;

use crate::ids::{InstanceId, Shard};
use crate::limits::UNSEEN_DELIVERIES_MAX;
use crate::storage::batch::Batch;
use crate::storage::commit::Commit;
use crate::storage::engine::Engine;
use crate::storage::error::Result;
use crate::storage::key::Key;
use crate::storage::record::Runnable;
use crate::storage::value;

/// What a commit means for the runnable row of an instance, and for its inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It has to run after a restart.
    Runs(InstanceId, Runnable),
    /// A message was put into its inbox.
    Delivered {
        instance: InstanceId,
        number: u64,
        /// Whether it may be refused because the inbox is full.
        refusable: bool,
    },
    /// A message was taken out of its inbox.
    Taken(InstanceId),
    /// A message that it had taken was put back.
    Returned(InstanceId),
    /// It has nothing to do, as far as it knows.
    Rests(InstanceId),
    /// Everything of it is gone.
    Purged(InstanceId),
}

/// Turns intents into rows. Lives with the committer: nobody else knows the order.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    /// The last message to each instance that has not said that it saw it.
    unseen: HashMap<InstanceId, u64>,
    /// Messages up to this number may have been forgotten here.
    forgotten: u64,
    /// Rows that the group so far sets or removes.
    staged: HashMap<InstanceId, bool>,
    /// The last message of the group so far.
    delivered: u64,
}

impl Intents {
    /// Adds to an accepted commit what its intents come to.
    pub(crate) fn settle(&mut self, commit: &mut Commit, engine: &dyn Engine) -> Result<()> {
        let (shard, seen) = (commit.shard, commit.seen);
        for intent in std::mem::take(&mut commit.intents) {
            match intent {
                Intent::Runs(instance, runnable) => {
                    set(&mut commit.batch, shard, &instance, &runnable);
                    self.staged.insert(instance, true);
                }
                Intent::Delivered { instance, number, .. } => {
                    self.delivered = number;
                    if !self.is_runnable(shard, &instance, engine)? {
                        // Whoever reads the row finds the type in the instance.
                        set(&mut commit.batch, shard, &instance, &Runnable::new("", 0));
                        self.staged.insert(instance.clone(), true);
                    }
                    self.remember(instance, number);
                }
                Intent::Rests(instance) => {
                    let last = self.unseen.get(&instance).copied().unwrap_or(self.forgotten);
                    if seen.is_none_or(|seen| last <= seen) {
                        let key = Key::Runnable(shard, instance.as_str().into());
                        commit.batch.delete_with(|out| key.pack_into(out));
                        self.unseen.remove(&instance);
                        self.staged.insert(instance, false);
                    }
                }
                // These are for the inboxes.
                Intent::Taken(_) | Intent::Returned(_) | Intent::Purged(_) => {}
            }
        }
        Ok(())
    }

    /// The group is done. Gives the number of its last message; zero if it had none.
    pub(crate) fn forget(&mut self) -> u64 {
        self.staged.clear();
        std::mem::take(&mut self.delivered)
    }

    fn is_runnable(&self, shard: Shard, instance: &InstanceId, engine: &dyn Engine) -> Result<bool> {
        if let Some(staged) = self.staged.get(instance) {
            return Ok(*staged);
        }
        let key = Key::Runnable(shard, instance.as_str().into()).pack();
        Ok(engine.get(shard, &key)?.is_some())
    }

    /// Remembers a message until it is seen. When there are too many, all are forgotten, and whoever rests keeps its
    /// row once too often: that costs an activation at the next start, and loses nothing.
    fn remember(&mut self, instance: InstanceId, number: u64) {
        if self.unseen.len() >= UNSEEN_DELIVERIES_MAX {
            self.forgotten = self.unseen.drain().map(|(_, number)| number).max().unwrap_or(0);
        }
        self.unseen.insert(instance, number);
    }
}

fn set(batch: &mut Batch, shard: Shard, instance: &InstanceId, runnable: &Runnable) {
    let key = Key::Runnable(shard, instance.as_str().into());
    batch.set_with(
        |out| key.pack_into(out),
        |key, out| value::encode_behind(key, runnable, out),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::engines::Memory;

    fn instance(name: &str) -> InstanceId {
        InstanceId::new(name).unwrap()
    }

    fn delivered(name: &str, number: u64) -> Intent {
        Intent::Delivered {
            instance: instance(name),
            number,
            refusable: true,
        }
    }

    /// What a commit with these intents writes.
    fn settle(intents: &mut Intents, seen: Option<u64>, intent: Intent) -> Batch {
        let mut commit = Commit::new(Shard(0));
        commit.seen = seen;
        commit.intents.push(intent);
        intents.settle(&mut commit, &Memory::new()).unwrap();
        commit.batch
    }

    #[test]
    fn a_rest_that_missed_a_message_changes_nothing() {
        let mut intents = Intents::default();
        assert_eq!(settle(&mut intents, None, delivered("a", 7)).len(), 1, "the row is set");
        assert!(settle(&mut intents, Some(6), Intent::Rests(instance("a"))).is_empty());
        assert_eq!(settle(&mut intents, Some(7), Intent::Rests(instance("a"))).len(), 1);
        assert_eq!(
            settle(&mut intents, Some(0), Intent::Rests(instance("b"))).len(),
            1,
            "nobody wrote to it"
        );
    }

    #[test]
    fn the_end_of_an_instance_takes_the_row_whatever_was_delivered() {
        let mut intents = Intents::default();
        settle(&mut intents, None, delivered("a", 7));
        assert_eq!(settle(&mut intents, None, Intent::Rests(instance("a"))).len(), 1);
    }

    /// The count of activations is in the row: a message must not set it back.
    #[test]
    fn a_delivery_leaves_a_row_that_is_there_as_it_is() {
        let mut intents = Intents::default();
        settle(&mut intents, None, Intent::Runs(instance("a"), Runnable::new("w", 3)));
        assert!(settle(&mut intents, None, delivered("a", 1)).is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_errs_on_the_side_of_running() {
        let mut intents = Intents::default();
        for number in 1..=UNSEEN_DELIVERIES_MAX as u64 + 1 {
            settle(&mut intents, None, delivered(&format!("i{number}"), number));
        }
        assert!(intents.unseen.len() <= UNSEEN_DELIVERIES_MAX);
        assert!(settle(&mut intents, Some(0), Intent::Rests(instance("i1"))).is_empty());
    }
}
