//! Everything that one decision writes, all or nothing.
//!
//! A commit is one value: the conditions under which it is right, and all rows that it changes. It is built without
//! touching the store and handed over whole, so there is no moment at which half of a decision could be dropped.
//! An alarm is set together with the state that names it, a message is put into the inbox together with the row that
//! recognises its duplicate: the methods here have no spelling for one without the other.

use crate::clock::Millis;
use crate::ids::{InstanceId, MessageId, Shard};
use crate::storage::activation::Activation;
use crate::storage::batch::Batch;
use crate::storage::intent::Intent;
use crate::storage::key::{self, Arrival, Key, Local, Meta};
use crate::storage::namespace::Namespace;
use crate::storage::record::{
    Alarm, AtGate, Content, DeadLetter, IndexRow, Message, Origin, Outgoing, Runnable, Seen, State, Tombstone,
};
use crate::storage::spare;
use crate::storage::value::{self, Record};

/// What must hold at the moment the commit is done; if not, nothing of it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Condition {
    /// The instance does not exist.
    Missing(InstanceId),
    /// The instance exists.
    Exists(InstanceId),
    /// The instance exists and has not ended.
    Open(InstanceId),
    /// The instance is at this revision.
    Revision(InstanceId, u64),
    /// The instance has not seen this message.
    Unseen(InstanceId, MessageId),
    /// The activation is the current one of its instance.
    Current(Activation),
    /// The instance has something on its way that belongs to this revision and has this number there.
    Posted(InstanceId, u64, u32),
}

/// One decision: conditions and rows.
#[derive(Debug)]
pub struct Commit {
    pub(crate) shard: Shard,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) batch: Batch,
    /// Operations on rows that conditions are about, so that a later commit of the same group sees them.
    pub(crate) watched: Vec<u32>,
    /// Whether the commit removes ranges. Such a commit closes its group, so that conditions after it read what it
    /// left.
    pub(crate) sweeps: bool,
    /// Whether the commit puts something into an outbox: then the courier has something to carry.
    pub(crate) posts: bool,
    /// What it means for who has to run after a restart, and for inboxes. The committer knows what that comes to.
    pub(crate) intents: Vec<Intent>,
    /// The last message that whoever decided this had seen.
    pub(crate) seen: Option<u64>,
}

impl Commit {
    /// An empty commit for one shard.
    pub fn new(shard: Shard) -> Self {
        match spare::take() {
            Some(spare) => Self { shard, ..spare },
            None => Self {
                shard,
                conditions: Vec::new(),
                batch: Batch::new(),
                watched: Vec::new(),
                sweeps: false,
                posts: false,
                intents: Vec::new(),
                seen: None,
            },
        }
    }

    /// Adds a condition.
    pub fn require(&mut self, condition: Condition) -> &mut Self {
        self.conditions.push(condition);
        self
    }

    /// Sets a row in the namespace of an instance. Its state is set with [`Commit::set_state`].
    ///
    /// # Panics
    ///
    /// If the row is the state, or if the namespace lies in another shard: the commit would be one that no condition
    /// guards.
    pub fn set<R: Record>(&mut self, namespace: &Namespace, local: &Local<'_>, record: &R) -> &mut Self {
        self.check(namespace);
        assert!(
            *local != Local::Meta(Meta::State),
            "the state is set together with its alarm"
        );
        let bytes = self.put(|out| namespace.key_into(local, out), record);
        if matches!(local, Local::Inbox(_)) {
            self.intents.push(Intent::Returned(namespace.instance().clone(), bytes));
        }
        self
    }

    /// Removes a row from the namespace of an instance. Its state goes only with all the rest ([`Commit::purge`]).
    ///
    /// # Panics
    ///
    /// If the row is the state, or if the namespace lies in another shard.
    pub fn delete(&mut self, namespace: &Namespace, local: &Local<'_>) -> &mut Self {
        self.check(namespace);
        assert!(*local != Local::Meta(Meta::State), "the state goes with all the rest");
        self.batch.delete_with(|out| namespace.key_into(local, out));
        if let Local::Inbox(arrival) = local {
            self.intents.push(Intent::Taken(namespace.instance().clone(), *arrival));
        }
        self
    }

