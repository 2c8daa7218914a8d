//! Carrying what one sender has: together if that goes, otherwise one after the other.

use std::collections::BTreeSet;
use std::future::Future;

use xxhash_rust::xxh3::xxh3_64;

use crate::actor::start::{begin_rows, new_run_commit};
use crate::clock::Millis;
use crate::engine::schedule::{self, schedule_name};
use crate::engine::topic::{Note, Waiter, is_topic, origin as topic_origin};
use crate::engine::{self, Message as _};
use crate::ids::{InstanceId, MessageId, Shard};
use crate::limits::{OUTGOING_BYTES_MAX, OUTGOING_MAX};
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{
    Content, DeadLetter, Decided, Failure, FailureKind, Message, Origin, Outgoing, Parcel, Parent, Reach, State,
};
use crate::storage::{Arrivals, Commit, Error, Posted, Refusal, Result, Store};

/// Makes a commit when the places of its messages are known.
pub(crate) type Build<'a> = Box<dyn FnOnce(&mut Arrivals<'_>) -> Commit + Send + 'a>;

/// What the courier does to the world.
pub(crate) trait Hand: Send + Sync {
    /// Makes a commit durable.
    fn commit(&self, shard: Shard, build: Build<'_>) -> impl Future<Output = Result<()>> + Send;

    /// Ends an instance at once. One that has ended, or that there is not, is as good as ended.
    fn terminate(&self, instance: &InstanceId, reason: &str) -> impl Future<Output = Result<()>> + Send;
}

/// What became of the rows of a sender.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Who has news.
    pub(crate) woken: Vec<InstanceId>,
    /// Children that were started, with their workflows.
    pub(crate) started: Vec<(InstanceId, String)>,
    /// Rows that have to be tried again.
    pub(crate) held: usize,
    /// Whether somebody left a gate.
    pub(crate) left_gate: bool,
}

impl Carried {
    /// Notes who was started by what was delivered.
    fn starts(&mut self, target: &InstanceId, parcel: &Parcel) {
        if let Parcel::Start { origin, .. } = parcel {
            self.started.push((target.clone(), origin.workflow.clone()));
        }
    }
}

/// One round through the outbox of a sender.
pub(crate) struct Delivery<'a, H> {
    pub(super) store: &'a Store,
    pub(super) hand: &'a H,
    pub(super) now: Millis,
}

impl<'a, H: Hand> Delivery<'a, H> {
    pub(crate) fn new(store: &'a Store, hand: &'a H, now: Millis) -> Self {
        Self { store, hand, now }
    }

    /// Carries the rows of one sender, in their order. What can't be delivered for now stays, and so does what comes
    /// behind it for the same instance. A row that can't be read is told of and passed over.
    pub(crate) async fn carry(&self, rows: &[Posted]) -> Carried {
        let mut carried = Carried::default();
        let mut blocked: BTreeSet<&str> = BTreeSet::new();
        let mut readable = Vec::with_capacity(rows.len());
        for row in rows {
            match &row.outgoing {
                Ok(outgoing) => readable.push((row, outgoing)),
                Err(error) => tracing::error!(
                    sender = %row.from, revision = row.revision, index = row.index, %error,
                    "something on its way can't be read; it is passed over"
                ),
            }
        }
        for batch in batches(&readable) {
            if batch.len() > 1 && blocked.is_empty() && self.together(batch, &mut carried).await {
                continue;
            }
            for (row, outgoing) in batch {
                let blocks = targets(outgoing).any(|to| blocked.contains(to));
                if blocks || !self.alone(row, outgoing, &mut carried).await {
                    blocked.extend(targets(outgoing));
                    carried.held += 1;
                }
            }
        }
        carried
    }

