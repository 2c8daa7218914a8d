//! The outside observer: what code, steps and clients saw, and what they must never see.
//!
//! It knows nothing of stores and engines. What was seen once must be seen again; what was seen to be over must not
//! begin again. Everything is in one thread, so it lies in a thread-local, where functions without an environment
//! find it. A violation is noted and not raised: a panic in a workflow would only be one more fault.

mod chores;
mod outside;
mod promised;
mod renewal;
mod said;
mod steps;
mod trials;
mod waits;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use everstep::storage::record::Status;
use serde::{Deserialize, Serialize};

use super::interpreter::News;
use super::program::Program;
use crate::chance::Chance;

pub(crate) use chores::Rules;
pub(crate) use outside::UNANSWERED;
use promised::{Limit, ToEnd};

/// How many events before a violation are told.
const TOLD_MAX: usize = 400;

/// How often a disk is written to, and a clock looked at, before somebody is said to go round in circles: many times what
/// the busiest seeds come to.
const COMMITS_MAX: u64 = 5_000;
const LOOKS_MAX: u64 = 500_000;

/// A place in the program of an instance, all the way down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) instance: String,
    pub(crate) path: String,
}

impl Place {
    /// The same place in an earlier run, the latest first.
    fn before(&self) -> impl Iterator<Item = Self> {
        let mut parts = self.path.splitn(3, '/');
        let (id, run, rest) = (parts.next(), parts.next(), parts.next());
        let run: u32 = run.and_then(|run| run.parse().ok()).unwrap_or(0);
        let (id, rest) = (id.unwrap_or_default().to_owned(), rest.unwrap_or_default().to_owned());
        let instance = self.instance.clone();
        (1..run).rev().map(move |run| Self {
            instance: instance.clone(),
            path: format!("{id}/{run}/{rest}"),
        })
    }
}

#[derive(Debug, Default)]
struct StepSeen {
    executions: Vec<String>,
    key: Option<String>,
    result: Option<Result<String, String>>,
    undo: UndoSeen,
    /// What attempts have said of how far they are.
    progress: BTreeSet<String>,
    /// How many steps the code had asked for with this one.
    asked: u64,
    /// When the code asked for it first.
    first: Moment,
}

/// When something happened first.
#[derive(Debug, Default, Clone, Copy)]
struct Moment {
    /// Behind so many events.
    events: usize,
    /// The instance had run out of time.
    late: bool,
}

/// The undoing of a step.
#[derive(Debug, Default)]
struct UndoSeen {
    /// The code had seen the result of the step when so many commits were made: from then on it is to be undone.
    owed_since: Option<u64>,
    begun: bool,
    done: bool,
}

#[derive(Debug)]
struct SleepSeen {
    takes_ms: u64,
    /// The earliest time at which the code was seen to begin it.
    begun_ms: u64,
    /// The latest time that the clock has shown since.
    shown_ms: u64,
    woken: bool,
    first: Moment,
}

/// An instance as its callers and its code have seen it.
#[derive(Debug, Default)]
pub(crate) struct InstanceSeen {
    /// Starts that were tried.
    pub(crate) offered: bool,
    /// A start was acknowledged.
    pub(crate) started: bool,
    /// The program that it was begun with, as an acknowledgement said.
    pub(crate) created: Option<u32>,
    variant: Option<u32>,
    /// What its code returned; another one may follow as long as nobody has seen it.
    returned: Vec<Vec<String>>,
    /// Its code, as it runs now, has caught that it is to end: what it returns is dropped.
    told_to_end: bool,
    /// Its code failed in this run, or failed again after a crash.
    failed_in: Option<u32>,
    run: u32,
    /// Somebody asked it to end, or ended it.
    pub(crate) cancel_asked: bool,
    /// Resumptions that were asked for, and those that were answered.
    pub(crate) resumes: (u64, u64),
    held: bool,
    pub(crate) ended: Option<Status>,
    result: Option<Result<Vec<String>, String>>,
    /// Its parent was told that it is on its way.
    pub(crate) expected: bool,
    /// Another run was asked for so often, and so many of those have not been answered.
    pub(crate) renewals: u64,
    renewing: u32,
    /// Somebody deletes it, and it was deleted.
    pub(crate) vanishing: bool,
    pub(crate) deleted: bool,
    /// The earliest time at which it may run out of time.
    deadline_ms: Option<u64>,
    limit: Limit,
    /// The earliest time at which it may begin.
    begins_ms: Option<u64>,
    said: said::Said,
    /// It was acknowledged that it is to end.
    to_end: Option<ToEnd>,
    /// What its code has said for callers to ask for.
    set: BTreeSet<String>,
    /// Steps that its code has asked for.
    asked: u64,
    /// The last of them that has run, and that waits until what the code has seen is stored.
    followed: u64,
    /// Messages by id: tried, and acknowledged.
    pub(crate) messages: BTreeMap<String, MessageSeen>,
}