    /// Removes every entry of the history at `location` and below.
    pub fn delete_below(&mut self, namespace: &Namespace, location: &crate::location::Location) -> &mut Self {
        self.check(namespace);
        let mut prefix = Vec::new();
        namespace.key_into(&Local::History(std::borrow::Cow::Borrowed(location)), &mut prefix);
        let (start, end) = key::below(&prefix);
        self.batch.delete_range(&start, &end);
        self.sweeps = true;
        self
    }

    /// Sets the state of an instance and moves its alarm along: from where the state before had it (`alarm_before`)
    /// to where this one has it.
    pub fn set_state(&mut self, namespace: &Namespace, alarm_before: Option<Millis>, state: &State) -> &mut Self {
        self.check(namespace);
        let instance = namespace.instance().as_str();
        if let Some(at) = alarm_before
            && alarm_before != state.alarm_at_ms
        {
            self.batch
                .delete_with(|out| Key::Alarm(self.shard, at, instance.into()).pack_into(out));
        }
        if let Some(at) = state.alarm_at_ms {
            let alarm = Alarm {
                revision: state.revision,
            };
            self.put(
                |out| Key::Alarm(namespace.shard(), at, instance.into()).pack_into(out),
                &alarm,
            );
        }
        self.watch_next();
        self.put(|out| namespace.key_into(&Local::Meta(Meta::State), out), state);
        self
    }

    /// Sets the listing row of an instance.
    pub fn set_index(&mut self, namespace: &Namespace, origin: &Origin, state: &State) -> &mut Self {
        self.check(namespace);
        let row = IndexRow::of(origin, state);
        let instance = namespace.instance().as_str();
        let key = Key::Index(self.shard, origin.created_at_ms, instance.into());
        self.put(|out| key.pack_into(out), &row);
        self
    }

    /// Says that an instance has to run after a restart, or no longer has to. With [`Commit::seen`] it has to all the
    /// same if a message was delivered that it had not seen.
    pub fn set_runnable(&mut self, namespace: &Namespace, runnable: Option<&Runnable>) -> &mut Self {
        self.check(namespace);
        let instance = namespace.instance().clone();
        self.intents.push(match runnable {
            Some(runnable) => Intent::Runs(instance, runnable.clone()),
            None => Intent::Rests(instance),
        });
        self
    }

    /// Has the runnable row of an instance be this one, whatever the commit said before.
    pub(crate) fn keep_runnable(&mut self, namespace: &Namespace, runnable: &Runnable) {
        self.intents
            .retain(|intent| !matches!(intent, Intent::Runs(..) | Intent::Rests(_)));
        self.set_runnable(namespace, Some(runnable));
    }

    /// Has the runnable row of an instance be this one, unless the commit says something else.
    pub(crate) fn reset_runnable(&mut self, namespace: &Namespace, runnable: &Runnable) {
        let says = |intent: &Intent| matches!(intent, Intent::Runs(..) | Intent::Rests(_));
        if !self.intents.iter().any(says) {
            self.set_runnable(namespace, Some(runnable));
        }
    }

    /// Says how far the inboxes were known to whoever decided this: every message up to the one with this number (see
    /// [`Store::delivered`](crate::storage::Store::delivered)).
    pub fn seen(&mut self, number: u64) -> &mut Self {
        self.seen = Some(number);
        self
    }

    /// Puts a message into the inbox of an instance that has not ended and has not seen it. If the inbox is full, the
    /// commit is refused, unless the message is one that the instance is owed or an operator's.
    pub fn deliver(&mut self, namespace: &Namespace, arrival: Arrival, message: &Message) -> &mut Self {
        self.hand_over(namespace, arrival, message);
        // A message that may come twice leaves no trace: whoever gets millions of them stays as small as it is.
        if !message.may_come_twice() {
            self.set_seen(namespace, &message.id, &Seen::from(arrival));
        }
        self
    }