    /// Delivers several rows in one commit. It is refused as a whole if one of them is, for whatever reason: then
    /// each is looked at alone.
    async fn together(&self, batch: &[(&Posted, &Outgoing)], carried: &mut Carried) -> bool {
        let sender = self.store.namespace(&batch[0].0.from);
        let mut targets = Vec::with_capacity(batch.len());
        for (_, outgoing) in batch {
            let Ok(target) = InstanceId::internal(outgoing.to.as_str()) else {
                return false;
            };
            let movable = matches!(outgoing.parcel, Parcel::Message { .. } | Parcel::Start { .. });
            if !movable || self.store.shard_of(&target) != sender.shard() {
                return false;
            }
            targets.push(target);
        }
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(sender.shard());
            for ((row, outgoing), target) in batch.iter().zip(&targets) {
                self.put(&mut commit, target, &outgoing.parcel, arrivals);
                commit.posted(&sender, row.revision, row.index);
            }
            commit
        });
        let done = self.hand.commit(sender.shard(), build).await.is_ok();
        if done {
            for ((_, outgoing), target) in batch.iter().zip(&targets) {
                carried.starts(target, &outgoing.parcel);
            }
            carried.woken.extend(targets);
        }
        done
    }

    /// Delivers one row. Tells whether it is done with.
    async fn alone(&self, row: &Posted, outgoing: &Outgoing, carried: &mut Carried) -> bool {
        match self.deliver(row, outgoing, carried).await {
            Ok(()) => true,
            Err(error) => {
                let (sender, to) = (&row.from, &outgoing.to);
                tracing::warn!(%sender, to, %error, "something on its way could not be delivered for now");
                false
            }
        }
    }

    async fn deliver(&self, row: &Posted, outgoing: &Outgoing, carried: &mut Carried) -> Result<()> {
        match &outgoing.parcel {
            Parcel::Enter { key, limit, place } => return self.enter(row, (key, *limit), *place, carried).await,
            Parcel::Leave { key, place } => return self.leave(row, key, *place, carried).await,
            Parcel::Close { reason, children } => return self.close(row, reason, children, carried).await,
            Parcel::Message { .. } | Parcel::Start { .. } => {}
        }
        let Ok(target) = InstanceId::internal(outgoing.to.as_str()) else {
            return self.undeliverable(row, outgoing, "its address is no id").await;
        };
        let (sender, shard) = (self.store.namespace(&row.from), self.store.shard_of(&target));
        let at_home = sender.shard() == shard;
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(shard);
            self.put(&mut commit, &target, &outgoing.parcel, arrivals);
            if at_home {
                commit.posted(&sender, row.revision, row.index);
            }
            commit
        });
        match self.hand.commit(shard, build).await {
            Ok(()) => {
                carried.starts(&target, &outgoing.parcel);
                carried.woken.push(target);
                if at_home { Ok(()) } else { self.remove(row).await }
            }
            // It got there before, and the row was left by a crash. Whoever was to be woken then is woken now.
            Err(Error::Refused(Refusal::Duplicate(_))) => {
                carried.woken.push(target);
                self.remove(row).await
            }
            Err(Error::Refused(Refusal::Exists)) => self.exists(row, outgoing, target, carried).await,
            Err(Error::Refused(Refusal::Missing)) if is_topic(target.as_str()) => {
                self.open_topic(&target, &outgoing.parcel).await?;
                // Now it is there; whatever refuses it then is tried again in the next round.
                let build: Build<'_> = Box::new(|arrivals| {
                    let mut commit = Commit::new(shard);
                    self.put(&mut commit, &target, &outgoing.parcel, arrivals);
                    commit
                });
                self.hand.commit(shard, build).await?;
                carried.woken.push(target.clone());
                self.remove(row).await
            }
            Err(Error::Refused(Refusal::Missing)) => {
                self.gone(row, outgoing, "there is no such instance", carried).await
            }
            Err(Error::Refused(Refusal::Ended(status))) => {
                let reason = format!("the instance has ended: {status}");
                self.gone(row, outgoing, &reason, carried).await
            }
            Err(error) => Err(error),
        }
    }

    /// Begins a topic that is heard of for the first time. Somebody else may have come first.
    async fn open_topic(&self, topic: &InstanceId, parcel: &Parcel) -> Result<()> {
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
    async fn return_event(&self, row: &Posted, to: &str, message: &Message, carried: &mut Carried) -> Result<()> {
        let Content::Settled { run, entry, .. } = &message.content else {
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
            commit.deliver(&sender, arrivals.next_place(), &message);
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

    fn put(&self, commit: &mut Commit, target: &InstanceId, parcel: &Parcel, arrivals: &mut Arrivals<'_>) {
        let namespace = self.store.namespace(target);
        match parcel {
            Parcel::Message { message, .. } => {
                commit.deliver(&namespace, arrivals.next_place(), message);
            }
            Parcel::Start { origin, input } => begin_rows(commit, &namespace, origin, input.clone(), None),
            Parcel::Close { .. } | Parcel::Enter { .. } | Parcel::Leave { .. } => {
                unreachable!("these have ways of their own")
            }
        }
    }

    /// There is an instance with the id of a child already: the child itself, or somebody else.
    async fn exists(&self, row: &Posted, outgoing: &Outgoing, target: InstanceId, carried: &mut Carried) -> Result<()> {
        let Parcel::Start { origin, input } = &outgoing.parcel else {
            return self.remove(row).await;
        };
        let namespace = self.store.namespace(&target);
        let snapshot = self.store.snapshot(namespace.shard())?;
        let found: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
        if let Some(found) = found {
            if found.parent == origin.parent && found.secret == origin.secret {
                carried.woken.push(target);
                return self.remove(row).await;
            }
            if is_of_an_earlier_run(&found, origin) {
                let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
                // One that has not ended was told to, and is waited for.
                let before = state.filter(|state| state.status.is_terminal());
                let before = before.ok_or(Error::Refused(Refusal::Exists))?;
                let created_at_ms = found.created_at_ms;
                let origin = Origin {
                    created_at_ms,
                    ..origin.clone()
                };
                let times = (self.now, None);
                let commit = new_run_commit(&namespace, &*snapshot, &origin, &before, input.clone(), times)?;
                drop(snapshot);
                self.hand.commit(namespace.shard(), Box::new(|_| commit)).await?;
                carried.woken.push(target);
                return self.remove(row).await;
            }
        }
        drop(snapshot);
        let message = format!("the id `{target}` belongs to another instance");
        match &origin.parent {
            Some(parent) if parent.awaited => {
                let refused = (target.as_str(), origin);
                self.tell_parent(row, refused, parent, message, carried).await
            }
            _ => {
                tracing::error!(sender = %row.from, message, "a child could not be started");
                self.remove(row).await
            }
        }
    }

    /// Tells a parent that its child could not be started.
    async fn tell_parent(
        &self,
        row: &Posted,
        (child, origin): (&str, &Origin),
        parent: &Parent,
        reason: String,
        carried: &mut Carried,
    ) -> Result<()> {
        let failure = Failure::new(FailureKind::Misuse, reason);
        let (from, content) = match schedule_name(&parent.instance) {
            // To a schedule a slot that could not be started is as good as over.
            Some(_) => (child.to_owned(), schedule::ended()),
            None => {
                let (run, entry) = (parent.run, parent.entry);
                let decided = Decided::Failed(failure);
                let reach = Reach::Waiting;
                let settled = Content::Settled {
                    run,
                    entry,
                    decided,
                    reach,
                };
                (row.from.to_string(), settled)
            }
        };
        let message = Message {
            id: refused_id(origin),
            sent_at_ms: self.now,
            from: Some(from),
            content,
        };
        let sender = self.store.namespace(&row.from);
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(sender.shard());
            commit.deliver(&sender, arrivals.next_place(), &message);
            commit.posted(&sender, row.revision, row.index);
            commit
        });
        match self.hand.commit(sender.shard(), build).await {
            Ok(()) => {
                carried.woken.push(row.from.clone());
                Ok(())
            }
            Err(Error::Refused(Refusal::Duplicate(_) | Refusal::Ended(_) | Refusal::Missing)) => self.remove(row).await,
            Err(error) => Err(error),
        }
    }

    /// There is nobody to take it.
    async fn gone(&self, row: &Posted, outgoing: &Outgoing, reason: &str, carried: &mut Carried) -> Result<()> {
        match &outgoing.parcel {
            Parcel::Message { message, .. } if is_topic(row.from.as_str()) => {
                self.return_event(row, &outgoing.to, message, carried).await
            }
            _ => self.undeliverable(row, outgoing, reason).await,
        }
    }

    /// Nobody can take it. What the sender wants to keep becomes a dead letter.
    async fn undeliverable(&self, row: &Posted, outgoing: &Outgoing, reason: &str) -> Result<()> {
        let sender = self.store.namespace(&row.from);
        let dead = match &outgoing.parcel {
            Parcel::Message {
                message,
                dead_letter: true,
            } => Some(DeadLetter {
                to: outgoing.to.clone(),
                reason: reason.to_owned(),
                message: message.clone(),
            }),
            _ => None,
        };
        if dead.is_none() {
            tracing::debug!(sender = %row.from, to = outgoing.to, reason, "something was not delivered");
        }
        let build: Build<'_> = Box::new(|_| {
            let mut commit = Commit::new(sender.shard());
            commit.posted(&sender, row.revision, row.index);
            if let Some(dead) = &dead {
                commit.bury(self.now, dead);
            }
            commit
        });
        self.hand.commit(sender.shard(), build).await
    }

    pub(super) async fn remove(&self, row: &Posted) -> Result<()> {
        let sender = self.store.namespace(&row.from);
        let build: Build<'_> = Box::new(|_| {
            let mut commit = Commit::new(sender.shard());
            commit.posted(&sender, row.revision, row.index);
            commit
        });
        self.hand.commit(sender.shard(), build).await
    }
}