#[derive(Debug, Default)]
pub(crate) struct MessageSeen {
    pub(crate) acknowledged: bool,
    pub(crate) taken_at: Option<String>,
    /// Steps that the code had asked for when it was given it. The code is given a message before that is stored: only
    /// what it asks for afterwards, and what then runs, shows that it is.
    asked: u64,
    /// It was taken once, whatever became of that.
    pub(crate) was_taken: bool,
    /// It was tried first behind so many events.
    pub(crate) tried_at: usize,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) chance: Chance,
    pub(crate) trace: Vec<String>,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    pub(crate) instances: BTreeMap<String, InstanceSeen>,
    now_ms: u64,
    executions: u64,
    pub(crate) commits: u64,
    /// How often the clock was looked at.
    looks: u64,
    /// How many commits are too many.
    pub(crate) commits_max: u64,
    steps: BTreeMap<Place, StepSeen>,
    sleeps: BTreeMap<Place, SleepSeen>,
    /// What was taken at a place, and how many steps the code had asked for then.
    receives: BTreeMap<Place, (Vec<String>, u64)>,
    children: BTreeMap<Place, Result<Vec<String>, String>>,
    /// What each place bore.
    births: BTreeMap<String, String>,
    /// The latest version of the code, which grows with every life.
    pub(crate) latest: u32,
    versions: BTreeMap<Place, VersionSeen>,
    /// Promises, by token.
    promises: BTreeMap<String, outside::PromiseSeen>,
    /// Answers that were given, and the one that was heard, by question.
    answers: BTreeMap<String, outside::AnswerSeen>,
    events: BTreeMap<String, outside::EventSeen>,
    heard: BTreeMap<Place, Option<String>>,
    /// Ids that the code has drawn.
    uuids: BTreeMap<Place, String>,
    trials: BTreeMap<String, trials::TrialSeen>,
    chores: chores::Chores,
    /// The latest time that the clock has ever shown.
    latest_ms: u64,
    /// The newest epoch that wrote to a shard.
    epochs: BTreeMap<u16, u64>,
    violations: Vec<String>,
}

/// A gate that code came to.
#[derive(Debug)]
struct VersionSeen {
    version: u32,
    /// Something was done because of it.
    firm: bool,
}

thread_local! {
    static LEDGER: RefCell<Option<Ledger>> = const { RefCell::new(None) };
}

/// Does something with the ledger of this thread's simulation.
pub(crate) fn with<T>(act: impl FnOnce(&mut Ledger) -> T) -> T {
    LEDGER.with_borrow_mut(|ledger| act(ledger.as_mut().expect("a simulation runs in this thread")))
}

/// Begins a ledger.
pub(crate) fn open(chance: Chance) {
    LEDGER.replace(Some(Ledger {
        chance,
        trace: Vec::new(),
        calm: false,
        instances: BTreeMap::new(),
        now_ms: 0,
        executions: 0,
        commits: 0,
        looks: 0,
        commits_max: COMMITS_MAX,
        steps: BTreeMap::new(),
        sleeps: BTreeMap::new(),
        receives: BTreeMap::new(),
        children: BTreeMap::new(),
        births: BTreeMap::new(),
        latest: 0,
        versions: BTreeMap::new(),
        promises: BTreeMap::new(),
        answers: BTreeMap::new(),
        events: BTreeMap::new(),
        heard: BTreeMap::new(),
        uuids: BTreeMap::new(),
        trials: BTreeMap::new(),
        chores: chores::Chores::default(),
        latest_ms: 0,
        epochs: BTreeMap::new(),
        violations: Vec::new(),
    }));
}

