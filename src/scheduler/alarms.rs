//! The alarm scheduler: one actor for all instances.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::clock::{Clock, Millis};
use crate::ids::InstanceId;
use crate::limits::ALARM_WINDOW_MAX;
use crate::spawn;
use crate::storage::{Cursor, Error, Store};

/// Nudges an instance. It must not block.
pub(crate) type Wake = Arc<dyn Fn(&InstanceId) + Send + Sync>;

/// What the scheduler is told.
#[derive(Debug)]
pub(crate) enum Notice {
    /// An alarm became durable.
    Armed(Millis, InstanceId),
    /// The earliest alarm may be due.
    Look,
}

/// The callers' side of the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Alarms(ActorRef<Notice>);

impl Alarms {
    /// Starts the scheduler; it begins with the alarms that are stored.
    pub(crate) async fn start(store: Store, clock: Arc<dyn Clock>, wake: Wake) -> Result<Self, ractor::SpawnErr> {
        let (actor, _) = Actor::spawn(None, Scheduler, Arguments { store, clock, wake }).await?;
        Ok(Self(actor))
    }

    /// Says that an alarm became durable.
    pub(crate) fn armed(&self, at_ms: Millis, instance: &InstanceId) {
        // A scheduler that is gone rings no more; the row is read at the next start.
        let _ = self.0.cast(Notice::Armed(at_ms, instance.clone()));
    }

    /// Stops the scheduler. Alarms stay where they are.
    pub(crate) async fn stop(&self) {
        let _ = self.0.stop_and_wait(None, None).await;
    }
}

struct Scheduler;

struct Arguments {
    store: Store,
    clock: Arc<dyn Clock>,
    wake: Wake,
}

struct Schedule {
    store: Store,
    clock: Arc<dyn Clock>,
    wake: Wake,
    /// The next alarms. Complete up to its last one if `beyond` is set, and complete altogether if not.
    window: BTreeSet<(Millis, InstanceId)>,
    /// Whether the store has alarms behind the window.
    beyond: bool,
    /// When the timer that is running rings, so that an earlier alarm gets one of its own.
    timer_at_ms: Option<Millis>,
}

impl Actor for Scheduler {
    type Msg = Notice;
    type State = Schedule;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<Notice>, arguments: Arguments) -> Result<Schedule, ActorProcessingErr> {
        let Arguments { store, clock, wake } = arguments;
        let mut schedule = Schedule {
            store,
            clock,
            wake,
            window: BTreeSet::new(),
            beyond: true,
            timer_at_ms: None,
        };
        schedule.refill()?;
        Ok(schedule)
    }

    async fn post_start(&self, me: ActorRef<Notice>, schedule: &mut Schedule) -> Result<(), ActorProcessingErr> {
        schedule.ring(&me)
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
        }
        schedule.ring(&me)
    }
}

impl Schedule {
    fn add(&mut self, at_ms: Millis, instance: InstanceId) {
        let inside = !self.beyond || self.window.last().is_some_and(|(last, _)| at_ms < *last);
        if !inside {
            return;
        }
        self.window.insert((at_ms, instance));
        if self.window.len() > ALARM_WINDOW_MAX {
            self.window.pop_last();
            self.beyond = true;
        }
    }

    /// Nudges everyone whose alarm is due, and sets a timer for the next one.
    fn ring(&mut self, me: &ActorRef<Notice>) -> Result<(), ActorProcessingErr> {
        let now = self.clock.now_ms();
        loop {
            while self.window.first().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, instance)) = self.window.pop_first() {
                    (self.wake)(&instance);
                }
            }
            if !self.window.is_empty() || !self.beyond {
                break;
            }
            self.refill()?;
        }
        let Some((next, _)) = self.window.first() else {
            return Ok(());
        };
        if self.timer_at_ms.is_none_or(|timer| *next < timer) {
            self.timer_at_ms = Some(*next);
            let (timer, me) = (self.clock.wait_until(*next), me.clone());
            spawn::task(async move {
                timer.await;
                let _ = me.cast(Notice::Look);
            });
        }
        Ok(())
    }

    /// Reads the next alarms of every shard.
    fn refill(&mut self) -> Result<(), Error> {
        self.beyond = false;
        for shard in self.store.shards() {
            let mut after: Option<Cursor> = None;
            loop {
                let page = self.store.alarms(shard, after.as_ref())?;
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
