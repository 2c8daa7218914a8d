//! What a schedule remembers from one slot to the next, and how it decides. Pure: the same diary, news and time give
//! the same diary.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::{Millis, whole_ms};
use crate::engine::schedule::{CatchUp, Order, Outcome, Overlap, Terms};
use crate::limits::{SCHEDULE_LATE_MAX, SCHEDULE_STARTS_MAX, SCHEDULE_WAITING_MAX};
use crate::timing::{Times, in_utc};

/// The state of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Diary {
    pub(crate) paused: bool,
    /// The next slot; none if there is none any more.
    pub(crate) next_ms: Option<Millis>,
    /// Slots whose time has come and that have not begun, in order.
    pub(crate) waiting: VecDeque<Slot>,
    /// What was begun last and has not ended, as far as the schedule minds.
    pub(crate) running: Option<Running>,
    /// Instances begun.
    pub(crate) started: u64,
    /// Slots passed over because of others.
    pub(crate) skipped: u64,
    /// The instance that was begun last.
    pub(crate) last: Option<String>,
    /// What was decided and is to be done next.
    pub(crate) to_do: Vec<Act>,
}

/// A reason to begin an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Slot {
    /// Its time has come.
    At(Millis),
    /// Somebody asked for it, and called it so.
    Asked(String),
}

/// An instance that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) instance: String,
    pub(crate) asked_to_end: bool,
}

/// Something to do to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Begin the instance of a slot.
    Start(String),
    /// Ask an instance to end.
    Cancel(String),
}

impl Diary {
    /// The diary of a schedule that begins now.
    pub(crate) fn begin(next_ms: Option<Millis>) -> Self {
        Self {
            next_ms,
            ..Self::default()
        }
    }

    /// When there is something to do without news.
    pub(super) fn wakes_at_ms(&self, terms: &Terms) -> Option<Millis> {
        if terms.overlap == Overlap::Allow && self.waiting.iter().any(|slot| self.may_begin(slot)) {
            return Some(0);
        }
        let next = self.next_ms.filter(|_| !self.paused);
        next.map(|slot| begins_at_ms(terms, slot))
    }

    /// Whether nothing will ever come of it any more.
    pub(super) fn is_over(&self) -> bool {
        self.next_ms.is_none() && self.waiting.is_empty() && self.to_do.is_empty()
    }

    /// An instance has ended.
    pub(super) fn ended(&mut self, instance: &str) {
        self.running.take_if(|running| running.instance == instance);
    }

    /// Looks at the clock: slots whose time has come begin, wait, or are passed over.
    pub(super) fn come_to(&mut self, now: Millis, terms: &Terms, times: &Times) {
        let on_time = |slot: Millis| begins_at_ms(terms, slot).saturating_add(whole_ms(SCHEDULE_LATE_MAX)) >= now;
        let is_due = |slot: Millis| begins_at_ms(terms, slot) <= now;
        if let Some(first) = self.next_ms.filter(|slot| !self.paused && is_due(*slot)) {
            let missed = !on_time(first);
            let most = if missed {
                terms.catch_up.most()
            } else {
                SCHEDULE_WAITING_MAX
            };
            let (mut due, next) = times.due(first, most, is_due, now);
            if missed && terms.catch_up == CatchUp::Skip {
                due.retain(|slot| on_time(*slot));
            }
            self.next_ms = next;
            self.waiting.extend(due.into_iter().map(Slot::At));
        }
        self.settle(terms);
    }

    /// Does what an operator asks for.
    pub(super) fn obey(&mut self, order: &Order, now: Millis, terms: &Terms, times: &Times) -> Outcome {
        match order {
            Order::Pause | Order::Resume if self.paused == (*order == Order::Pause) => Outcome::Already,
            Order::Pause => {
                self.paused = true;
                Outcome::Done
            }
            Order::Resume => {
                self.paused = false;
                // What came meanwhile was not missed, it was not wanted.
                let over = self.next_ms.filter(|slot| begins_at_ms(terms, *slot) <= now);
                if over.is_some() {
                    self.next_ms = times.after(now);
                }
                self.settle(terms);
                Outcome::Done
            }
            Order::Trigger(name) => {
                let slot = Slot::Asked(name.clone());
                let instance = instance_name(&terms.name, &slot);
                self.waiting.push_back(slot.clone());
                self.settle(terms);
                if self.to_do.contains(&Act::Start(instance)) {
                    Outcome::Started
                } else if self.waiting.contains(&slot) {
                    Outcome::Waits
                } else {
                    Outcome::Skipped
                }
            }
            Order::Change(_) => Outcome::Already,
        }
    }

