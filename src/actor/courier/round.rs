//! The courier on its way around all outboxes.

use std::sync::{Arc, Weak};

use futures_util::StreamExt;

use crate::actor::courier::blocked::Blocked;
use crate::actor::courier::delivery::{Build, Carried, Delivery, Hand};
use crate::actor::courier::ending::Endings;
use crate::actor::courier::held::Held;
use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::engine::Moment;
use crate::ids::{InstanceId, Shard};
use crate::limits::{COURIER_BACKOFF_MAX, COURIER_BACKOFF_MIN, COURIER_SENDERS_MAX};
#[cfg(feature = "testing")]
use crate::storage::Store;
use crate::storage::{Posted, Result};
use crate::telemetry;

/// Goes around all outboxes, again and again.
pub(super) struct Round {
    shared: Weak<Shared>,
    endings: Arc<Endings>,
    held: Held,
}

impl Round {
    pub(super) fn new(shared: Weak<Shared>, endings: Arc<Endings>) -> Self {
        let held = Held::default();
        Self { shared, endings, held }
    }

    pub(super) async fn run(mut self, signal: Arc<Signal>) {
        let mut after_error = COURIER_BACKOFF_MIN;
        loop {
            signal.lower();
            let Some(shared) = self.shared.upgrade() else { return };
            let gone_around = self.go_around(&shared).await;
            drop(shared);
            let wait = match gone_around {
                Ok(()) => {
                    after_error = COURIER_BACKOFF_MIN;
                    self.held.wait()
                }
                Err(error) => {
                    tracing::error!(%error, "the courier could not look into the outboxes");
                    after_error = (after_error * 2).min(COURIER_BACKOFF_MAX);
                    Some(after_error)
                }
            };
            let Some(wait) = wait else {
                signal.wait().await;
                continue;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep(wait) => {}
                () = signal.wait() => {}
            }
        }
    }

    /// Looks into every outbox once, except for what is known to wait. Those of a shard that can't be read keep no others.
    async fn go_around(&mut self, shared: &Arc<Shared>) -> Result<()> {
        for sender in self.endings.take_over() {
            self.held.forget(sender.as_str());
        }
        self.held.begin_round();
        let mut outcome = Ok(());
        for shard in shared.store.shards() {
            let gone_around = self.go_around_in(shared, shard).await;
            outcome = outcome.and(gone_around);
        }
        self.held.end_round();
        telemetry::senders_held(self.held.senders());
        outcome
    }

    async fn go_around_in(&mut self, shared: &Arc<Shared>, shard: Shard) -> Result<()> {
        let mut after = None;
        loop {
            let held = &self.held;
            let page = shared
                .store
                .outbox_past(shard, after.as_ref(), |sender| held.known(sender))?;
            let last = page.rows.last().map(|row| row.from.clone());
            self.carry(shared, page.rows).await;
            // What the last sender of a page waits for, it waits for on the next one, too.
            self.held.trim(last.as_ref().map(InstanceId::as_str));
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Carries what is on a page.
    async fn carry(&mut self, shared: &Arc<Shared>, rows: Vec<Posted>) {
        rows.iter().for_each(|row| self.held.tell_of(row));
        let carrier = Carrier {
            shared,
            endings: &self.endings,
        };
        let (carrier, held) = (&carrier, &self.held);
        let senders = by_sender(rows).into_iter().map(|rows| async move {
            let mut blocked = held.blocked(rows[0].from.as_str());
            let done = carrier.carry(&rows, &mut blocked).await;
            (rows, blocked, done)
        });
        let carried: Vec<_> = futures_util::stream::iter(senders)
            .buffer_unordered(COURIER_SENDERS_MAX)
            .map(|(rows, blocked, done)| {
                let last = &rows[rows.len() - 1];
                (last.from.clone(), last.place(), blocked, done)
            })
            .collect()
            .await;
        for (sender, last, blocked, done) in carried {
            self.held.looked(sender.as_str(), last, blocked, done);
        }
    }
}

/// Carries for a runtime.
struct Carrier<'a> {
    shared: &'a Arc<Shared>,
    endings: &'a Arc<Endings>,
}

impl Carrier<'_> {
    /// Carries what one sender has; tells how much of it is done with.
    async fn carry(&self, rows: &[Posted], blocked: &mut Blocked) -> usize {
        let shared = self.shared;
        let delivery = Delivery::new(&shared.store, self, shared.clock.now_ms());
        let Carried {
            woken,
            started,
            done,
            left_gate,
            posted,
            armed,
            ..
        } = delivery.carry(rows, blocked).await;
        telemetry::carried(done);
        for (instance, workflow) in started {
            shared.happened(&instance, &workflow, Moment::Started);
        }
        if let Some(alarms) = shared.alarms.get() {
            armed.iter().for_each(|(at_ms, child)| alarms.armed(*at_ms, child));
        }
        if left_gate {
            shared.gates.left().notify_waiters();
        }
        if let (true, Some(courier)) = (posted, shared.courier.get()) {
            courier.nudge();
        }
        for instance in woken {
            shared.changes.tell(&instance);
            shared.directory.wake(&instance);
        }
        done
    }
}

impl Hand for Carrier<'_> {
    async fn commit(&self, shard: Shard, build: Build<'_>) -> Result<()> {
        let pending = self.shared.store.submit_delivery(shard, build).await?;
        pending.durable().await.map(drop)
    }

    async fn end(&self, row: &Posted, children: Vec<InstanceId>, reason: &str) -> Result<bool> {
        self.endings.begin(self.shared, row, children, reason);
        Ok(false)
    }

    fn is_ending(&self, row: &Posted) -> bool {
        self.endings.has(row)
    }
}

/// Rows, one list for each sender.
fn by_sender(rows: Vec<Posted>) -> Vec<Vec<Posted>> {
    let mut senders: Vec<Vec<Posted>> = Vec::new();
    for row in rows {
        match senders.last_mut() {
            Some(last) if last.first().is_some_and(|first| first.from == row.from) => last.push(row),
            _ => senders.push(vec![row]),
        }
    }
    senders
}

/// What a store has in its outboxes, sender by sender: for those who drive a courier by hand.
#[cfg(feature = "testing")]
pub(crate) fn outboxes(store: &Store) -> Result<Vec<Vec<Posted>>> {
    let mut rows = Vec::new();
    for shard in store.shards() {
        let mut after = None;
        loop {
            let page = store.outbox(shard, after.as_ref())?;
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(by_sender(rows))
}
