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
    /// Whether some of them are held back.
    holds_back: AtomicBool,
    /// Something waits, or a place became free.
    ready: Notify,
    /// How often a lane got room again that somebody had more for than it took.
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
        Self {
            has_limits: lanes.iter().any(|(_, limit)| limit.is_some()),
            queue: Mutex::new(WakeQueue::new(WAKE_QUEUE_MAX, lanes)),
            holds_back: AtomicBool::new(false),
            places: Arc::new(Semaphore::new(config.residents_max)),
            ready: Notify::new(),
            rooms: AtomicU64::new(0),
            room: Notify::new(),
            moved: Notify::new(),
            behind: Mutex::default(),
            turned_away: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// A place for somebody who need not wait, since nobody waits and there are places.
    pub(crate) fn at_once(self: &Arc<Self>) -> Option<Place> {
        let asks_who = self.has_limits || self.holds_back.load(Ordering::Acquire);
        if asks_who || self.is_closed() || self.queue().len() > 0 {
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

    /// The same for everybody: nobody knows who has to run.
    pub(crate) fn turn_all_away(&self) {
        let lanes: Vec<_> = self.queue().lanes().cloned().collect();
        self.behind().extend(lanes);
        self.turned_away.notify_one();
    }

    /// Lets nobody of a lane in for now, or of any lane. They wait.
    pub(crate) fn hold_back(&self, lane: Option<&Arc<str>>) {
        self.queue().hold_back(lane, true);
        self.holds_back.store(true, Ordering::Release);
    }

    /// Lets those in again who were held back.
    pub(crate) fn let_go_on(&self, lane: Option<&Arc<str>>) {
        let mut queue = self.queue();
        queue.hold_back(lane, false);
        self.holds_back.store(queue.holds_back(), Ordering::Release);
        self.ready.notify_one();
    }

    /// Waits for the next instance and a place for it. Where there is none to give, `room` is told.
    pub(crate) async fn next(self: &Arc<Self>, room: &dyn MakesRoom) -> (InstanceId, Place) {
        loop {
            if self.is_closed() || !self.is_ready(room) {
                self.ready.notified().await;
                continue;
            }
            let permit = match Arc::clone(&self.places).try_acquire_owned() {
                Ok(permit) => permit,
                Err(_) => {
                    room.want(None);
                    let places = Arc::clone(&self.places);
                    let permit = places.acquire_owned().await.expect("the places are never closed");
                    room.want_no_more(None);
                    permit
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
            if self.has_limits {
                room.want_no_more(Some(&lane));
            }
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

    /// Whether there is somebody to let in. Of lanes at their limit that have somebody who waits, `room` is told.
    fn is_ready(&self, room: &dyn MakesRoom) -> bool {
        let (ready, held_up) = {
            let queue = self.queue();
            let held_up = if self.has_limits { queue.held_up() } else { Vec::new() };
            (queue.is_ready(), held_up)
        };
        held_up.iter().for_each(|lane| room.want(Some(lane)));
        ready
    }

    /// The lane of a workflow, if it makes a difference to anybody whether one of its instances leaves.
    pub(crate) fn limited_lane(&self, workflow: &str) -> Option<Arc<str>> {
        self.has_limits.then(|| self.lane(workflow))
    }

    /// How often there was room again, for [`Admission::room_since`]. Ask before trying.
    pub(crate) fn rooms(&self) -> u64 {
        self.rooms.load(Ordering::Acquire)
    }

    /// Waits until a lane has room again that was full, or that did not want more; not at all if that happened since.
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

    /// Whether at most half of a lane's room is used. If not, [`Admission::room_since`] tells when it is.
    pub(crate) fn wants_more(&self, lane: &Arc<str>) -> bool {
        self.queue().wants_more(lane)
    }

    /// Joins those who wait if they are fewer than so many, those on their way included, and the lane has room. It is on
    /// its way until what this gives is dropped.
    pub(crate) fn come(self: &Arc<Self>, lane: &Arc<str>, fewer_than: usize) -> Option<Coming> {
        let mut queue = self.queue();
        if !queue.has_room_for_another(lane, fewer_than) {
            return None;
        }
        queue.coming += 1;
        Some(Coming(Arc::clone(self)))
    }

    /// Waits until somebody could come; not at all when nobody is let in any more.
    pub(crate) async fn room_for(&self, lane: &Arc<str>, fewer_than: usize) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.is_closed() || self.queue().has_room_for_another(lane, fewer_than) {
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
        self.moved.notify_waiters();
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

/// Whoever can ask those in memory to leave.
pub(crate) trait MakesRoom: Send + Sync {
    /// A place is wanted: any one, or one of this lane. One that has nothing to do should leave, now or as soon as there
    /// is such a one.
    fn want(&self, lane: Option<&Arc<str>>);

    /// It is not wanted any more.
    fn want_no_more(&self, lane: Option<&Arc<str>>);
}

/// A start that is on its way, and counted among those who wait.
#[derive(Debug)]
pub(crate) struct Coming(Arc<Admission>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.queue().coming -= 1;
        self.0.moved.notify_waiters();
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