/// The id of the message that says that a child could not be started. Nobody else knows the secret it would have had.
fn refused_id(origin: &Origin) -> MessageId {
    let id = engine::derived_id(origin.secret, 1, "refused");
    MessageId::new(id).expect("hexadecimal digits are an id")
}

/// Whether a child with an id that was chosen is one that the same parent started in an earlier run: after a reset, a
/// retry, or when it continued as new. Then it begins another run with it.
fn is_of_an_earlier_run(found: &Origin, origin: &Origin) -> bool {
    let (Some(before), Some(now)) = (&found.parent, &origin.parent) else {
        return false;
    };
    // What a schedule starts is named after its slot, and a slot starts one run.
    let same = before.instance == now.instance && schedule_name(&now.instance).is_none();
    let same = same && found.workflow == origin.workflow;
    same && before.awaited && now.awaited && before.run < now.run
}

/// Whom a row is for.
fn targets(outgoing: &Outgoing) -> impl Iterator<Item = &str> {
    let closed = match &outgoing.parcel {
        Parcel::Close { children, .. } => children.as_slice(),
        _ => &[],
    };
    let closed = closed.iter().map(|child| child.instance.as_str());
    std::iter::once(outgoing.to.as_str()).chain(closed)
}

/// Cuts rows into pieces that fit into one commit.
fn batches<'r>(rows: &'r [(&'r Posted, &'r Outgoing)]) -> impl Iterator<Item = &'r [(&'r Posted, &'r Outgoing)]> {
    let mut bytes = 0;
    let mut count = 0;
    rows.chunk_by(move |(_, first), (_, second)| {
        if count == 0 {
            bytes = size(&first.parcel);
        }
        count += 1;
        bytes += size(&second.parcel);
        let fits = count < OUTGOING_MAX && bytes <= OUTGOING_BYTES_MAX;
        if !fits {
            count = 0;
        }
        fits
    })
}

fn size(parcel: &Parcel) -> usize {
    let payload = |payload: &Payload| payload.bytes.len();
    match parcel {
        Parcel::Message { message, .. } => match &message.content {
            Content::Told { payload: told, .. } | Content::Asked { payload: told, .. } => payload(told),
            Content::Settled {
                decided: Decided::Completed(completed),
                ..
            } => payload(completed),
            _ => 0,
        },
        Parcel::Start { input, .. } => payload(input),
        Parcel::Close { .. } | Parcel::Enter { .. } | Parcel::Leave { .. } => 0,
    }
}