    /// The same for a message that can't be sent again: its outbox row goes with this commit, or nobody knows its id. So
    /// nobody has to remember it, and whoever never ends stays as small as it is.
    pub(crate) fn hand_over(&mut self, namespace: &Namespace, arrival: Arrival, message: &Message) -> &mut Self {
        self.check(namespace);
        // In this order: a message that an instance has taken is a duplicate also when the instance has ended since.
        if !message.may_come_twice() {
            self.require(Condition::Unseen(namespace.instance().clone(), message.id.clone()));
        }
        self.require(Condition::Open(namespace.instance().clone()));
        let bytes = self.put(|out| namespace.key_into(&Local::Inbox(arrival), out), message);
        let instance = namespace.instance().clone();
        self.intents.push(Intent::Delivered {
            instance,
            number: arrival.number,
            bytes,
            refusable: matches!(message.content, Content::Told { .. } | Content::Asked { .. }),
        });
        self
    }

    /// Has no message with this id be accepted from here on. Refused if one was.
    pub fn close_to(&mut self, namespace: &Namespace, message: &MessageId) -> &mut Self {
        self.check(namespace);
        self.require(Condition::Unseen(namespace.instance().clone(), message.clone()));
        self.set_seen(namespace, message, &Seen::TOO_LATE);
        self
    }

    /// Says what became of a message id.
    pub(crate) fn set_seen(&mut self, namespace: &Namespace, message: &MessageId, seen: &Seen) {
        self.check(namespace);
        self.watch_next();
        let instance = namespace.instance().as_str();
        let key = Key::Dedup(self.shard, instance.into(), message.as_str().into());
        self.put(|out| key.pack_into(out), seen);
    }

    /// Has a message with this id be accepted, whatever was before.
    pub(crate) fn forget_seen(&mut self, namespace: &Namespace, message: &MessageId) {
        self.check(namespace);
        let instance = namespace.instance().as_str();
        let key = Key::Dedup(self.shard, instance.into(), message.as_str().into());
        self.batch.delete_with(|out| key.pack_into(out));
    }

    /// Puts something for another instance into the outbox of this one. It belongs to the commit that makes `revision`,
    /// and `index` is its number there.
    pub fn post(&mut self, namespace: &Namespace, revision: u64, index: u32, outgoing: &Outgoing) -> &mut Self {
        self.check(namespace);
        let key = Key::Outbox(self.shard, namespace.instance().as_str().into(), revision, index);
        self.put(|out| key.pack_into(out), outgoing);
        self.posts = true;
        self
    }

    /// Takes something out of the outbox of an instance: it has got where it was going.
    pub fn posted(&mut self, namespace: &Namespace, revision: u64, index: u32) -> &mut Self {
        self.check(namespace);
        let key = Key::Outbox(self.shard, namespace.instance().as_str().into(), revision, index);
        self.watch_next();
        self.batch.delete_with(|out| key.pack_into(out));
        self
    }

    /// Gives an instance a place at a gate. The gate lies in this shard; the instance may lie elsewhere.
    pub(crate) fn enter_gate(&mut self, gate: &str, place: Arrival, instance: &InstanceId, limit: u32) -> &mut Self {
        let key = Key::Gate(self.shard, gate.into(), place, instance.as_str().into());
        self.put(|out| key.pack_into(out), &AtGate { limit });
        self
    }

    /// Notes which place that is, for an instance of another shard: it does not know, and asks when it leaves.
    pub(crate) fn note_place(&mut self, gate: &str, place: Arrival, instance: &InstanceId) -> &mut Self {
        let key = Key::Placed(self.shard, gate.into(), instance.as_str().into());
        let (epoch, number) = (place.epoch, place.number);
        self.put(|out| key.pack_into(out), &Seen { epoch, number });
        self
    }

    /// Takes the place of an instance at a gate away.
    pub(crate) fn leave_gate(&mut self, gate: &str, place: Arrival, instance: &InstanceId) -> &mut Self {
        let key = Key::Gate(self.shard, gate.into(), place, instance.as_str().into());
        self.batch.delete_with(|out| key.pack_into(out));
        // One that knows its place may have been noted by an import all the same.
        let noted = Key::Placed(self.shard, gate.into(), instance.as_str().into());
        self.batch.delete_with(|out| noted.pack_into(out));
        self
    }

    /// Keeps a message that could not be delivered.
    pub(crate) fn bury(&mut self, at_ms: Millis, dead: &DeadLetter) -> &mut Self {
        let key = Key::Dead(self.shard, at_ms, dead.message.id.as_str().into());
        self.put(|out| key.pack_into(out), dead);
        self
    }

