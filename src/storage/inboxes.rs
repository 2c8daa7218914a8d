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
    /// What the commit at hand has changed so far: the place of an intent in it, and the count before. Kept so that a
    /// commit costs no allocation.
    before: Vec<(usize, usize)>,
    /// Whether a commit was counted that was not done after all.
    doubtful: bool,
}

impl Inboxes {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
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
            if let Intent::Delivered { instance, .. } | Intent::Taken(instance) | Intent::Returned(instance) = intent
                && !self.counts.contains_key(instance)
            {
                let count = count(commit.shard, instance, self.max, engine)?;
                self.counts.insert(instance.clone(), count);
            }
        }
        self.before.clear();
        for (index, intent) in commit.intents.iter().enumerate() {
            let (Intent::Delivered { instance, .. }
            | Intent::Returned(instance)
            | Intent::Taken(instance)
            | Intent::Purged(instance)) = intent
            else {
                continue;
            };
            // Nobody has to know how many there are of what goes.
            let Some(count) = self.counts.get_mut(instance) else {
                continue;
            };
            self.before.push((index, *count));
            match intent {
                Intent::Delivered { refusable, .. } if *refusable && *count >= self.max => {
                    self.take_back(&commit.intents);
                    return Err(Refusal::InboxFull { max: self.max }.into());
                }
                Intent::Delivered { .. } | Intent::Returned(_) => *count += 1,
                Intent::Taken(_) => *count = count.saturating_sub(1),
                Intent::Purged(_) | Intent::Runs(..) | Intent::Rests(_) => *count = 0,
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
        for (index, count) in self.before.drain(..).rev() {
            if let Intent::Delivered { instance, .. }
            | Intent::Returned(instance)
            | Intent::Taken(instance)
            | Intent::Purged(instance) = &intents[index]
            {
                self.counts.insert(instance.clone(), count);
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
            refusable: true,
        }
    }

    /// Found in review: the committer panicked, and the store was over.
    #[test]
    fn what_is_purged_can_be_written_to_in_the_same_commit() {
        let mut inboxes = Inboxes::new(2);
        settle(&mut inboxes, vec![delivered(), delivered()]).unwrap();
        settle(&mut inboxes, vec![Intent::Purged(instance()), delivered()]).unwrap();
        assert_eq!(inboxes.counts[&instance()], 1);
    }

    #[test]
    fn a_commit_that_is_refused_counts_for_nothing() {
        let mut inboxes = Inboxes::new(2);
        settle(&mut inboxes, vec![delivered()]).unwrap();
        let purged = Intent::Purged(instance());
        settle(
            &mut inboxes,
            vec![
                Intent::Taken(instance()),
                delivered(),
                purged,
                delivered(),
                delivered(),
                delivered(),
            ],
        )
        .unwrap_err();
        assert_eq!(inboxes.counts[&instance()], 1);
    }
}
