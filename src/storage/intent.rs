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
use crate::storage::key::{Arrival, Key};
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
        /// Bytes of its value.
        bytes: usize,
        /// Whether it may be refused because the inbox is full.
        refusable: bool,
    },
    /// The message at this place was taken out of its inbox.
    Taken(InstanceId, Arrival),
    /// A message that it had taken was put back, in a value of so many bytes.
    Returned(InstanceId, usize),
    /// It has nothing to do, as far as it knows.
    Rests(InstanceId),
    /// Everything of it is gone.
    Purged(InstanceId),
}

/// Bytes of a runnable row beside the id of its instance and the name of its workflow, at most.
const ROW_BYTES_MAX: usize = 128;

impl Intent {
    /// Bytes that the row that it comes to may have.
    pub(crate) fn row_bytes_max(&self) -> usize {
        match self {
            Self::Runs(instance, runnable) => instance.as_str().len() + runnable.workflow.len() + ROW_BYTES_MAX,
            Self::Delivered { instance, .. } | Self::Rests(instance) => instance.as_str().len() + ROW_BYTES_MAX,
            Self::Taken(..) | Self::Returned(..) | Self::Purged(_) => 0,
        }
    }
}

/// Turns intents into rows. Lives with the committer: nobody else knows the order.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    /// The last message to each instance that has not said that it saw it. One that was not written after all may be
    /// here: that errs on the side of running.
    unseen: HashMap<InstanceId, u64>,
    /// Messages up to this number may have been forgotten here.
    forgotten: u64,
    /// Rows that the group so far sets or removes.
    staged: HashMap<InstanceId, bool>,
    /// Instances that the group so far lets rest, with the message up to which they have seen all. It is believed when
    /// the group is written.
    rested: Vec<(InstanceId, u64)>,
    /// The last message of the group so far.
    delivered: u64,
    /// What the commit at hand adds to `staged`, once all of it is settled.
    fresh: Vec<(InstanceId, bool)>,
}

impl Intents {
    /// Adds to an accepted commit what its intents come to, or nothing anywhere.
    pub(crate) fn settle(&mut self, commit: &mut Commit, engine: &dyn Engine) -> Result<()> {
        let (rested, bytes_max) = (self.rested.len(), commit.settled_bytes());
        let delivered = self.add(commit, engine);
        match delivered {
            Ok(delivered) => {
                debug_assert!(
                    commit.bytes() <= bytes_max,
                    "the rows are larger than what was left for them"
                );
                self.delivered = self.delivered.max(delivered);
                self.staged.extend(self.fresh.drain(..));
                Ok(())
            }
            Err(error) => {
                self.rested.truncate(rested);
                self.fresh.clear();
                Err(error)
            }
        }
    }

    /// Adds the rows; gives the number of the commit's last message.
    fn add(&mut self, commit: &mut Commit, engine: &dyn Engine) -> Result<u64> {
        let (shard, seen) = (commit.shard, commit.seen);
        let Commit { batch, intents, .. } = commit;
        let mut delivered = 0;
        for intent in intents.iter() {
            match intent {
                Intent::Runs(instance, runnable) => {
                    set(batch, shard, instance, runnable);
                    self.fresh.push((instance.clone(), true));
                }
                Intent::Delivered { instance, number, .. } => {
                    delivered = *number;
                    if !self.is_runnable(shard, instance, engine)? {
                        // Whoever reads the row finds the type in the instance.
                        set(batch, shard, instance, &Runnable::new("", 0));
                        self.fresh.push((instance.clone(), true));
                    }
                    self.remember(instance.clone(), *number);
                }
                Intent::Rests(instance) => {
                    let last = self.unseen.get(instance).copied().unwrap_or(self.forgotten);
                    if seen.is_none_or(|seen| last <= seen) {
                        let key = Key::Runnable(shard, instance.as_str().into());
                        batch.delete_with(|out| key.pack_into(out));
                        self.rested.push((instance.clone(), last));
                        self.fresh.push((instance.clone(), false));
                    }
                }
                // These are for the inboxes.
                Intent::Taken(..) | Intent::Returned(..) | Intent::Purged(_) => {}
            }
        }
        Ok(delivered)
    }

    /// The group is done, written or not. Gives the number of its last message; zero if it had none.
    pub(crate) fn forget(&mut self, written: bool) -> u64 {
        self.staged.clear();
        self.fresh.clear();
        for (instance, last) in self.rested.drain(..) {
            if written && self.unseen.get(&instance) == Some(&last) {
                self.unseen.remove(&instance);
            }
        }
        std::mem::take(&mut self.delivered)
    }

    fn is_runnable(&self, shard: Shard, instance: &InstanceId, engine: &dyn Engine) -> Result<bool> {
        let fresh = self.fresh.iter().rev().find(|(its, _)| its == instance);
        if let Some(staged) = fresh.map(|(_, row)| row).or_else(|| self.staged.get(instance)) {
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
            bytes: 1,
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

    /// Found in review: a commit whose second delivery could not be settled left behind that the first one had set its
    /// row. The next message to that instance set none, and after a crash nobody woke it.
    #[cfg(feature = "testing")]
    #[test]
    fn a_commit_that_is_not_settled_leaves_nothing_behind() {
        use crate::storage::engines::faulty::{Faulty, Plan, ReadFault};

        let plan = Plan::new();
        let engine = Faulty::new(std::sync::Arc::new(Memory::new()), plan.clone());
        let mut intents = Intents::default();
        let mut commit = Commit::new(Shard(0));
        commit.intents = vec![Intent::Rests(instance("r")), delivered("a", 1), delivered("b", 2)];
        plan.at_read(2, ReadFault::Fail(std::io::ErrorKind::TimedOut));
        intents.remember(instance("r"), 0);
        intents.settle(&mut commit, &engine).unwrap_err();
        assert_eq!(settle(&mut intents, None, delivered("a", 3)).len(), 1, "the row is set");
        assert_eq!(intents.forget(true), 3);
        assert!(intents.unseen.contains_key(&instance("r")), "it never came to rest");
    }

    /// Found in review: a rest was believed before its group was written, and if it never was, the next one took the
    /// row of an instance with a message that it had not seen.
    #[test]
    fn a_rest_that_is_not_written_is_not_believed() {
        let mut intents = Intents::default();
        settle(&mut intents, None, delivered("a", 7));
        intents.forget(true);
        assert_eq!(settle(&mut intents, Some(7), Intent::Rests(instance("a"))).len(), 1);
        intents.forget(false);
        assert!(settle(&mut intents, Some(6), Intent::Rests(instance("a"))).is_empty());
        assert_eq!(settle(&mut intents, Some(7), Intent::Rests(instance("a"))).len(), 1);
        intents.forget(true);
        assert!(intents.unseen.is_empty(), "what was seen is not kept");
    }

    /// What a commit may come to is known before it is settled.
    #[test]
    fn no_row_is_larger_than_what_is_left_for_it() {
        let longest = instance(&"i".repeat(200));
        let runs = Intent::Runs(longest.clone(), Runnable::new("w".repeat(1000), u32::MAX));
        for intent in [
            runs,
            delivered(longest.as_str(), u64::MAX),
            Intent::Rests(longest.clone()),
        ] {
            let max = intent.row_bytes_max();
            let bytes = settle(&mut Intents::default(), None, intent).bytes();
            assert!(0 < bytes && bytes <= max, "{bytes} of {max}");
        }
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
