//! Instances that nobody starts by hand, and operations on many: schedules, starts that wait for the last of several,
//! batches.
//!
//! A slot starts at most one instance, not before its time, not while its schedule is held, and not beside another one if
//! its schedule says so. What waits under a key begins once, with what was wanted last. A batch comes to everyone once.

use std::collections::{BTreeMap, BTreeSet};

use everstep::{CatchUp, Overlap};

use super::Ledger;
use crate::runtime::chore::{Duty, Notice};

/// How late a slot may begin that was not missed.
const LATE_MS: u64 = 60_000;

/// What a schedule was told, the same each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) every_ms: u64,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) takes_ms: u64,
}

#[derive(Debug)]
pub(crate) struct ScheduleSeen {
    pub(crate) rules: Rules,
    /// One was deleted, and what it began may run beside what the next one begins.
    deleted: bool,
    /// Held since the clock had shown this.
    held_ms: Option<u64>,
    /// Resumptions that were asked for.
    resumes: u64,
    /// Instances that somebody asked for now.
    triggers: usize,
    pub(crate) begun: usize,
}

#[derive(Debug)]
struct ChoreSeen {
    duty: Duty,
    uuid: String,
    /// In this order.
    number: usize,
    returned: bool,
    heard: Vec<String>,
}

/// A start that waits, as somebody wanted it.
#[derive(Debug)]
struct WantedSeen {
    number: u64,
    tried_at: usize,
    /// It may not begin before this.
    due_ms: u64,
    /// The instance that it is to become, and when that was answered.
    answered: Option<(String, usize)>,
}

#[derive(Debug)]
pub(crate) struct BatchSeen {
    /// Those who were there before it, and are to hear of it.
    crew: BTreeSet<String>,
    /// Its start was acknowledged: the time by which it tells who came before is known.
    began: bool,
    pub(crate) over: bool,
}

#[derive(Debug, Default)]
pub(super) struct Chores {
    seen: BTreeMap<String, ChoreSeen>,
    pub(super) schedules: BTreeMap<u64, ScheduleSeen>,
    wanted: BTreeMap<u64, Vec<WantedSeen>>,
    /// Instances that have to begin.
    expected: BTreeSet<String>,
    crew: BTreeSet<String>,
    batches: BTreeMap<String, BatchSeen>,
    /// Times in which no machine ran.
    off: Vec<(u64, u64)>,
    /// Somebody set the clock, and times say little.
    jumped: bool,
}

/// The time of a slot, by the name of its instance: `s1-2030-01-01T02:00:00Z`.
fn slot_of(id: &str) -> Option<u64> {
    let (_, time) = id.split_once('-')?;
    let time: Vec<u64> = time
        .strip_suffix('Z')?
        .split(['-', 'T', ':'])
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [year, month, day, hour, minute, second] = time.try_into().ok()?;
    // Years begin in March here, so that the day that is sometimes there is the last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000)
}

impl Ledger {
    /// The code of a chore is called.
    pub(crate) fn chore_begins(&mut self, id: &str, duty: &Duty, uuid: &str) {
        self.note(format!("{id} sees to {duty:?}"));
        let number = self.chores.seen.len();
        let mut wrong = None;
        if let Some(seen) = self.chores.seen.get(id) {
            let later = self.chores.seen.values().find(|other| {
                let alone = matches!((&seen.duty, &other.duty), (Duty::Slot(a, _), Duty::Slot(b, _)) if a == b && self.is_alone(*a));
                alone && other.number > seen.number
            });
            if seen.uuid != uuid {
                wrong = Some(format!("{id} began twice"));
            } else if later.is_some() {
                wrong = Some(format!("{id} goes on beside a later slot"));
            }
        } else {
            wrong = match duty {
                Duty::Slot(schedule, _) => self.slot_begins(*schedule, id),
                Duty::Wanted(key, number) => self.wanted_begins(*key, *number, id),
                Duty::Crew => None,
            };
            let seen = ChoreSeen {
                duty: duty.clone(),
                uuid: uuid.to_owned(),
                number,
                returned: false,
                heard: Vec::new(),
            };
            self.chores.seen.insert(id.to_owned(), seen);
            self.chores.expected.remove(id);
        }
        if let Some(wrong) = wrong {
            self.violation(wrong);
        }
    }

