//! The alarms of all instances.
//!
//! Whoever arms one says so, and the next ones of each shard are in memory ([`window`](super::window)). One task waits
//! for the earliest and rings. What finds no room then stays where it is, in the store, and is found there when there
//! is ([`Admission::turn_away`](super::Admission::turn_away)), as is what came due before this process began. Nobody
//! else waits for that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Millis, whole_ms};
use crate::ids::{InstanceId, Shard};
use crate::limits::{ALARM_WINDOW_MAX, ALARM_WINDOW_MIN, ALARMS_AT_ONCE_MAX, ALARMS_BACKOFF};
use crate::scheduler::window::{Alarm, Window};
use crate::storage::Store;
use crate::storage::key::Key;
use crate::telemetry;

/// Nudges an instance. If there is no room for it, says in which lane. It must not block.
pub(crate) type Wake = dyn Fn(&InstanceId) -> Option<Arc<str>> + Send + Sync;

/// What is known of the alarms of a store.
#[derive(Debug)]
pub(crate) struct Alarms {
    store: Store,
    clock: Arc<dyn Clock>,
    /// By shard.
    windows: Mutex<Vec<Window>>,
    /// An alarm is earlier than all that were known.
    earlier: Notify,
    /// Whatever was due by then is found in the store.
    begun_at_ms: AtomicU64,
    /// The latest time at which an alarm rang.
    rang_at_ms: AtomicU64,
    /// Alarms of each lane that were due when there was no room.
    refused: Mutex<BTreeMap<Arc<str>, usize>>,
}

impl Alarms {
    /// The alarms of a store. None of them rings before [`Alarms::run`].
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        let alarms = Self {
            store,
            clock,
            windows: Mutex::default(),
            earlier: Notify::new(),
            begun_at_ms: AtomicU64::new(0),
            rang_at_ms: AtomicU64::new(0),
            refused: Mutex::default(),
        };
        alarms.begin();
        alarms
    }

    /// Forgets what was known. What is due already is left to whoever reads the store for those who were turned away.
    pub(crate) fn begin(&self) {
        let now = self.clock.now_ms();
        let shards = self.store.shards().count();
        let most = (ALARM_WINDOW_MAX / shards.max(1)).max(ALARM_WINDOW_MIN);
        let windows = self.store.shards().map(|_| Window::new(most, now));
        *self.windows() = windows.collect();
        self.begun_at_ms.store(now, Ordering::Release);
    }

    /// Says that an alarm became durable. Said again, it changes nothing.
    pub(crate) fn armed(&self, at_ms: Millis, instance: &InstanceId) {
        let shard = usize::from(self.store.shard_of(instance).0);
        let earliest = self.windows()[shard].add((at_ms, instance.clone()));
        if earliest {
            self.earlier.notify_one();
        }
    }

    /// Up to which time alarms may have rung or been left alone: what finds them in the store looks this far. A clock that
    /// was set back meanwhile makes no difference.
    pub(crate) fn due_until_ms(&self) -> Millis {
        let latest = self.begun_at_ms.load(Ordering::Acquire);
        let latest = latest.max(self.rang_at_ms.load(Ordering::Acquire));
        self.clock.now_ms().max(latest)
    }

    /// Alarms that are due and wait for room.
    pub(crate) fn due(&self) -> usize {
        self.refused().values().sum()
    }

    /// An alarm that was found in the store rang.
    pub(crate) fn rang(&self, at_ms: Millis, lane: &str) {
        if let Some(count) = self.refused().get_mut(lane) {
            *count = count.saturating_sub(1);
        }
        telemetry::alarm_rang(Duration::from_millis(self.clock.now_ms().saturating_sub(at_ms)));
    }

    /// Everything of this lane that was due rang.
    pub(crate) fn all_rang(&self, lane: &str) {
        self.refused().remove(lane);
        telemetry::alarms_due(self.due());
    }

    /// Rings what is due, again and again. Ended from outside.
    pub(crate) async fn run(&self, wake: &Wake) {
        loop {
            self.fill_all();
            let next_at_ms = self.ring(wake).await;
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = self.wait_until(next_at_ms) => {}
            }
        }
    }

    /// Rings everything that is due, and says when to look again.
    async fn ring(&self, wake: &Wake) -> Option<Millis> {
        for count in 1_usize.. {
            let now = self.clock.now_ms();
            let (shard, (at_ms, instance)) = match self.next(now) {
                Next::Rings(shard, alarm) => (shard, alarm),
                Next::At(at_ms) => return at_ms,
            };
            if !self.is_armed(shard, at_ms, &instance) {
                self.fill(shard);
                continue;
            }
            self.rang_at_ms.fetch_max(at_ms, Ordering::AcqRel);
            match wake(&instance) {
                None => telemetry::alarm_rang(Duration::from_millis(now.saturating_sub(at_ms))),
                Some(lane) => {
                    *self.refused().entry(lane).or_default() += 1;
                    telemetry::alarms_due(self.due());
                }
            }
            self.fill(shard);
            if count % ALARMS_AT_ONCE_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
        None
    }

    /// Whether an alarm that is remembered still stands in the store. One that was taken back meanwhile (a message came in
    /// time, a race was decided, the instance ended) must not bring its instance into memory for nothing. The row alone
    /// says so: whoever moves an alarm removes it in the same commit. What can't be read rings.
    fn is_armed(&self, shard: Shard, at_ms: Millis, instance: &InstanceId) -> bool {
        let key = Key::Alarm(shard, at_ms, instance.as_str().into()).pack();
        let row = self.store.snapshot(shard).map(|snapshot| snapshot.get(&key));
        !matches!(row, Ok(Ok(None)))
    }

    /// The earliest alarm of all if it is due, or when there is something to do.
    fn next(&self, now: Millis) -> Next {
        let mut windows = self.windows();
        let first = |(_, window): &(Shard, &mut Window)| window.next_at_ms().unwrap_or(Millis::MAX);
        let Some((shard, window)) = self.store.shards().zip(windows.iter_mut()).min_by_key(first) else {
            return Next::At(None);
        };
        match window.take(now) {
            Some(alarm) => Next::Rings(shard, alarm),
            None => Next::At(window.next_at_ms()),
        }
    }

    fn fill_all(&self) {
        self.store.shards().for_each(|shard| self.fill(shard));
    }

    /// Reads the next alarms of a shard if that has to be.
    fn fill(&self, shard: Shard) {
        let (now, index) = (self.clock.now_ms(), usize::from(shard.0));
        let begun = self.windows()[index].begin_reading(now);
        let Some((most, behind)) = begun else { return };
        // Not under the lock: whoever arms an alarm meanwhile does not wait for the disk.
        let read = self.store.alarms_behind(shard, behind.as_ref(), most);
        let mut windows = self.windows();
        match read {
            Ok((alarms, more)) => windows[index].fill(alarms, more),
            Err(error) => {
                windows[index].spoil(now + whole_ms(ALARMS_BACKOFF));
                drop(windows);
                tracing::error!(%error, "the alarms could not be read; they are read again");
            }
        }
    }

    async fn wait_until(&self, at_ms: Option<Millis>) {
        match at_ms {
            Some(at_ms) => self.clock.wait_until(at_ms).await,
            None => std::future::pending().await,
        }
    }

    fn windows(&self) -> MutexGuard<'_, Vec<Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there is to do.
enum Next {
    /// This alarm of this shard rings.
    Rings(Shard, Alarm),
    /// Nothing before this time.
    At(Option<Millis>),
}
