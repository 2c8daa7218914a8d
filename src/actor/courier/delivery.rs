//! Carrying what one sender has: together if that goes, otherwise one after the other.

use std::future::Future;

use crate::actor::courier::blocked::Blocked;
use crate::actor::start::{begin_rows, begin_rows_with};
use crate::clock::Millis;
use crate::engine::topic::is_topic;
use crate::ids::{InstanceId, MessageId, Shard};
use crate::limits::{OUTGOING_BYTES_MAX, OUTGOING_MAX};
use crate::storage::payload::Payload;
use crate::storage::record::{Content, DeadLetter, Decided, Outgoing, Parcel};
use crate::storage::{Arrivals, Commit, Condition, Error, Posted, Refusal, Result, Store};

/// Makes a commit when the places of its messages are known.
pub(crate) type Build<'a> = Box<dyn FnOnce(&mut Arrivals<'_>) -> Commit + Send + 'a>;

/// What the courier does to the world.
pub(crate) trait Hand: Send + Sync {
    /// Makes a commit durable.
    fn commit(&self, shard: Shard, build: Build<'_>) -> impl Future<Output = Result<()>> + Send;

    /// Ends these children at once, because of a row. Tells whether they have ended; if not, that is under way, and the row
    /// is carried again afterwards.
    fn end(&self, row: &Posted, children: Vec<InstanceId>, reason: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Whether that is under way for this row.
    fn is_ending(&self, row: &Posted) -> bool;
}

/// What became of the rows of a sender.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Who has news.
    pub(crate) woken: Vec<InstanceId>,
    /// Children that were started, with their workflows.
    pub(crate) started: Vec<(InstanceId, String)>,
    /// Whose alarm is to ring, and when: of those who were started and wait for their turn.
    pub(crate) armed: Vec<(Millis, InstanceId)>,
    /// Rows that are done with.
    pub(crate) done: usize,
    /// Whether somebody left a gate.
    pub(crate) left_gate: bool,
    /// Whether somebody who was started has something in its outbox: it came to a gate.
    pub(crate) posted: bool,
    /// Notes that topics remember and that nobody has any more: they can't come again.
    pub(super) to_forget: Vec<(InstanceId, MessageId)>,
}

impl Carried {
    /// Notes what was delivered: who has news, and who was started by it.
    fn arrived(&mut self, target: &InstanceId, parcel: &Parcel) {
        if let Some(origin) = parcel.starts() {
            self.started.push((target.clone(), origin.workflow.clone()));
        }
        // Whoever comes to a gate is woken when it is let in.
        if comes_to_a_gate(parcel) {
            self.posted = true;
            let deadline = parcel.starts().and_then(|origin| origin.deadline_at_ms);
            self.armed.extend(deadline.map(|at_ms| (at_ms, target.clone())));
        } else {
            self.woken.push(target.clone());
        }
    }

    /// Notes that the row of a message is gone. A topic never ends, so it does not remember for ever what it was told.
    pub(super) fn is_removed(&mut self, target: &InstanceId, parcel: &Parcel) {
        if let Parcel::Message { message, .. } = parcel
            && is_topic(target.as_str())
        {
            self.to_forget.push((target.clone(), message.id.clone()));
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
    /// behind it for the same instance: `blocked` says whom that concerns, from earlier rows and for later ones. A row
    /// that can't be read is passed over.
    pub(crate) async fn carry(&self, rows: &[Posted], blocked: &mut Blocked) -> Carried {
        let mut carried = Carried::default();
        let readable = rows.iter().filter_map(|row| Some((row, row.outgoing.as_ref().ok()?)));
        let readable: Vec<_> = readable.collect();
        for batch in batches(&readable) {
            if batch.len() > 1 && blocked.is_empty() && self.together(batch, &mut carried).await {
                carried.done += batch.len();
                continue;
            }
            for (row, outgoing) in batch {
                if !blocked.blocks(outgoing) && self.alone(row, outgoing, &mut carried).await {
                    carried.done += 1;
                } else {
                    blocked.add(outgoing);
                }
            }
        }
        self.forget(&mut carried).await;
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
            let movable = matches!(outgoing.parcel, Parcel::Message { .. }) || outgoing.parcel.starts().is_some();
            if !movable || self.store.shard_of(&target) != sender.shard() {
                return false;
            }
            targets.push(target);
        }
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(sender.shard());
            for ((row, outgoing), target) in batch.iter().zip(&targets) {
                self.put(&mut commit, target, &outgoing.parcel, arrivals, (row, true));
                commit.posted(&sender, row.revision, row.index);
            }
            commit
        });
        let done = self.hand.commit(sender.shard(), build).await.is_ok();
        if done {
            for ((_, outgoing), target) in batch.iter().zip(&targets) {
                carried.arrived(target, &outgoing.parcel);
            }
        }
        done
    }