    /// Whether nothing of a schedule runs beside something else of it.
    fn is_alone(&self, schedule: u64) -> bool {
        let schedule = self.chores.schedules.get(&schedule);
        schedule.is_some_and(|schedule| schedule.rules.overlap != Overlap::Allow && !schedule.deleted)
    }

    fn slot_begins(&mut self, schedule: u64, id: &str) -> Option<String> {
        let (latest, alone) = (self.latest_ms, self.is_alone(schedule));
        let of_it = |seen: &ChoreSeen| matches!(seen.duty, Duty::Slot(other, _) if other == schedule);
        let beside = self.chores.seen.iter().find(|(_, seen)| of_it(seen) && !seen.returned);
        let beside = beside.filter(|_| alone).map(|(id, _)| id.clone());
        let triggered = self
            .chores
            .seen
            .iter()
            .filter(|(id, seen)| of_it(seen) && slot_of(id).is_none());
        let triggered = triggered.count();
        let seen = self.chores.schedules.get_mut(&schedule)?;
        seen.begun += 1;
        let Some(slot) = slot_of(id) else {
            let strange = triggered >= seen.triggers || beside.is_some();
            return strange.then(|| format!("{id} begins, behind {triggered} others, beside {beside:?}"));
        };
        let (rules, held) = (seen.rules, seen.held_ms);
        if slot > latest || !slot.is_multiple_of(rules.every_ms) {
            return Some(format!("{id} begins at {latest}"));
        }
        if let Some(held) = held.filter(|held| slot > *held) {
            return Some(format!("{id} begins though its schedule is held since {held}"));
        }
        if let Some(beside) = beside {
            return Some(format!("{id} begins beside {beside}"));
        }
        self.too_many_missed(schedule, rules, slot)
    }

    /// What is wrong with the slots that begin although nobody was there when they came.
    fn too_many_missed(&self, schedule: u64, rules: Rules, slot: u64) -> Option<String> {
        let most = match rules.catch_up {
            CatchUp::Skip => 0,
            CatchUp::One => 1,
            CatchUp::All(most) => most,
            _ => usize::MAX,
        };
        let missed = |slot: u64| {
            let off = |(from, until): &&(u64, u64)| slot > *from && slot + LATE_MS < *until;
            self.chores.off.iter().find(off)
        };
        let off = missed(slot).filter(|_| !self.chores.jumped)?;
        let of_it = |(id, seen): (&String, &ChoreSeen)| {
            let ours = matches!(seen.duty, Duty::Slot(other, _) if other == schedule);
            ours && slot_of(id).and_then(missed) == Some(off)
        };
        let begun = self.chores.seen.iter().filter(|(id, seen)| of_it((id, seen))).count();
        (begun >= most).then(|| format!("slot {slot} of schedule {schedule} was missed, and {begun} others begin"))
    }

    fn wanted_begins(&mut self, key: u64, number: u64, id: &str) -> Option<String> {
        let wanted = self.chores.wanted.get(&key)?;
        let answered = |wanted: &&WantedSeen| wanted.answered.as_ref().is_some_and(|(other, _)| other == id);
        let this = wanted.iter().filter(answered).find(|wanted| wanted.number == number)?;
        let (_, heard_at) = this.answered.as_ref()?;
        // The clock may have been set while it was asked for.
        if this.due_ms > self.latest_ms && !self.chores.jumped {
            return Some(format!("{id} begins before {}", this.due_ms));
        }
        let later = wanted.iter().filter(answered).find(|later| later.tried_at > *heard_at);
        later.map(|later| format!("{id} begins with {number}, and {} was wanted later", later.number))
    }