impl Ledger {
    pub(crate) fn note(&mut self, what: impl std::fmt::Display) {
        let line = format!("{} {what}", self.now_ms);
        self.trace.push(line);
    }

    pub(crate) fn violation(&mut self, what: impl std::fmt::Display) {
        self.note(format!("VIOLATION {what}"));
        self.violations.push(what.to_string());
    }

    /// What was seen that must not be, and what came before it.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        if self.violations.is_empty() {
            return Ok(());
        }
        let from = self.trace.len().saturating_sub(TOLD_MAX);
        Err(format!(
            "{}\n{}",
            self.trace[from..].join("\n"),
            self.violations.join("\n")
        ))
    }

    pub(crate) fn instance(&mut self, id: &str) -> &mut InstanceSeen {
        self.instances.entry(id.to_owned()).or_default()
    }

    /// A commit is made.
    pub(crate) fn commits(&mut self, what: impl std::fmt::Display) {
        self.commits += 1;
        self.note(what);
    }

    /// Whether somebody goes round in circles: everything that is drawn comes to its end long before.
    pub(crate) fn goes_round(&mut self) -> bool {
        let (commits, looks) = (self.commits, self.looks);
        let round = commits > self.commits_max || looks > LOOKS_MAX;
        if round && self.violations.is_empty() {
            self.violation(format!(
                "somebody goes round in circles: {commits} commits, {looks} looks at the clock"
            ));
        }
        round
    }

    /// The clock showed this.
    pub(crate) fn ticks(&mut self, now_ms: u64) {
        self.looks += 1;
        self.now_ms = now_ms;
        self.latest_ms = self.latest_ms.max(now_ms);
        for sleep in self.sleeps.values_mut().filter(|sleep| !sleep.woken) {
            sleep.shown_ms = sleep.shown_ms.max(now_ms);
        }
    }

    /// The code of an instance is called.
    pub(crate) fn begins(&mut self, id: &str, run: u32, program: &Program) {
        let variant = program.variant;
        self.note(format!("{id} runs program {variant}, run {run}"));
        if let Some(place) = &program.born {
            self.is_born(id, place, program.closable);
        }
        if self.instance(id).vanishing && run < self.instance(id).run.max(2) && self.instance(id).ended.is_some() {
            // It was deleted, somebody else has started it again, and neither was told yet.
            self.forget(id);
        }
        self.takes_back(id);
        let seen = self.instance(id);
        seen.told_to_end = false;
        seen.started = true;
        let before = *seen.variant.get_or_insert(variant);
        self.has_begun(id);
        self.says_anew(id, run);
        let seen = self.instance(id);
        let created = seen.created.unwrap_or(variant);
        let run_before = std::mem::replace(&mut seen.run, run);
        if before != variant || created != variant {
            self.violation(format!("{id} runs program {variant}, not {before} or {created}"));
        }
        if run < run_before {
            self.violation(format!("{id} is in run {run} after run {run_before}"));
        }
        if !self.instance(id).offered {
            self.violation(format!("{id} runs and nobody started it"));
        }
        if let Some(status) = self.instance(id).ended {
            self.violation(format!("{id} runs again though it was seen to be {status}"));
        }
    }

    /// The code of an instance returned.
    pub(crate) fn ends(&mut self, id: &str, run: u32, outcome: &everstep::Result<Vec<String>>) {
        self.note(format!("{id} returns {outcome:?}"));
        let seen = self.instance(id);
        match outcome {
            Ok(_) if seen.told_to_end => {}
            Ok(output) => seen.returned.push(output.clone()),
            Err(_) => seen.failed_in = Some(run),
        }
    }

    /// The code of an instance has caught that it is to end.
    pub(crate) fn hears_that_it_ends(&mut self, id: &str) {
        self.note(format!("{id} goes on although it is to end"));
        self.instance(id).told_to_end = true;
    }

    /// A child's code runs.
    fn is_born(&mut self, id: &str, place: &str, closable: bool) {
        let seen = self.instance(id);
        seen.offered = true;
        // When nobody waits for it any more.
        seen.cancel_asked |= closable;
        let before = self
            .births
            .entry(place.to_owned())
            .or_insert_with(|| id.to_owned())
            .clone();
        if before != id {
            self.violation(format!("{place} bore {before} and {id}"));
        }
    }

    /// The code was told that its child is on its way.
    pub(crate) fn expects(&mut self, parent: &str, id: &str, closable: bool) {
        self.note(format!("{id} is on its way"));
        // A run that goes on from another one comes by children again that were closed, and drops them again.
        let anew = self.instance(parent).renewals > 0;
        let seen = self.instance(id);
        seen.offered = true;
        seen.expected |= !anew;
        seen.cancel_asked |= closable;
    }

    /// The code behind a child saw its end.
    pub(crate) fn saw_child(&mut self, place: &Place, result: Result<&Vec<String>, String>) {
        let result = result.cloned();
        self.note(format!("the child of {} ended for it with {result:?}", place.path));
        let before = self
            .children
            .entry(place.clone())
            .or_insert_with(|| result.clone())
            .clone();
        if before != result {
            self.violation(format!(
                "the child of {} had {before:?} and now has {result:?}",
                place.path
            ));
        }
        if matches!(&result, Ok(output) if !self.instances.values().any(|seen| seen.returned.contains(output))) {
            self.violation(format!("the child of {} never returned {result:?}", place.path));
        }
    }

    /// An instance is held; nothing of it may begin until somebody asks for that.
    pub(crate) fn is_held(&mut self, id: &str, held: bool) {
        self.note(format!("{id} is held: {held}"));
        self.instance(id).held = held;
    }

    /// The code sends a message to another instance.
    pub(crate) fn tells(&mut self, news: &News) {
        self.instance(&news.to).messages.entry(news.id()).or_default();
    }

    /// A caller saw a status.
    pub(crate) fn saw_status(&mut self, id: &str, status: Status) {
        self.note(format!("{id} is {status}"));
        let ended = self.instance(id).ended;
        if let Some(before) = ended.filter(|before| *before != status) {
            self.violation(format!("{id} was {before} for good and now is {status}"));
        }
        let asked = self.instance(id).cancel_asked;
        if matches!(status, Status::Cancelled | Status::Terminated) && !asked {
            self.violation(format!("{id} is {status} and nobody asked for that"));
        }
        if status.is_terminal() && self.instance(id).renewing == 0 {
            self.instance(id).ended = Some(status);
        }
        if matches!(status, Status::Stuck | Status::Parked | Status::Quarantined) {
            self.violation(format!("{id} is {status}"));
        }
        if status == Status::Compensated
            && let Some(place) = self.not_undone(id)
        {
            self.violation(format!("{id} is compensated but {place} was not undone"));
        }
    }

    /// A caller saw the result.
    pub(crate) fn saw_end(&mut self, id: &str, result: &Result<Vec<String>, String>) {
        self.note(format!("{id} ended with {result:?}"));
        let seen = self.instance(id);
        let unsaid = match result {
            Ok(output) => !seen.returned.contains(output),
            Err(_) => seen.failed_in.is_none() && !seen.cancel_asked && seen.deadline_ms.is_none(),
        };
        let before = match seen.renewing {
            0 => seen.result.get_or_insert_with(|| result.clone()).clone(),
            _ => result.clone(),
        };
        if unsaid {
            self.violation(format!("{id} has a result that its code never returned: {result:?}"));
        }
        if before != *result {
            self.violation(format!("{id} had {before:?} and now has {result:?}"));
        }
    }
}