    /// Delivers one row. Tells whether it is done with.
    async fn alone(&self, row: &Posted, outgoing: &Outgoing, carried: &mut Carried) -> bool {
        let delivered = match &outgoing.parcel {
            Parcel::Close { reason, children } => self.close(row, reason, children, carried).await,
            _ => self.deliver(row, outgoing, carried).await.map(|()| true),
        };
        match delivered {
            Ok(done) => done,
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
            Parcel::Message { .. } | Parcel::Start { .. } | Parcel::StartWith { .. } | Parcel::Close { .. } => {}
        }
        let Ok(target) = InstanceId::internal(outgoing.to.as_str()) else {
            return self.undeliverable(row, outgoing, "its address is no id").await;
        };
        let (sender, shard) = (self.store.namespace(&row.from), self.store.shard_of(&target));
        let at_home = sender.shard() == shard;
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(shard);
            self.put(&mut commit, &target, &outgoing.parcel, arrivals, (row, at_home));
            if at_home {
                commit.posted(&sender, row.revision, row.index);
            }
            commit
        });
        match self.hand.commit(shard, build).await {
            Ok(()) => {
                carried.arrived(&target, &outgoing.parcel);
                if !at_home && self.remove_while_there(row).await? {
                    carried.is_removed(&target, &outgoing.parcel);
                }
                Ok(())
            }
            // It got there before, and the row was left by a crash. Whoever was to be woken then is woken now.
            Err(Error::Refused(Refusal::Duplicate(_))) => {
                carried.woken.push(target.clone());
                if self.remove_while_there(row).await? {
                    carried.is_removed(&target, &outgoing.parcel);
                }
                Ok(())
            }
            Err(Error::Refused(Refusal::Exists)) => self.exists(row, outgoing, target, carried).await,
            // Its sender is being deleted: it was written anew, and is carried as that.
            Err(Error::Refused(Refusal::NotPosted)) => Ok(()),
            Err(Error::Refused(Refusal::Missing)) if is_topic(target.as_str()) => {
                self.open_topic(&target, &outgoing.parcel).await?;
                // Now it is there; whatever refuses it then is tried again in the next round.
                let build: Build<'_> = Box::new(|arrivals| {
                    let mut commit = Commit::new(shard);
                    self.put(&mut commit, &target, &outgoing.parcel, arrivals, (row, false));
                    commit
                });
                self.hand.commit(shard, build).await?;
                carried.woken.push(target.clone());
                if self.remove_while_there(row).await? {
                    carried.is_removed(&target, &outgoing.parcel);
                }
                Ok(())
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

    /// Adds what is delivered to a commit; `at_home`, if the row that it lies in goes with it.
    fn put(
        &self,
        commit: &mut Commit,
        target: &InstanceId,
        parcel: &Parcel,
        arrivals: &mut Arrivals<'_>,
        (row, at_home): (&Posted, bool),
    ) {
        let namespace = self.store.namespace(target);
        match parcel {
            Parcel::Message { message, .. } if at_home && is_topic(target.as_str()) => {
                commit.hand_over(&namespace, arrivals.next_place(), message);
                // Last: what came there before is known as such, whatever has become of the row meanwhile.
                commit.require(Condition::Posted(row.from.clone(), row.revision, row.index));
            }
            Parcel::Message { message, .. } => {
                commit.deliver(&namespace, arrivals.next_place(), message);
            }
            Parcel::Start { origin, input } => begin_rows(commit, &namespace, origin, input.clone(), None),
            Parcel::StartWith { origin, input, flow } => {
                let place = || arrivals.next_place();
                begin_rows_with(self.store, commit, &namespace, origin, input.clone(), flow, place);
            }
            Parcel::Close { .. } | Parcel::Enter { .. } | Parcel::Leave { .. } => {
                unreachable!("these have ways of their own")
            }
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
        self.hand.commit(sender.shard(), build).await?;
        if dead.is_some() {
            crate::telemetry::buried();
        }
        Ok(())
    }

    /// Has topics forget notes whose rows are gone. What a crash leaves of this is as much as was on its way.
    async fn forget(&self, carried: &mut Carried) {
        let mut to_forget = std::mem::take(&mut carried.to_forget);
        to_forget.sort_by_key(|(topic, _)| self.store.shard_of(topic));
        for notes in to_forget.chunk_by(|(one, _), (other, _)| self.store.shard_of(one) == self.store.shard_of(other)) {
            let shard = self.store.shard_of(&notes[0].0);
            let build: Build<'_> = Box::new(|_| {
                let mut commit = Commit::new(shard);
                for (topic, note) in notes {
                    commit.forget_seen(&self.store.namespace(topic), note);
                }
                commit
            });
            if let Err(error) = self.hand.commit(shard, build).await {
                tracing::debug!(%error, notes = notes.len(), "topics remember notes that can't come again");
            }
        }
    }

    /// Removes a row, and tells whether it was there until then. When a sender is deleted, what it has on its way is
    /// written anew, whoever has its id next: the same note may be carried once more then, and has to be known.
    async fn remove_while_there(&self, row: &Posted) -> Result<bool> {
        let sender = self.store.namespace(&row.from);
        let build: Build<'_> = Box::new(|_| {
            let mut commit = Commit::new(sender.shard());
            commit.require(Condition::Posted(row.from.clone(), row.revision, row.index));
            commit.posted(&sender, row.revision, row.index);
            commit
        });
        match self.hand.commit(sender.shard(), build).await {
            Ok(()) => Ok(true),
            Err(Error::Refused(Refusal::NotPosted)) => Ok(false),
            Err(error) => Err(error),
        }
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

/// Whether somebody is started who has to wait for its turn.
fn comes_to_a_gate(parcel: &Parcel) -> bool {
    matches!(parcel, Parcel::StartWith { flow, .. } if flow.gate.is_some())
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
        Parcel::Start { input, .. } | Parcel::StartWith { input, .. } => payload(input),
        Parcel::Close { .. } | Parcel::Enter { .. } | Parcel::Leave { .. } => 0,
    }
}