    /// The code of a chore is over, one way or the other.
    pub(crate) fn chore_returns(&mut self, id: &str) {
        self.note(format!("{id} is done"));
        if let Some(seen) = self.chores.seen.get_mut(id) {
            seen.returned = true;
        }
    }

    /// Somebody says what a schedule is.
    pub(crate) fn schedules(&mut self, schedule: u64, rules: Rules) {
        self.chores.schedules.entry(schedule).or_insert(ScheduleSeen {
            rules,
            deleted: false,
            held_ms: None,
            resumes: 0,
            triggers: 0,
            begun: 0,
        });
    }

    /// A schedule, if somebody has spoken of it.
    pub(crate) fn schedule(&mut self, schedule: u64) -> Option<&mut ScheduleSeen> {
        self.chores.schedules.get_mut(&schedule)
    }

    /// All of them.
    pub(crate) fn all_schedules(&self) -> Vec<u64> {
        self.chores.schedules.keys().copied().collect()
    }

    /// It is about to be deleted: what was known of it is over.
    pub(crate) fn unschedules(&mut self, schedule: u64) {
        if let Some(seen) = self.schedule(schedule) {
            (seen.deleted, seen.held_ms) = (true, None);
            seen.resumes += 1;
        }
    }

    /// Whether somebody has ever asked that it be deleted.
    pub(crate) fn may_be_deleted(&self, schedule: u64) -> bool {
        let schedule = self.chores.schedules.get(&schedule);
        schedule.is_some_and(|schedule| schedule.deleted)
    }

    /// Somebody lets it go on.
    pub(crate) fn resumes_schedule(&mut self, schedule: u64) {
        if let Some(seen) = self.schedule(schedule) {
            seen.held_ms = None;
            seen.resumes += 1;
        }
    }

    /// It was held by somebody who knew of these resumptions.
    pub(crate) fn holds_schedule(&mut self, schedule: u64, resumes: u64) {
        let latest = self.latest_ms;
        if let Some(seen) = self.schedule(schedule).filter(|seen| seen.resumes == resumes) {
            seen.held_ms.get_or_insert(latest);
        }
    }

    pub(crate) fn resumes_of(&mut self, schedule: u64) -> u64 {
        self.schedule(schedule).map_or(0, |seen| seen.resumes)
    }

    /// Somebody asks for an instance now.
    pub(crate) fn triggers(&mut self, schedule: u64) {
        if let Some(seen) = self.schedule(schedule) {
            seen.triggers += 1;
        }
    }

    /// An instance is said to be there, or to come.
    pub(crate) fn expects_chore(&mut self, id: &str) {
        self.note(format!("{id} is to begin"));
        if !self.chores.seen.contains_key(id) {
            self.chores.expected.insert(id.to_owned());
        }
    }

    /// Somebody wants a start under a key.
    pub(crate) fn wants(&mut self, key: u64, number: u64, wait_ms: u64) {
        let (tried_at, due_ms) = (self.trace.len(), self.now_ms + wait_ms);
        self.note(format!("{number} is wanted under {key}"));
        let wanted = WantedSeen {
            number,
            tried_at,
            due_ms,
            answered: None,
        };
        self.chores.wanted.entry(key).or_default().push(wanted);
    }

    /// It is to become this instance.
    pub(crate) fn will_be(&mut self, key: u64, number: u64, id: &str) {
        self.note(format!("{number} under {key} is to be {id}"));
        let heard_at = self.trace.len();
        let all = self.chores.wanted.entry(key).or_default();
        let Some(this) = all.iter_mut().rev().find(|wanted| wanted.number == number) else {
            return;
        };
        this.answered = Some((id.to_owned(), heard_at));
        let tried_at = this.tried_at;
        // One that has begun by now began with this, or with one that was not wanted before it.
        let Some(Duty::Wanted(_, began)) = self.chores.seen.get(id).map(|seen| &seen.duty) else {
            return self.expects_chore(id);
        };
        let before = self.chores.wanted[&key].iter().find(|wanted| {
            let answered = wanted.answered.as_ref();
            wanted.number == *began && answered.is_some_and(|(other, at)| other == id && *at < tried_at)
        });
        if before.is_some() && *began != number {
            let began = *began;
            self.violation(format!("{id} began with {began}, and {number} was wanted later"));
        }
    }