    /// Other terms hold from now on. What waits is not forgotten.
    pub(super) fn change(&self, next_ms: Option<Millis>) -> Self {
        Self {
            next_ms,
            ..self.clone()
        }
    }

    /// Decides about everything that waits.
    fn settle(&mut self, terms: &Terms) {
        match terms.overlap {
            Overlap::Allow => {
                let room = SCHEDULE_STARTS_MAX.saturating_sub(self.to_do.len());
                for _ in 0..room {
                    if !self.begin_next(terms) {
                        break;
                    }
                }
            }
            Overlap::Skip => {
                if self.running.is_none() && self.begin_next(terms) {
                    self.mind();
                }
                let (stay, passed): (VecDeque<_>, _) =
                    self.waiting.drain(..).partition(|slot| self.paused && !is_asked(slot));
                self.waiting = stay;
                self.skipped += passed.len() as u64;
            }
            Overlap::Queue => {
                if self.running.is_none() && self.begin_next(terms) {
                    self.mind();
                }
                self.skip_beyond(SCHEDULE_WAITING_MAX, VecDeque::pop_back);
            }
            Overlap::CancelOld => {
                self.skip_beyond(1, VecDeque::pop_front);
                let wanted = self.waiting.iter().any(|slot| self.may_begin(slot));
                match &mut self.running {
                    Some(running) if wanted && !running.asked_to_end => {
                        running.asked_to_end = true;
                        self.to_do.push(Act::Cancel(running.instance.clone()));
                    }
                    Some(_) => {}
                    None => {
                        if self.begin_next(terms) {
                            self.mind();
                        }
                    }
                }
            }
        }
    }

    /// Passes over what waits and is too much, one by one.
    fn skip_beyond(&mut self, most: usize, skip: fn(&mut VecDeque<Slot>) -> Option<Slot>) {
        while self.waiting.len() > most {
            skip(&mut self.waiting);
            self.skipped += 1;
        }
    }

    /// Begins the first that may. Tells whether there was one.
    fn begin_next(&mut self, terms: &Terms) -> bool {
        let next = self.waiting.iter().position(|slot| self.may_begin(slot));
        let Some(slot) = next.and_then(|at| self.waiting.remove(at)) else {
            return false;
        };
        let instance = instance_name(&terms.name, &slot);
        self.started += 1;
        self.last = Some(instance.clone());
        self.to_do.push(Act::Start(instance));
        true
    }

    /// What was begun last is waited for.
    fn mind(&mut self) {
        self.running = self.last.clone().map(|instance| Running {
            instance,
            asked_to_end: false,
        });
    }

    /// Nothing begins by itself while the schedule is paused.
    fn may_begin(&self, slot: &Slot) -> bool {
        !self.paused || is_asked(slot)
    }
}

fn is_asked(slot: &Slot) -> bool {
    matches!(slot, Slot::Asked(_))
}

/// When the instance of a slot begins: somewhat later than its time, each slot and each schedule by another part of
/// what was asked for.
pub(crate) fn begins_at_ms(terms: &Terms, slot_ms: Millis) -> Millis {
    let place = xxh3_64(format!("{slot_ms} {}", terms.name).as_bytes());
    slot_ms.saturating_add(place % terms.jitter_ms.saturating_add(1).max(1))
}

/// The id of the instance of a slot. It follows from the schedule and the slot alone, so a slot can't have two.
pub(crate) fn instance_name(schedule: &str, slot: &Slot) -> String {
    match slot {
        Slot::At(at_ms) => format!("{schedule}-{}", in_utc(*at_ms)),
        Slot::Asked(name) => format!("{schedule}-{name}"),
    }
}
