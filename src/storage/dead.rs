//! Messages that could not be delivered, and that their senders wanted kept.

use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::ids::{MessageId, Shard};
use crate::limits::PAGE_ROWS_MAX;
use crate::storage::commit::Commit;
use crate::storage::engine::{Direction, Scan};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::listing::{Cursor, Page, page_of};
use crate::storage::record::DeadLetter;
use crate::storage::store::Store;
use crate::storage::value;

/// A message that could not be delivered, as it lies in the store.
#[derive(Debug)]
pub struct Buried {
    /// When that was found.
    pub at_ms: Millis,
    /// The id of the message.
    pub id: String,
    /// What is kept of it, or why that can't be read. One that can't must not keep the others.
    pub dead: Result<DeadLetter>,
}

impl Store {
    /// The messages of a shard that could not be delivered, behind this one.
    pub(crate) fn dead_letters_behind(&self, shard: Shard, (at_ms, message): (Millis, &str)) -> Result<Page<Buried>> {
        let mut key = Key::Dead(shard, at_ms, message.into()).pack();
        key.push(0);
        self.dead_letters(shard, Some(&Cursor(key)))
    }

    /// A message that could not be delivered, if it is still kept.
    pub(crate) fn dead_letter(&self, shard: Shard, at_ms: Millis, message: &MessageId) -> Result<Option<DeadLetter>> {
        let key = Key::Dead(shard, at_ms, message.as_str().into()).pack();
        let Some(value) = self.snapshot(shard)?.get(&key)? else {
            return Ok(None);
        };
        let decoded = value::decode(&key, &value).map_err(|source| Error::Decode {
            key: key::describe(&key),
            source,
        });
        decoded.map(Some)
    }

    /// The messages of a shard that could not be delivered, oldest first, at most [`PAGE_ROWS_MAX`] of them.
    pub fn dead_letters(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<Buried>> {
        page_of(
            &*self.snapshot(shard)?,
            key::dead(shard),
            after,
            |key, dead| match key {
                Key::Dead(_, at_ms, id) => {
                    let id = id.into_owned();
                    Some(Ok(Buried { at_ms, id, dead }))
                }
                _ => None,
            },
        )
    }

    /// Gives up those of them that are older than this, also if they can't be read. Tells how many.
    pub(crate) async fn forget_dead_letters(&self, shard: Shard, before_ms: Millis) -> Result<u64> {
        let mut forgotten = 0;
        loop {
            let mut commit = Commit::new(shard);
            let count = self.dead_before(shard, before_ms, &mut commit)?;
            if count > 0 {
                self.commit(commit).await?;
                forgotten += count as u64;
            }
            if count < PAGE_ROWS_MAX {
                return Ok(forgotten);
            }
        }
    }

    /// Removes some of them in a commit.
    fn dead_before(&self, shard: Shard, before_ms: Millis, commit: &mut Commit) -> Result<usize> {
        let (start, _) = key::dead(shard);
        let scan = Scan {
            start: &start,
            end: &Key::Dead(shard, before_ms, "".into()).pack(),
            direction: Direction::Forward,
            limit: PAGE_ROWS_MAX,
        };
        let mut count = 0;
        self.snapshot(shard)?.scan(&scan, &mut |key, _| {
            commit.delete_raw(key);
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }
}