    /// One of the crew is there.
    pub(crate) fn enlists(&mut self, id: &str) {
        self.note(format!("{id} is in the crew"));
        self.chores.crew.insert(id.to_owned());
    }

    pub(crate) fn crew(&self) -> Vec<String> {
        self.chores.crew.iter().cloned().collect()
    }

    /// A batch is about to be started, or is there already. Those of the crew who are on this side are there before it,
    /// unless the clock was set: who came before is told by the time.
    pub(crate) fn begins_batch(&mut self, batch: &str, side: &str) {
        self.note(format!("{batch} is to come to everyone"));
        let crew = self
            .chores
            .crew
            .iter()
            .filter(|id| id.ends_with(side) && !self.chores.jumped);
        let seen = BatchSeen {
            crew: crew.cloned().collect(),
            began: false,
            over: false,
        };
        self.chores.batches.entry(batch.to_owned()).or_insert(seen);
    }

    /// The start of a batch was acknowledged.
    pub(crate) fn batch_began(&mut self, batch: &str) {
        if let Some(seen) = self.chores.batches.get_mut(batch) {
            seen.began = true;
        }
    }

    /// All of them, by name.
    pub(crate) fn batches(&self) -> Vec<String> {
        self.chores.batches.keys().cloned().collect()
    }

    /// A batch is over, and says how many it has come to.
    pub(crate) fn batch_is_over(&mut self, batch: &str, (matched, counted): (u64, u64)) {
        self.note(format!("{batch} is over, and came to {matched}"));
        let Some(seen) = self.chores.batches.get_mut(batch) else {
            return;
        };
        seen.over = true;
        let least = seen.crew.len() as u64;
        if matched != counted || matched < least {
            self.violation(format!("{batch} came to {matched} of {least}, and counted {counted}"));
        }
    }

    /// Those to whom a batch came.
    pub(crate) fn crew_of(&self, batch: &str) -> Vec<String> {
        let seen = self.chores.batches.get(batch);
        seen.into_iter().flat_map(|seen| seen.crew.iter().cloned()).collect()
    }

    /// One of the crew hears a notice, the so manieth.
    pub(crate) fn hears_notice(&mut self, id: &str, place: usize, notice: &Notice) {
        self.note(format!("{id} hears {notice:?}"));
        let Some(seen) = self.chores.seen.get_mut(id) else {
            return;
        };
        let twice = seen.heard.iter().position(|heard| *heard == notice.batch);
        if seen.heard.len() == place {
            seen.heard.push(notice.batch.clone());
        }
        let (before, heard) = (seen.heard[place].clone(), seen.heard.clone());
        if before != notice.batch || twice.is_some_and(|twice| twice != place) {
            self.violation(format!("{id} hears {} behind {heard:?}", notice.batch));
        }
        let told = |(batch, seen): &(&String, &BatchSeen)| {
            batch.starts_with("tell") && seen.over && seen.crew.contains(id) && !heard.contains(batch)
        };
        if let Some((batch, _)) = self.chores.batches.iter().find(told).filter(|_| notice.last) {
            let batch = batch.clone();
            self.violation(format!("{id} never heard {batch}"));
        }
    }

    /// Somebody sets the clock. A batch whose start nobody has answered yet may begin at a time before its crew came.
    pub(crate) fn clock_is_set(&mut self) {
        self.chores.jumped = true;
        for seen in self.chores.batches.values_mut().filter(|seen| !seen.began) {
            seen.crew.clear();
        }
    }

    /// The machine was off until then.
    pub(crate) fn was_off(&mut self, until_ms: u64) {
        let from = self.latest_ms;
        self.chores.off.push((from, until_ms));
    }

    /// Chores that have to begin and have not yet.
    pub(crate) fn chores_to_begin(&self) -> Vec<String> {
        self.chores.expected.iter().cloned().collect()
    }
}
