//! The alarm scheduler: one actor for all instances.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::clock::{Clock, Millis};
use crate::ids::InstanceId;
use crate::limits::ALARM_WINDOW_MAX;
use crate::scheduler::admission::Admission;
use crate::spawn;
use crate::storage::{Cursor, Error, Store};
use crate::telemetry;

/// Nudges an instance, and says whether there was room for it. It must not block.
pub(crate) type Wake = Arc<dyn Fn(&InstanceId) -> bool + Send + Sync>;

/// How long to wait before reading the store again, when it could not be read.
const AGAIN_MS: Millis = 1000;

/// What the scheduler is told.
#[derive(Debug)]
pub(crate) enum Notice {
    /// An alarm became durable.
    Armed(Millis, InstanceId),
    /// The earliest alarm may be due.
    Look,
    /// There may be room for those that there was none for.
    Room,
}

/// The callers' side of the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Alarms {
    actor: ActorRef<Notice>,
    /// Alarms that are due and wait for room.
    due: Arc<AtomicUsize>,
}

impl Alarms {
    /// Starts the scheduler; it begins with the alarms that are stored.
    pub(crate) async fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        wake: Wake,
        admission: Arc<Admission>,
    ) -> Result<Self, ractor::SpawnErr> {
        let arguments = Arguments {
            store,
            clock,
            wake,
            admission,
            due: Arc::default(),
        };
        let due = Arc::clone(&arguments.due);
        let (actor, _) = Actor::spawn(None, Scheduler, arguments).await?;
        Ok(Self { actor, due })
    }

    /// Says that an alarm became durable.
    pub(crate) fn armed(&self, at_ms: Millis, instance: &InstanceId) {
        // A scheduler that is gone rings no more; the row is read at the next start.
        let _ = self.actor.cast(Notice::Armed(at_ms, instance.clone()));
    }

    /// Alarms that are due and wait for room.
    pub(crate) fn due(&self) -> usize {
        self.due.load(Ordering::Relaxed)
    }

    /// Stops the scheduler. Alarms stay where they are.
    pub(crate) async fn stop(&self) {
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    /// The same without waiting.
    pub(crate) fn kill(&self) {
        self.actor.kill();
    }
}

struct Scheduler;

struct Arguments {
    store: Store,
    clock: Arc<dyn Clock>,
    wake: Wake,
    admission: Arc<Admission>,
    due: Arc<AtomicUsize>,
}

struct Schedule {
    store: Store,
    clock: Arc<dyn Clock>,
    wake: Wake,
    admission: Arc<Admission>,
    /// The next alarms behind `rung`. Complete up to its last one if `beyond` is set, and complete altogether if not.
    window: BTreeSet<(Millis, InstanceId)>,
    /// Alarms that were due when there was no room for their instances. They keep nobody else waiting, up to as many as
    /// the window holds.
    refused: BTreeSet<(Millis, InstanceId)>,
    /// Whether somebody tells when there is room.
    waits_for_room: bool,
    due: Arc<AtomicUsize>,
    /// Whether the store has alarms behind the window.
    beyond: bool,
    /// The last alarm that was rung. Its row and those before it may still be there: they go when their instances get
    /// that far. Whoever looks and finds that it is too early says so again.
    rung: Option<(Millis, InstanceId)>,
    /// When the timer that is running rings, so that an earlier alarm gets one of its own.
    timer_at_ms: Option<Millis>,
}

impl Actor for Scheduler {
    type Msg = Notice;
    type State = Schedule;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<Notice>, arguments: Arguments) -> Result<Schedule, ActorProcessingErr> {
        let Arguments {
            store,
            clock,
            wake,
            admission,
            due,
        } = arguments;
        let mut schedule = Schedule {
            store,
            clock,
            wake,
            admission,
            window: BTreeSet::new(),
            refused: BTreeSet::new(),
            waits_for_room: false,
            due,
            beyond: true,
            rung: None,
            timer_at_ms: None,
        };
        schedule.refill()?;
        Ok(schedule)
    }

    async fn post_start(&self, me: ActorRef<Notice>, schedule: &mut Schedule) -> Result<(), ActorProcessingErr> {
        schedule.ring(&me);
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<Notice>,
        notice: Notice,
        schedule: &mut Schedule,
    ) -> Result<(), ActorProcessingErr> {
        match notice {
            Notice::Armed(at_ms, instance) => schedule.add(at_ms, instance),
            Notice::Look => schedule.timer_at_ms = None,
            Notice::Room => {
                schedule.waits_for_room = false;
                schedule.window.append(&mut schedule.refused);
            }
        }
        schedule.ring(&me);
        schedule.tell();
        Ok(())
    }
}

