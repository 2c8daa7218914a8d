//! What the code has asked for, and what is known about it.
//!
//! The futures of the verbs and the execution that polls them share one journal. A future asks when it is first
//! polled and waits; the execution sees what was asked when the function rests, and delivers outcomes. A future that
//! is dropped takes back what it asked for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::clock::Millis;
use crate::engine::divergence::Divergence;
use crate::engine::error::Misuse;
use crate::engine::names::Names;
use crate::engine::request::Request;
use crate::location::{Location, Segment};
use crate::storage::record::{Completed, Entry, EntryKind, Failure};

/// What a delivered completion gives to the code.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The entry is complete; its record says how.
    Entry(EntryKind),
    /// The operation was ended from outside: cancelled, or out of time.
    Ended(Failure),
}

/// How far an operation that the code asked for has got.
#[derive(Debug)]
enum Progress {
    Waiting(Option<Waker>),
    Delivered(Outcome),
    Over,
}

/// An operation that the code asked for.
#[derive(Debug)]
struct Op {
    kind: &'static str,
    shielded: bool,
    progress: Progress,
}

/// Shared by the futures of a workflow and the execution that polls them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    pub(crate) fn new(journal: Journal) -> Self {
        Self(Arc::new(Mutex::new(journal)))
    }

    /// The journal. Never held while user code runs.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was asked, what is recorded, and what is to be delivered.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) names: Names,
    /// What is recorded. An entry that is not completed was begun.
    pub(crate) entries: BTreeMap<Location, Entry>,
    /// What is recorded and over: iterations that the code has left behind.
    settled: BTreeMap<Location, Entry>,
    /// The number of the newest entry.
    last_id: u64,
    /// Recorded completions that were not delivered yet, in their order.
    pub(crate) undelivered: VecDeque<Location>,
    /// Operations that the code asked for and that are not complete, in the order of asking.
    pub(crate) fresh: Vec<(Location, Request)>,
    /// Operations that were begun and whose futures were dropped.
    pub(crate) dropped: Vec<Location>,
    /// Entries that changed without being asked for: loop states, versions, joins.
    pub(crate) dirty: Vec<Location>,
    /// Histories below these locations are to be removed.
    pub(crate) trimmed: Vec<Location>,
    /// Steps that were made and dropped without ever being awaited.
    pub(crate) unawaited: Vec<String>,
    /// The first mismatch between history and code.
    pub(crate) divergence: Option<Divergence>,
    /// What the code reads as the time: when the last delivered completion was decided.
    pub(crate) now_ms: Millis,
    /// Whether something that the code has seen is not recorded yet.
    pub(crate) observed_undurable: bool,
    /// Why new operations outside a shield end at once, if they do.
    pub(crate) ended: Option<Failure>,
    ops: BTreeMap<Location, Op>,
    /// Whether the code is being polled right now: a context used elsewhere is a mistake.
    pub(crate) polling: bool,
    /// How often something that may be repeated was done at a place.
    counters: BTreeMap<Location, u64>,
    /// Recorded entries that the code has not asked for yet.
    unasked: usize,
}

impl Journal {
    /// The journal of an instance, as its history was read.
    pub(crate) fn load(names: Vec<String>, entries: Vec<(Location, Entry)>, now_ms: Millis) -> Self {
        let mut completed: Vec<_> = entries
            .iter()
            .filter_map(|(location, entry)| Some((entry.completed?.order, location.clone())))
            .collect();
        completed.sort();
        let mut journal = Self {
            names: Names::load(names),
            undelivered: completed.into_iter().map(|(_, location)| location).collect(),
            last_id: entries.iter().map(|(_, entry)| entry.id).max().unwrap_or(0),
            entries: entries.into_iter().collect(),
            now_ms,
            ..Self::default()
        };
        journal.unasked = journal
            .entries
            .keys()
            .filter(|location| !journal.is_known(location))
            .count();
        journal
    }

    /// The location of a named operation in a scope.
    pub(crate) fn locate(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        let index = self.names.index(name)?;
        Ok(scope.child(Segment::Name(index))?)
    }

    /// The location of the next operation of its kind in a scope, for operations that may be repeated.
    pub(crate) fn locate_next(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        let name = self.names.index(name)?;
        let counter = self.counters.entry(scope.child(Segment::Name(name))?).or_default();
        let number = *counter;
        *counter += 1;
        Ok(scope.child(Segment::Iteration { name, number })?)
    }

