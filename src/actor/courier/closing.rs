//! Carrying to children that their parent does not wait for them any more.
//!
//! One row names many children. Those that are asked to end and live in one shard are asked in one commit; those that are
//! ended at once are ended beside everything else that is carried. A row that is carried again finds that most of them
//! were asked or have ended, and sees to the rest. It goes when all of them were.

use std::collections::BTreeMap;

use futures_util::StreamExt;

use crate::actor::courier::delivery::{Build, Carried, Delivery, Hand};
use crate::ids::{InstanceId, Shard};
use crate::limits::COURIER_SENDERS_MAX;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Closing, Content, Message, State};
use crate::storage::{Commit, Error, Posted, Refusal, Result};

impl<H: Hand> Delivery<'_, H> {
    /// Tells children to end, and says whether that is done. Those that have ended, or that there are not, need not be
    /// told.
    pub(super) async fn close(
        &self,
        row: &Posted,
        reason: &str,
        children: &[Closing],
        carried: &mut Carried,
    ) -> Result<bool> {
        if self.hand.is_ending(row) {
            return Ok(false);
        }
        let mut asked: BTreeMap<Shard, Vec<(InstanceId, Message)>> = BTreeMap::new();
        let mut ended = Vec::new();
        for child in children {
            let Ok(instance) = InstanceId::internal(child.instance.as_str()) else {
                tracing::error!(sender = %row.from, child = child.instance, "a child to close has no id");
                continue;
            };
            if !self.is_open(&instance)? {
                continue;
            }
            match &child.asks {
                None => ended.push(instance),
                Some(id) => {
                    let (reason, from) = (reason.to_owned(), Some(row.from.to_string()));
                    let message = Message {
                        id: id.clone(),
                        sent_at_ms: self.now,
                        from,
                        content: Content::Cancel { reason },
                    };
                    let shard = self.store.shard_of(&instance);
                    asked.entry(shard).or_default().push((instance, message));
                }
            }
        }
        for (shard, children) in asked {
            self.ask_to_end(shard, &children).await?;
            carried.woken.extend(children.into_iter().map(|(child, _)| child));
        }
        if !ended.is_empty() && !self.hand.end(row, ended, reason).await? {
            return Ok(false);
        }
        self.remove(row).await.map(|()| true)
    }

    /// Asks children of one shard, together if that goes.
    async fn ask_to_end(&self, shard: Shard, children: &[(InstanceId, Message)]) -> Result<()> {
        if self.ask(shard, children).await.is_ok() {
            return Ok(());
        }
        let each: Vec<_> = children.chunks(1).map(|child| self.ask(shard, child)).collect();
        let mut each = futures_util::stream::iter(each).buffered(COURIER_SENDERS_MAX);
        let mut failed = None;
        while let Some(asked) = each.next().await {
            match asked {
                Ok(()) | Err(Error::Refused(Refusal::Duplicate(_) | Refusal::Ended(_) | Refusal::Missing)) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn ask(&self, shard: Shard, children: &[(InstanceId, Message)]) -> Result<()> {
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(shard);
            for (child, message) in children {
                commit.deliver(&self.store.namespace(child), arrivals.next_place(), message);
            }
            commit
        });
        self.hand.commit(shard, build).await
    }

    /// Whether a child has not ended. One that can't be read does not run, and must not keep the others of its row.
    fn is_open(&self, instance: &InstanceId) -> Result<bool> {
        let namespace = self.store.namespace(instance);
        let snapshot = self.store.snapshot(namespace.shard())?;
        match namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State)) {
            Ok(state) => Ok(state.is_some_and(|state| !state.status.is_terminal())),
            Err(error) if error.is_damage() => {
                tracing::error!(child = %instance, %error, code = error.code(), "a child to close can't be read");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
