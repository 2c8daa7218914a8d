//! How many instances are in memory at once, and who is next.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::ids::InstanceId;
use crate::limits::WAKE_QUEUE_MAX;
use crate::scheduler::queue::{Next, Offered, WakeQueue};
use crate::storage::record::Priority;
use crate::telemetry;

/// The door to memory: whoever is activated has a [`Place`], and there are so many of them.
#[derive(Debug)]
pub(crate) struct Admission {
    queue: Mutex<WakeQueue>,
    places: Arc<Semaphore>,
    /// Whether workflows have limits of their own, so that the workflow has to be known.
    has_limits: bool,
    /// Something waits, or a place became free.
    ready: Notify,
    /// How often a lane that had been full got room again.
    rooms: AtomicU64,
    room: Notify,
    /// Somebody was let in.
    moved: Notify,
    /// Lanes that somebody was turned away from: the rows in the store have to be read for them.
    behind: Mutex<BTreeSet<Arc<str>>>,
    turned_away: Notify,
    closed: AtomicBool,
}

impl Admission {
    /// The door for these workflows, and any others.
    pub(crate) fn new<'a>(config: &Config, workflows: impl IntoIterator<Item = &'a str>) -> Self {
        let limit = |name: &str| config.workflows.get(name).and_then(|limits| limits.residents_max);
        let lanes: Vec<_> = workflows
            .into_iter()
            .map(|name| (Arc::from(name), limit(name)))
            .collect();
        let queue = WakeQueue::new(WAKE_QUEUE_MAX, lanes.iter().cloned());
        // At the start all rows have to be read.
        let behind = queue.lanes().cloned().collect();
        Self {
            has_limits: lanes.iter().any(|(_, limit)| limit.is_some()),
            queue: Mutex::new(queue),
            places: Arc::new(Semaphore::new(config.residents_max)),
            ready: Notify::new(),
            rooms: AtomicU64::new(0),
            room: Notify::new(),
            moved: Notify::new(),
            behind: Mutex::new(behind),
            turned_away: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// A place for somebody who need not wait, since nobody waits and there are places.
    pub(crate) fn at_once(self: &Arc<Self>) -> Option<Place> {
        if self.has_limits || self.is_closed() || self.queue().len() > 0 {
            return None;
        }
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Place {
            admission: Arc::clone(self),
            lane: None,
            _permit: permit,
        })
    }

    /// The lane that instances of a workflow wait in.
    pub(crate) fn lane(&self, workflow: &str) -> Arc<str> {
        self.queue().lane(workflow)
    }

    /// Lets an instance wait for a place. Says whether there is room for it.
    pub(crate) fn offer(&self, lane: &Arc<str>, priority: Priority, instance: &InstanceId) -> bool {
        if self.is_closed() {
            return false;
        }
        let waits = self.queue().offer(lane, priority, instance) == Offered::Waits;
        if waits {
            telemetry::waiting(self.waiting());
            self.ready.notify_one();
        }
        waits
    }

    /// Somebody found no room in this lane and does not come back: its row in the store is read when there is.
    pub(crate) fn turn_away(&self, lane: Arc<str>) {
        self.behind().insert(lane);
        self.turned_away.notify_one();
    }

    /// Waits for the next instance and a place for it. `crowded` is called when there is nobody's place to give: it
    /// may ask somebody to leave.
    pub(crate) async fn next(self: &Arc<Self>, crowded: impl Fn()) -> (InstanceId, Place) {
        loop {
            if self.is_closed() || !self.queue().is_ready() {
                self.ready.notified().await;
                continue;
            }
            let permit = match Arc::clone(&self.places).try_acquire_owned() {
                Ok(permit) => permit,
                Err(_) => {
                    crowded();
                    let places = Arc::clone(&self.places);
                    places.acquire_owned().await.expect("the places are never closed")
                }
            };
            let next = self.queue().next();
            let Some(Next {
                lane,
                instance,
                has_room,
            }) = next
            else {
                continue;
            };
            if has_room {
                self.rooms.fetch_add(1, Ordering::AcqRel);
                self.room.notify_waiters();
            }
            self.moved.notify_waiters();
            telemetry::waiting(self.waiting());
            let place = Place {
                admission: Arc::clone(self),
                lane: Some(lane),
                _permit: permit,
            };
            return (instance, place);
        }
    }

    /// How often there was room again, for [`Admission::room_since`]. Ask before trying.
    pub(crate) fn rooms(&self) -> u64 {
        self.rooms.load(Ordering::Acquire)
    }

    /// Waits until a lane that had been full has room again; not at all if that happened since.
    pub(crate) async fn room_since(&self, rooms: u64) {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.rooms() > rooms || self.is_closed() {
                return;
            }
            room.await;
        }
    }

    /// Whether at most half of a lane's room is used.
    pub(crate) fn is_low(&self, lane: &Arc<str>) -> bool {
        self.queue().is_low(lane)
    }

    /// Waits until fewer than so many wait.
    pub(crate) async fn fewer_than(&self, waiting: usize) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.waiting() < waiting {
                return;
            }
            moved.await;
        }
    }

    /// The lanes that somebody was turned away from since this was last asked.
    pub(crate) fn take_behind(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *self.behind())
    }

    /// Waits until somebody is turned away; not at all if that happened since it was last waited for.
    pub(crate) async fn turned_away(&self) {
        self.turned_away.notified().await;
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.queue().clear();
        self.room.notify_waiters();
        self.turned_away.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue().len()
    }

    fn queue(&self) -> MutexGuard<'_, WakeQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn behind(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be in memory. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    lane: Option<Arc<str>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            self.admission.queue().left(lane);
            self.admission.ready.notify_one();
        }
    }
}