    /// Asks for an operation.
    pub(crate) fn ask(&mut self, location: &Location, request: Request, shielded: bool) -> Result<(), Misuse> {
        if !self.polling {
            return Err(Misuse::OutsideWorkflow);
        }
        let kind = request.kind();
        if let Some(first) = self.ops.get(location) {
            return Err(Misuse::NameTwice {
                path: self.names.path(location),
                first: first.kind,
                second: kind,
            });
        }
        let mut progress = Progress::Waiting(None);
        match self.entries.get(location) {
            Some(entry) if entry.kind.name() != kind => self.diverge(location, kind),
            Some(entry) if entry.completed.is_some() => {}
            recorded => match &self.ended {
                Some(failure) if recorded.is_none() && !shielded => {
                    progress = Progress::Delivered(Outcome::Ended(failure.clone()));
                }
                _ => self.fresh.push((location.clone(), request)),
            },
        }
        self.add(
            location,
            Op {
                kind,
                shielded,
                progress,
            },
        );
        Ok(())
    }

    /// Takes the outcome of an operation if it was delivered, or remembers whom to wake.
    pub(crate) fn take(&mut self, location: &Location, waker: &Waker) -> Option<Outcome> {
        let op = self.ops.get_mut(location)?;
        match std::mem::replace(&mut op.progress, Progress::Over) {
            Progress::Delivered(outcome) => Some(outcome),
            Progress::Waiting(_) => {
                op.progress = Progress::Waiting(Some(waker.clone()));
                None
            }
            Progress::Over => None,
        }
    }

    /// The future of an operation was dropped. What it stood for is cancelled, unless it was over.
    pub(crate) fn drop_op(&mut self, location: &Location) {
        let Some(op) = self.ops.get_mut(location) else {
            return;
        };
        if let Progress::Waiting(_) = std::mem::replace(&mut op.progress, Progress::Over) {
            let fresh = self.fresh.len();
            self.fresh.retain(|(asked, _)| asked != location);
            if self.fresh.len() == fresh {
                self.dropped.push(location.clone());
            }
        }
    }

    /// Delivers a completion. The code must have asked for it by now; what it has dropped since is passed over.
    pub(crate) fn deliver(&mut self, location: &Location) {
        let entry = &self.entries[location];
        if let Some(completed) = entry.completed {
            self.now_ms = self.now_ms.max(completed.at_ms);
        }
        let outcome = Outcome::Entry(entry.kind.clone());
        match (&entry.kind, self.ops.get_mut(location)) {
            (EntryKind::Cancel { .. } | EntryKind::Deadline, _) => self.end(location),
            (_, Some(op)) => deliver(op, outcome),
            (_, None) => self.diverge(location, "nothing"),
        }
    }

    /// Whether everything recorded was asked for: until then the code is on its way through its own past.
    pub(crate) fn caught_up(&self) -> bool {
        self.undelivered.is_empty() && self.unasked == 0
    }

    /// The first recorded entry that the code never asked for.
    pub(crate) fn first_unasked(&self) -> Option<Location> {
        self.entries.keys().find(|location| !self.is_known(location)).cloned()
    }

    /// Records how an operation stands that the code has asked for.
    pub(crate) fn record(&mut self, location: &Location, kind: EntryKind, completed: Option<Completed>) {
        let id = self.entries.get(location).map_or_else(
            || {
                self.last_id += 1;
                self.last_id
            },
            |entry| entry.id,
        );
        self.entries.insert(location.clone(), Entry { id, completed, kind });
        self.dirty.push(location.clone());
    }

    /// Records an entry that nothing waits for: a version, a loop, a join. It is written with the next commit.
    pub(crate) fn note(&mut self, location: &Location, kind: EntryKind) {
        self.record(location, kind, None);
    }

    /// Entries in all.
    pub(crate) fn entries_recorded(&self) -> u64 {
        (self.entries.len() + self.settled.len()) as u64
    }

