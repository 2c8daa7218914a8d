//! Topics: one that is heard of for the first time, and an event that its waiter did not live to get.

use xxhash_rust::xxh3::xxh3_64;

use crate::actor::courier::delivery::{Build, Carried, Delivery, Hand};
use crate::actor::start::begin_rows;
use crate::engine::Message as _;
use crate::engine::topic::{Note, Waiter, origin as topic_origin};
use crate::ids::{InstanceId, MessageId};
use crate::storage::record::{Content, Message, Parcel, Reach};
use crate::storage::{Commit, Error, Posted, Refusal, Result};

impl<H: Hand> Delivery<'_, H> {
    /// Begins a topic that is heard of for the first time. Somebody else may have come first.
    pub(super) async fn open_topic(&self, topic: &InstanceId, parcel: &Parcel) -> Result<()> {
        let namespace = self.store.namespace(topic);
        // Nothing that has to be kept from anybody is derived from the secret of a topic.
        let secret = match parcel {
            Parcel::Message { message, .. } => xxh3_64(message.id.as_str().as_bytes()),
            _ => self.now,
        };
        let (origin, input) = (topic_origin(self.now, secret.into()), self.store.codecs().pack(&())?);
        let build: Build<'_> = Box::new(|_| {
            let mut commit = Commit::new(namespace.shard());
            begin_rows(&mut commit, &namespace, &origin, input, None);
            commit
        });
        match self.hand.commit(namespace.shard(), build).await {
            Ok(()) | Err(Error::Refused(Refusal::Exists)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Who waited for an event has ended: the topic gets it back.
    pub(super) async fn return_event(
        &self,
        row: &Posted,
        to: &str,
        message: &Message,
        carried: &mut Carried,
    ) -> Result<()> {
        let Content::Settled {
            run,
            entry,
            reach: Reach::Waiting,
            ..
        } = &message.content
        else {
            // It was for all, and the topic has no use for it.
            return self.remove(row).await;
        };
        let (instance, run, entry) = (to.to_owned(), *run, *entry);
        let note = Note::Returned(Waiter { instance, run, entry });
        let (name, payload) = (Note::NAME.to_owned(), self.store.codecs().pack(&note)?);
        let message = Message {
            id: MessageId::new(format!("{}-returned", message.id)).expect("an id and a word are an id"),
            sent_at_ms: self.now,
            from: None,
            content: Content::Told { name, payload },
        };
        let sender = self.store.namespace(&row.from);
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(sender.shard());
            commit.hand_over(&sender, arrivals.next_place(), &message);
            commit.posted(&sender, row.revision, row.index);
            commit
        });
        match self.hand.commit(sender.shard(), build).await {
            Ok(()) => carried.woken.push(row.from.clone()),
            Err(Error::Refused(Refusal::Duplicate(_) | Refusal::Ended(_) | Refusal::Missing)) => {
                self.remove(row).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