impl Schedule {
    fn tell(&self) {
        self.due.store(self.refused.len(), Ordering::Relaxed);
        telemetry::alarms_due(self.refused.len());
    }

    fn add(&mut self, at_ms: Millis, instance: InstanceId) {
        let alarm = (at_ms, instance);
        // What lies before the last that was rung is not found by reading on from there.
        let passed = self.rung.as_ref().is_some_and(|rung| alarm <= *rung);
        let inside = !self.beyond || self.window.last().is_some_and(|last| alarm < *last);
        if !inside && !passed {
            return;
        }
        self.window.insert(alarm);
        if self.window.len() > ALARM_WINDOW_MAX {
            let popped = self.window.pop_last();
            // It is read again: from the beginning, if it lies before what was rung.
            self.rung = self
                .rung
                .take()
                .filter(|rung| popped.is_none_or(|popped| popped > *rung));
            self.beyond = true;
        }
    }

    /// Nudges everyone whose alarm is due, as far as there is room for them, and sees to it that it looks again.
    fn ring(&mut self, me: &ActorRef<Notice>) {
        let now = self.clock.now_ms();
        loop {
            while let Some(alarm) = self.next_due(now) {
                let rooms = self.admission.rooms();
                if (self.wake)(&alarm.1) {
                    telemetry::alarm_rang(Duration::from_millis(now - alarm.0));
                } else if self.admission.is_closed() {
                    return;
                } else {
                    self.refused.insert(alarm.clone());
                    self.look_when_there_is_room(me, rooms);
                }
                self.rung = self.rung.take().max(Some(alarm));
            }
            if self.refused.len() >= ALARM_WINDOW_MAX {
                return;
            }
            if !self.window.is_empty() || !self.beyond {
                break;
            }
            if let Err(error) = self.refill() {
                tracing::error!(%error, "the alarms could not be read; they are read again");
                self.beyond = true;
                self.look_at(me, now + AGAIN_MS);
                return;
            }
        }
        if let Some((next, _)) = self.window.first() {
            self.look_at(me, *next);
        }
    }

    /// Takes out the next alarm that is due, unless too many wait for room already.
    fn next_due(&mut self, now: Millis) -> Option<(Millis, InstanceId)> {
        let due = self.window.first().is_some_and(|(at, _)| *at <= now);
        if !due || self.refused.len() >= ALARM_WINDOW_MAX {
            return None;
        }
        self.window.pop_first()
    }

    fn look_when_there_is_room(&mut self, me: &ActorRef<Notice>, rooms: u64) {
        if std::mem::replace(&mut self.waits_for_room, true) {
            return;
        }
        let (admission, me) = (Arc::clone(&self.admission), me.clone());
        spawn::task(async move {
            admission.room_since(rooms).await;
            let _ = me.cast(Notice::Room);
        });
    }

    fn look_at(&mut self, me: &ActorRef<Notice>, at_ms: Millis) {
        if self.timer_at_ms.is_none_or(|timer| at_ms < timer) {
            self.timer_at_ms = Some(at_ms);
            let (timer, me) = (self.clock.wait_until(at_ms), me.clone());
            spawn::task(async move {
                timer.await;
                let _ = me.cast(Notice::Look);
            });
        }
    }

    /// Reads the next alarms of every shard.
    fn refill(&mut self) -> Result<(), Error> {
        self.beyond = false;
        for shard in self.store.shards() {
            let mut after: Option<Cursor> = None;
            loop {
                let page = match (&after, &self.rung) {
                    (None, Some((at, instance))) => self.store.alarms_behind(shard, (*at, instance))?,
                    _ => self.store.alarms(shard, after.as_ref())?,
                };
                for (at_ms, instance, _) in page.rows {
                    self.window.insert((at_ms, instance));
                }
                while self.window.len() > ALARM_WINDOW_MAX {
                    self.window.pop_last();
                    self.beyond = true;
                }
                after = page.next;
                if after.is_none() || self.beyond {
                    break;
                }
            }
        }
        Ok(())
    }
}
