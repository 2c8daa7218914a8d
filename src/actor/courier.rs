//! The courier: carries what instances have for each other, from their outboxes to where it goes.
//!
//! An outbox row is written in the commit that decides it, so it is there after any crash; the courier looks through
//! all of them when it starts, and whenever it is nudged. It delivers a row and then removes it, in one commit if both
//! ends lie in the same shard. Where they don't, a crash in between delivers it twice, and the second time is
//! recognised: at least once sent, once taken. What comes from one sender arrives in its order.
//!
//! **Architecture invariant:** the courier keeps nothing in memory that is not in the outboxes. Whatever it was
//! doing when the process died, it does again.

mod closing;
mod delivery;
mod gate;
mod orphan;
mod terminate;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinHandle;

use crate::actor::load;
use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::clock::Millis;
use crate::engine::Moment;
use crate::ids::{InstanceId, Shard};
use crate::limits::{COURIER_BACKOFF_MAX, COURIER_SENDERS_MAX};
use crate::spawn;
#[cfg(feature = "testing")]
use crate::storage::Store;
use crate::storage::record::Status;
use crate::storage::{Posted, Result};

pub(crate) use delivery::{Build, Carried, Delivery, Hand};
pub(crate) use orphan::ends_of_children;
pub(crate) use terminate::terminate_commit;

/// How long the courier waits before it tries again for the first time.
const BACKOFF: Duration = Duration::from_millis(50);

/// The callers' side of the courier.
#[derive(Debug)]
pub(crate) struct Courier {
    signal: Arc<Signal>,
    task: JoinHandle<()>,
}

impl Courier {
    /// Starts the courier; it begins with what is in the outboxes.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let signal = Arc::new(Signal::default());
        // Not the whole runtime: it owns the courier.
        let round = Round {
            shared: Arc::downgrade(shared),
        };
        let task = spawn::task(round.run(Arc::clone(&signal)));
        Self { signal, task }
    }

    /// Says that something was put into an outbox.
    pub(crate) fn nudge(&self) {
        if self.signal.raise() {
            self.signal.notify();
        }
    }

    /// Stops carrying. What is in the outboxes stays there.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Goes around all outboxes, again and again.
struct Round {
    shared: std::sync::Weak<Shared>,
}

impl Round {
    async fn run(self, signal: Arc<Signal>) {
        let mut wait = BACKOFF;
        loop {
            signal.lower();
            let Some(shared) = self.shared.upgrade() else { return };
            let left = match go_around(&shared).await {
                Ok(left) => left,
                Err(error) => {
                    tracing::error!(%error, "the courier could not look into the outboxes");
                    1
                }
            };
            let clock = Arc::clone(&shared.clock);
            drop(shared);
            if left == 0 {
                wait = BACKOFF;
                signal.wait().await;
                continue;
            }
            let again = clock.wait_until(clock.now_ms() + Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX));
            tokio::select! {
                biased;
                () = again => {}
                () = signal.wait() => {}
            }
            wait = (wait * 2).min(COURIER_BACKOFF_MAX);
        }
    }
}

/// Looks into every outbox once. Tells how much is left that has to be tried again.
async fn go_around(shared: &Arc<Shared>) -> Result<usize> {
    let mut left = 0;
    for shard in shared.store.shards() {
        let mut after = None;
        loop {
            let page = shared.store.outbox(shard, after.as_ref())?;
            let senders = by_sender(page.rows);
            let mut carried = futures_util::stream::iter(senders)
                .map(|rows| carry(shared, rows))
                .buffer_unordered(COURIER_SENDERS_MAX);
            while let Some(carried) = carried.next().await {
                left += carried;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(left)
}

/// Carries what one sender has; tells how much is left.
async fn carry(shared: &Arc<Shared>, rows: Vec<Posted>) -> usize {
    let delivery = Delivery::new(&shared.store, &**shared, shared.clock.now_ms());
    let Carried {
        woken,
        started,
        held,
        left_gate,
    } = delivery.carry(&rows).await;
    for (instance, workflow) in started {
        shared.happened(&instance, &workflow, Moment::Started);
    }
    if left_gate {
        shared.gates.left().notify_waiters();
    }
    for instance in woken {
        shared.changes.tell(&instance);
        shared.directory.wake(&instance);
    }
    held
}

/// The rows of a page, one list for each sender.
pub(crate) fn by_sender(rows: Vec<Posted>) -> Vec<Vec<Posted>> {
    let mut senders: Vec<Vec<Posted>> = Vec::new();
    for row in rows {
        match senders.last_mut() {
            Some(last) if last.first().is_some_and(|first| first.from == row.from) => last.push(row),
            _ => senders.push(vec![row]),
        }
    }
    senders
}

impl Hand for Shared {
    async fn commit(&self, shard: Shard, build: Build<'_>) -> Result<()> {
        let pending = self.store.submit_delivery(shard, build).await?;
        pending.durable().await.map(drop)
    }

    async fn terminate(&self, instance: &InstanceId, reason: &str) -> Result<()> {
        let now = self.clock.now_ms();
        let ended = self.directory.exclusively(instance, |activation| async move {
            let Some(mut commit) = terminate_commit(&self.store, instance, reason, now)? else {
                return Ok(false);
            };
            commit.require(crate::storage::Condition::Current(activation));
            self.store.commit(commit).await.map(|_| true)
        });
        if ended.await? {
            let workflow = load::workflow(&self.store, instance);
            self.happened(instance, &workflow, Moment::Ended(Status::Terminated));
        }
        self.changes.tell(instance);
        Ok(())
    }
}

/// What a store has in its outboxes, shard by shard: for those who drive a courier by hand.
#[cfg(feature = "testing")]
pub(crate) fn outboxes(store: &Store) -> Result<Vec<Vec<Posted>>> {
    let mut senders = Vec::new();
    for shard in store.shards() {
        let mut after = None;
        loop {
            let page = store.outbox(shard, after.as_ref())?;
            senders.extend(by_sender(page.rows));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(senders)
}