    /// What was recorded since the last call, each entry once.
    pub(crate) fn take_dirty(&mut self) -> Vec<(Location, Entry)> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort();
        dirty.dedup();
        let found = |location: Location| {
            let entry = self
                .entries
                .get(&location)
                .or_else(|| self.settled.get(&location))?
                .clone();
            Some((location, entry))
        };
        dirty.into_iter().filter_map(found).collect()
    }

    /// Accounts for what is recorded at and below a location and whose code is gone.
    pub(crate) fn remove(&mut self, location: &Location) -> Result<(), Misuse> {
        self.know(location, "removed")?;
        self.settle(|at| at.segments().starts_with(location.segments()));
        Ok(())
    }

    /// Leaves the iterations of a loop behind that come before `end`.
    pub(crate) fn leave_iterations(&mut self, loop_at: &Location, name: u32, end: u64) {
        let depth = loop_at.segments().len();
        self.settle(|at| {
            at.segments().starts_with(loop_at.segments())
                && matches!(at.segments().get(depth), Some(Segment::Iteration { name: of, number }) if *of == name && *number < end)
        });
    }

    /// Removes the history at and below a location for good.
    pub(crate) fn trim(&mut self, location: &Location) {
        self.leave(location);
        let below = |at: &Location| at.segments().starts_with(location.segments());
        let gone: Vec<_> = self
            .settled
            .range(location.clone()..)
            .map(|(at, _)| at)
            .take_while(|at| below(at))
            .cloned()
            .collect();
        for at in gone {
            self.settled.remove(&at);
        }
        self.trimmed.push(location.clone());
    }

    /// Leaves everything at and below a location behind: an iteration that is over.
    pub(crate) fn leave(&mut self, location: &Location) {
        let below = |at: &Location| at.segments().starts_with(location.segments());
        let known: Vec<_> = self
            .ops
            .range(location.clone()..)
            .map(|(at, _)| at)
            .take_while(|at| below(at))
            .cloned()
            .collect();
        self.settle(below);
        for at in known {
            self.ops.remove(&at);
        }
        self.counters.retain(|at, _| !below(at));
    }

    /// Puts entries away that have nothing more to say.
    fn settle(&mut self, over: impl Fn(&Location) -> bool) {
        let gone: Vec<_> = self.entries.keys().filter(|at| over(at)).cloned().collect();
        self.undelivered.retain(|at| !over(at));
        for at in gone {
            self.unasked -= usize::from(!self.is_known(&at));
            if let Some(entry) = self.entries.remove(&at) {
                self.settled.insert(at, entry);
            }
        }
    }

    /// Notes the first mismatch between history and code.
    pub(crate) fn diverge(&mut self, location: &Location, asked: &'static str) {
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, asked));
        }
    }

    /// Begins to know an operation that is complete by itself: a version, a loop, a join.
    pub(crate) fn know(&mut self, location: &Location, kind: &'static str) -> Result<(), Misuse> {
        if !self.polling {
            return Err(Misuse::OutsideWorkflow);
        }
        if let Some(first) = self.ops.get(location) {
            return Err(Misuse::NameTwice {
                path: self.names.path(location),
                first: first.kind,
                second: kind,
            });
        }
        if self
            .entries
            .get(location)
            .is_some_and(|entry| entry.kind.name() != kind)
        {
            self.diverge(location, kind);
        }
        self.add(
            location,
            Op {
                kind,
                shielded: false,
                progress: Progress::Over,
            },
        );
        Ok(())
    }

    /// How often something was drawn in a scope before: what makes each draw differ from the last.
    pub(crate) fn draw(&mut self, scope: &Location) -> u64 {
        let drawn = self.counters.entry(scope.clone()).or_default();
        *drawn += 1;
        *drawn
    }

    fn add(&mut self, location: &Location, op: Op) {
        if self.entries.contains_key(location) {
            self.unasked -= 1;
        }
        self.ops.insert(location.clone(), op);
    }

    fn is_known(&self, location: &Location) -> bool {
        self.ops.contains_key(location)
            || matches!(
                self.entries[location].kind,
                EntryKind::Cancel { .. } | EntryKind::Deadline
            )
    }

    /// Everything outside a shield ends.
    fn end(&mut self, location: &Location) {
        let failure = match &self.entries[location].kind {
            EntryKind::Cancel { reason } => Failure::cancelled(reason),
            _ => Failure::deadline(),
        };
        let waiting = self
            .ops
            .iter_mut()
            .filter(|(_, op)| !op.shielded && matches!(op.progress, Progress::Waiting(_)));
        for (at, op) in waiting {
            deliver(op, Outcome::Ended(failure.clone()));
            self.dropped.push(at.clone());
        }
        let ops = &self.ops;
        self.fresh.retain(|(at, _)| ops.get(at).is_none_or(|op| op.shielded));
        self.ended = Some(failure);
    }
}

fn deliver(op: &mut Op, outcome: Outcome) {
    if let Progress::Waiting(waker) = &mut op.progress {
        let waker = waker.take();
        op.progress = Progress::Delivered(outcome);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