    /// Gives up a message that was kept.
    pub(crate) fn unbury(&mut self, at_ms: Millis, message: &MessageId) -> &mut Self {
        let key = Key::Dead(self.shard, at_ms, message.as_str().into());
        self.batch.delete_with(|out| key.pack_into(out));
        self
    }

    /// Removes everything of an instance: namespace, dedup rows, alarm, listing row.
    pub fn purge(&mut self, namespace: &Namespace, origin: &Origin, state: &State) -> &mut Self {
        self.check(namespace);
        let instance = namespace.instance().as_str();
        let (start, end) = key::below(namespace.prefix());
        self.batch.delete_range(&start, &end);
        let (start, end) = key::below(&key::dedup_of(self.shard, instance));
        self.batch.delete_range(&start, &end);
        if let Some(at) = state.alarm_at_ms {
            self.batch
                .delete_with(|out| Key::Alarm(self.shard, at, instance.into()).pack_into(out));
        }
        let index = Key::Index(self.shard, origin.created_at_ms, instance.into());
        self.batch.delete_with(|out| index.pack_into(out));
        self.set_runnable(namespace, None);
        self.intents.push(Intent::Purged(namespace.instance().clone()));
        self.sweeps = true;
        self
    }

    /// Forgets that an instance was deleted.
    pub(crate) fn forget_tombstone(&mut self, instance: &InstanceId) {
        let key = Key::Tombstone(self.shard, instance.as_str().into());
        self.batch.delete_with(|out| key.pack_into(out));
    }

    /// Says that an instance was there, and was deleted.
    pub fn leave_tombstone(&mut self, namespace: &Namespace, tombstone: &Tombstone) -> &mut Self {
        self.check(namespace);
        let key = Key::Tombstone(self.shard, namespace.instance().as_str().into());
        self.put(|out| key.pack_into(out), tombstone);
        self
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.intents.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// The same with what the committer may add to it.
    pub(crate) fn settled_bytes(&self) -> usize {
        self.bytes() + self.intents.iter().map(Intent::row_bytes_max).sum::<usize>()
    }

    /// Removes a row by its whole key: a listing row that belongs to no instance.
    pub(crate) fn delete_raw(&mut self, key: &[u8]) {
        self.batch.delete(key);
    }

    /// Bytes that fit without a new allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.batch.capacity()
    }

    /// Removes everything and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.conditions.clear();
        self.batch.clear();
        self.watched.clear();
        self.sweeps = false;
        self.posts = false;
        self.intents.clear();
        self.seen = None;
    }

    /// A commit is of one shard, and so are its conditions.
    fn check(&self, namespace: &Namespace) {
        assert!(
            namespace.shard() == self.shard,
            "the namespace lies in another shard than the commit"
        );
    }

    /// Sets a row, and tells how many bytes its value has.
    fn put<R: Record>(&mut self, key: impl FnOnce(&mut Vec<u8>), record: &R) -> usize {
        let mut bytes = 0;
        self.batch.set_with(key, |key, out| {
            let before = out.len();
            value::encode_behind(key, record, out);
            bytes = out.len() - before;
        });
        bytes
    }

    fn watch_next(&mut self) {
        self.watched
            .push(u32::try_from(self.batch.len()).expect("a commit is bounded far below 2^32 operations"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::record::Name;

    fn namespace(shard: u16) -> Namespace {
        Namespace::new(Shard(shard), InstanceId::new("a").unwrap())
    }

    /// Found in review: with the namespace of another shard the conditions looked in the wrong place, and the same
    /// instance could be started twice.
    #[test]
    #[should_panic(expected = "another shard")]
    fn a_row_of_another_shard_is_refused() {
        Commit::new(Shard(0)).set(&namespace(1), &Local::Name(0), &Name("n".into()));
    }

    /// Found in review: the state could be removed alone, unseen by the conditions of the same group.
    #[test]
    #[should_panic(expected = "with all the rest")]
    fn the_state_does_not_go_alone() {
        Commit::new(Shard(1)).delete(&namespace(1), &Local::Meta(Meta::State));
    }
}
