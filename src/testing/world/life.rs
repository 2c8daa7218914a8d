//! The life of one process: turns, commits, the courier, and the time between.

use std::sync::atomic::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::rig::Plan;
use super::{Resident, World};
use crate::actor::{self, Blocked, Delivery, Hand};
use crate::clock::{Clock, Millis};
use crate::config::Bounds;
use crate::engine::{Begin, Divergence, Execution, Turn};
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::record::State;
use crate::storage::{Condition, Error, Refusal};

impl World {
    /// One process, from its start to its death or to where nothing moves. Tells whether it is that.
    pub(super) fn live(&mut self) -> Result<bool, Divergence> {
        self.residents.clear();
        self.recover();
        loop {
            while let Some(instance) = self.next_woken() {
                self.woken.remove(&instance);
                self.visit(&instance)?;
                if self.hand.take_death() {
                    self.woken.clear();
                    return Ok(false);
                }
            }
            let carried = self.carry();
            if self.hand.take_death() {
                self.woken.clear();
                return Ok(false);
            }
            if !carried && self.woken.is_empty() && !self.move_on() {
                return Ok(true);
            }
        }
    }

    /// What a process finds when it starts: who was running, and whose alarm has rung meanwhile.
    fn recover(&mut self) {
        for shard in self.store.shards() {
            let mut after = None;
            loop {
                let page = self.store.runnable(shard, after.as_ref()).expect("it can be read");
                self.woken.extend(page.rows.into_iter().map(|(instance, _)| instance));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        self.ring();
    }

    /// Wakes everyone whose alarm is due.
    fn ring(&mut self) {
        let now = self.clock.now_ms();
        for (at_ms, instance) in self.alarms() {
            if at_ms <= now {
                self.woken.insert(instance);
            }
        }
    }

    fn alarms(&self) -> Vec<(Millis, InstanceId)> {
        let mut alarms = Vec::new();
        for shard in self.store.shards() {
            let page = self.store.alarms(shard, None).expect("it can be read");
            alarms.extend(page.rows.into_iter().map(|(at_ms, instance, _)| (at_ms, instance)));
        }
        alarms
    }

    /// Who is looked at next: whoever has news, in an order that the seed draws.
    fn next_woken(&self) -> Option<InstanceId> {
        let luck = |instance: &&InstanceId| xxh3_64_with_seed(instance.as_str().as_bytes(), self.seed);
        self.woken.iter().min_by_key(luck).cloned()
    }

    /// Turns of one instance, until it rests.
    fn visit(&mut self, instance: &InstanceId) -> Result<(), Divergence> {
        let Some(mut resident) = self.enter(instance) else {
            return Ok(());
        };
        loop {
            let luck = xxh3_64_with_seed(&self.hand.commits().to_be_bytes(), self.seed);
            if self.restless && luck.is_multiple_of(2) {
                self.carry();
                if self.hand.is_dead() {
                    return Ok(());
                }
            }
            let now = self.clock.now_ms();
            for (location, id, end) in std::mem::take(&mut resident.ended) {
                resident.execution.attempt_ended(&location, id, end, now);
            }
            let turn = resident.execution.turn(now)?;
            let (ended, begins) = (turn.ended, !turn.begin.is_empty());
            match self.commit(instance, &mut resident, turn) {
                Committed::Gone => return Ok(()),
                Committed::Durable if ended => return Ok(()),
                Committed::Durable if resident.execution.committed() => continue,
                _ if begins => continue,
                _ => break,
            }
        }
        let alarm = resident.alarm_at_ms;
        if alarm.is_some_and(|at| at <= self.clock.now_ms()) {
            self.woken.insert(instance.clone());
        }
        if self.hand.plan() != Plan::Evict {
            self.residents.insert(instance.clone(), resident);
        }
        Ok(())
    }

    /// The instance in memory, with its inbox as it is now; none if it has nothing more to do.
    fn enter(&mut self, instance: &InstanceId) -> Option<Resident> {
        let namespace = self.store.namespace(instance);
        let snapshot = self.store.snapshot(namespace.shard()).expect("it can be read");
        let state: Option<State> = namespace
            .get(&*snapshot, &Local::Meta(Meta::State))
            .expect("it can be read");
        let resident = self.residents.remove(instance);
        if state.is_none_or(|state| state.status.is_terminal()) {
            return None;
        }
        if let Some(mut resident) = resident {
            let inbox = actor::load_inbox(&namespace, &*snapshot).expect("an inbox can be read");
            resident.execution.refresh_inbox(inbox);
            return Some(resident);
        }
        let loaded = actor::load_instance(&namespace, &*snapshot).expect("an instance can be read")?;
        let definition = self.definitions.get(loaded.origin.workflow.as_str())?;
        let codecs = self.store.codecs().clone();
        Some(Resident {
            execution: Execution::new(
                namespace,
                loaded,
                definition,
                codecs,
                definition.bounds(Bounds::default()),
            ),
            ended: Vec::new(),
            alarm_at_ms: None,
        })
    }

    /// Does what a turn asks for.
    fn commit(&mut self, instance: &InstanceId, resident: &mut Resident, turn: Turn) -> Committed {
        resident.alarm_at_ms = turn.alarm_at_ms;
        let begun: Vec<_> = turn.begin.into_iter().filter_map(|begin| self.attempt(begin)).collect();
        resident.ended.extend(begun);
        let Some(mut commit) = turn.commit else {
            return Committed::Nothing;
        };
        let shard = self.store.shard_of(instance);
        commit.seen(self.store.delivered(shard));
        commit.require(Condition::Open(instance.clone()));
        let done = self.runtime.block_on(self.hand.commit(shard, Box::new(|_| commit)));
        match done {
            Ok(()) => Committed::Durable,
            // It was terminated meanwhile, or the process died.
            Err(Error::Closed | Error::Refused(Refusal::Ended(_))) => Committed::Gone,
            Err(error) => panic!("the commit of {instance} was refused, seed {}: {error}", self.seed),
        }
    }

    /// Runs an attempt to its end. It has had its effect, whatever becomes of its result.
    fn attempt(&self, begin: Begin) -> Option<super::Ended> {
        let (location, id) = (begin.location.clone(), begin.id);
        let end = self.runtime.block_on(actor::run_attempt(begin, (), || (), || ()))?;
        Some((location, id, end))
    }

    /// The courier goes around once. Tells whether it had anything to do.
    fn carry(&mut self) -> bool {
        let mut senders = actor::outboxes(&self.store).expect("outboxes can be read");
        senders.sort_by_key(|rows| {
            rows.first()
                .map(|row| xxh3_64_with_seed(row.from.as_str().as_bytes(), self.seed))
        });
        let mut moved = false;
        for rows in senders {
            let now = self.clock.now_ms();
            let delivery = Delivery::new(&self.store, &self.hand, now);
            let carrying = async { delivery.carry(&rows, &mut Blocked::default()).await };
            let carried = self.runtime.block_on(carrying);
            if self.hand.is_dead() {
                return true;
            }
            moved |= carried.done > 0;
            self.woken.extend(carried.woken);
        }
        moved
    }

    /// Nothing moves: the time goes on to what comes next. Tells whether there is anything.
    fn move_on(&mut self) -> bool {
        let planned = self.planned.keys().next().map(|(at, _)| *at);
        let alarms = self.alarms().into_iter().map(|(at, _)| at);
        let Some(next) = alarms.chain(planned).min().filter(|at| *at <= self.until_ms) else {
            return false;
        };
        self.clock.0.fetch_max(next, Ordering::Relaxed);
        let now = self.clock.now_ms();
        while let Some(entry) = self.planned.first_entry().filter(|entry| entry.key().0 <= now) {
            let deed = entry.remove();
            deed(self);
        }
        self.ring();
        true
    }
}

/// What became of the commit of a turn.
enum Committed {
    Nothing,
    Durable,
    Gone,
}
