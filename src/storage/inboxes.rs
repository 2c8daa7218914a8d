//! How full inboxes are, counted in the order of commits.
//!
//! The committer sees every message that is put into an inbox and every one that is taken out. So it counts: an inbox
//! is read once, when its instance is first heard of, and no further than its bound; from then on the count is kept
//! in memory. A sender that floods an inbox is refused by a look at a number.

use std::collections::HashMap;

use crate::ids::{InstanceId, Shard};
use crate::limits::INBOX_COUNTS_MAX;
use crate::storage::commit::Commit;
use crate::storage::engine::{Direction, Engine, Scan};
use crate::storage::error::{Refusal, Result};
use crate::storage::intent::Intent;
use crate::storage::key;
use crate::storage::namespace::Namespace;

/// Counts what lies in inboxes. Lives with the committer: nobody else knows the order.
#[derive(Debug)]
pub(crate) struct Inboxes {
    max: usize,
    /// Messages in each inbox, with the group so far. Where a process with a larger bound left more than this one
    /// allows, the count is too small by the rest.
    counts: HashMap<InstanceId, usize>,
    /// Whether a commit was counted that was not done after all.
    doubtful: bool,
}

impl Inboxes {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            counts: HashMap::new(),
            doubtful: false,
        }
    }

    /// Refuses a commit that would put a message into a full inbox; counts what an accepted one puts in and takes out.
    /// What an instance is owed or told by an operator (the end of a child, a cancellation) is counted and not refused:
    /// its own operations bound it.
    pub(crate) fn settle(&mut self, commit: &Commit, engine: &dyn Engine) -> Result<()> {
        for intent in &commit.intents {
            if let Intent::Delivered { instance, .. } | Intent::Taken(instance) | Intent::Returned(instance) = intent
                && !self.counts.contains_key(instance)
            {
                let count = count(commit.shard, instance, self.max, engine)?;
                self.counts.insert(instance.clone(), count);
            }
        }
        for (index, intent) in commit.intents.iter().enumerate() {
            match intent {
                Intent::Delivered {
                    instance, refusable, ..
                } => {
                    let max = self.max;
                    let count = self.count_of(instance);
                    if *refusable && *count >= max {
                        self.take_back(&commit.intents[..index]);
                        return Err(Refusal::InboxFull { max }.into());
                    }
                    *count += 1;
                }
                Intent::Returned(instance) => *self.count_of(instance) += 1,
                Intent::Taken(instance) => {
                    let count = self.count_of(instance);
                    *count = count.saturating_sub(1);
                }
                // Such a commit closes its group: whoever counts again reads what it left.
                Intent::Purged(instance) => drop(self.counts.remove(instance)),
                Intent::Runs(..) | Intent::Rests(_) => {}
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

    fn count_of(&mut self, instance: &InstanceId) -> &mut usize {
        self.counts
            .get_mut(instance)
            .expect("it was counted when the commit was looked at")
    }

    /// Undoes what a commit that is refused has counted so far.
    fn take_back(&mut self, intents: &[Intent]) {
        for intent in intents {
            match intent {
                Intent::Delivered { instance, .. } | Intent::Returned(instance) => *self.count_of(instance) -= 1,
                Intent::Taken(instance) => *self.count_of(instance) += 1,
                Intent::Purged(_) | Intent::Runs(..) | Intent::Rests(_) => {}
            }
        }
    }
}

/// Counts the messages in an inbox, at most so many.
fn count(shard: Shard, instance: &InstanceId, most: usize, engine: &dyn Engine) -> Result<usize> {
    let namespace = Namespace::new(shard, instance.clone());
    let mut prefix = namespace.prefix().to_vec();
    key::inbox_into(&mut prefix);
    let (start, end) = key::below(&prefix);
    let scan = Scan {
        start: &start,
        end: &end,
        direction: Direction::Forward,
        limit: most,
    };
    let mut count = 0;
    engine.snapshot(shard)?.scan(&scan, &mut |_, _| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(count)
}
