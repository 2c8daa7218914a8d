//! What the code has asked for, and what is known about it.
//!
//! The futures of the verbs and the execution that polls them share one journal. A future asks when it is first
//! polled and waits; the execution sees what was asked when the function rests, and delivers outcomes. A future that
//! is dropped takes back what it asked for.
//!
//! The order of completions is also what a loop goes by that takes up a recorded state: it waits, as everyone does,
//! until replay has come to where that state was recorded.

mod delivery;
mod history;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::clock::Millis;
use crate::engine::divergence::Divergence;
use crate::engine::error::Misuse;
use crate::engine::names::Names;
use crate::engine::polling::Token;
use crate::engine::request::Request;
use crate::limits::LOCATION_DEPTH_MAX;
use crate::location::{Location, Segment, TooDeep};
use crate::storage::record::{Entry, EntryKind, Failure};

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
#[derive(Debug, Clone)]
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
#[derive(Debug)]
pub(crate) struct Journal {
    /// Whose journal it is: a context that is used elsewhere is a mistake.
    token: Token,
    pub(crate) names: Names,
    /// What is recorded. An entry that is not completed was begun.
    pub(crate) entries: BTreeMap<Location, Entry>,
    /// What is recorded and over: iterations that the code has left behind.
    settled: BTreeMap<Location, Entry>,
    /// The number of the newest entry.
    last_id: u64,
    /// Recorded completions that were not delivered yet, in their order.
    undelivered: VecDeque<Location>,
    /// Completions before this place are past.
    pub(crate) seen: u64,
    /// Completions before this place are durable.
    durable: u64,
    /// Completions before this place were there when the instance was loaded: getting past them is replay.
    loaded: u64,
    /// Loops that wait for replay to come to this place.
    marks: Vec<(u64, Waker)>,
    /// Operations that the code asked for and that are not complete, in the order of asking.
    pub(crate) fresh: Vec<(Location, Request)>,
    /// Operations that were begun and whose futures were dropped.
    pub(crate) dropped: Vec<Location>,
    /// Entries that changed without being asked for: loop states, versions, joins.
    pub(crate) dirty: Vec<Location>,
    /// Histories below these locations are to be removed.
    pub(crate) trimmed: Vec<Location>,
    /// Entries that were in them.
    pub(crate) forgotten: Vec<u64>,
    /// Steps that were made and dropped without ever being awaited.
    pub(crate) unawaited: Vec<String>,
    /// The first mismatch between history and code.
    pub(crate) divergence: Option<Divergence>,
    /// What the code reads as the time: when the last delivered completion was decided.
    pub(crate) now_ms: Millis,
    /// Whether something that the code has seen is not recorded yet.
    pub(crate) observed_undurable: bool,
    /// Why operations outside a shield end, if they do.
    pub(crate) ended: Option<Failure>,
    /// Those that are about to. One at a time, like everything: of two that ended together, `select!` would draw one.
    ending: Vec<Location>,
    ops: BTreeMap<Location, Op>,
    /// Operations that wait for their outcome.
    waiting: usize,
    /// Loops, and how many of their iterations are over.
    left: BTreeMap<Location, u64>,
    /// How often something that may be repeated was done at a place.
    counters: BTreeMap<Location, u64>,
    /// Recorded entries that the code has not asked for yet.
    unasked: usize,
}

impl Journal {
    /// The journal of an instance, as its history was read: with `completions` of which it has seen none.
    pub(crate) fn load(names: Vec<String>, entries: Vec<(Location, Entry)>, completions: u64, now_ms: Millis) -> Self {
        let mut completed: Vec<_> = entries
            .iter()
            .filter_map(|(location, entry)| Some((entry.completed?.order, location.clone())))
            .collect();
        completed.sort();
        let last_id = entries.iter().map(|(_, entry)| entry.id).max().unwrap_or(0);
        let mut journal = Self {
            token: Token::new(),
            names: Names::load(names),
            entries: entries.into_iter().collect(),
            settled: BTreeMap::new(),
            last_id,
            undelivered: completed.into_iter().map(|(_, location)| location).collect(),
            seen: 0,
            durable: completions,
            loaded: completions,
            marks: Vec::new(),
            fresh: Vec::new(),
            dropped: Vec::new(),
            dirty: Vec::new(),
            trimmed: Vec::new(),
            forgotten: Vec::new(),
            unawaited: Vec::new(),
            divergence: None,
            now_ms,
            observed_undurable: false,
            ended: None,
            ending: Vec::new(),
            ops: BTreeMap::new(),
            waiting: 0,
            left: BTreeMap::new(),
            counters: BTreeMap::new(),
            unasked: 0,
        };
        let unasked = journal.entries.keys().filter(|location| !journal.is_known(location));
        journal.unasked = unasked.count();
        journal
    }

    /// Whose journal it is.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// A context can be used by the function that was called with it, while that is being polled, and the context of
    /// an iteration until the iteration is over.
    fn check_use(&self, scope: &Location) -> Result<(), Misuse> {
        if !self.token.is_polled_here() {
            return Err(Misuse::OutsideWorkflow);
        }
        if scope.segments().len() >= LOCATION_DEPTH_MAX {
            return Err(TooDeep.into());
        }
        if self.left.is_empty() {
            return Ok(());
        }
        for (depth, segment) in scope.segments().iter().enumerate() {
            let Segment::Iteration { number, .. } = segment else {
                continue;
            };
            let loop_at = Location::try_from(scope.segments()[..depth].to_vec())?;
            if self.left.get(&loop_at).is_some_and(|over| number < over) {
                return Err(Misuse::OutlivedIteration);
            }
        }
        Ok(())
    }

    /// The location of a named operation in a scope.
    pub(crate) fn locate(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        self.check_use(scope)?;
        let index = self.names.index(name)?;
        Ok(scope.child(Segment::Name(index))?)
    }

    /// The location of the next operation of its kind in a scope, for operations that may be repeated.
    pub(crate) fn locate_next(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        self.check_use(scope)?;
        let name = self.names.index(name)?;
        let counter = self.counters.entry(scope.child(Segment::Name(name))?).or_default();
        let number = *counter;
        *counter += 1;
        Ok(scope.child(Segment::Iteration { name, number })?)
    }

    /// Asks for an operation.
    pub(crate) fn ask(&mut self, location: &Location, request: Request, shielded: bool) -> Result<(), Misuse> {
        let kind = request.kind();
        self.refuse_second(location, kind)?;
        let progress = Progress::Waiting(None);
        match self.entries.get(location) {
            Some(entry) if entry.kind.name() != kind => self.diverge(location, kind),
            Some(entry) if entry.completed.is_some() => {}
            None if self.ended.is_some() && !shielded => self.ending.push(location.clone()),
            _ => self.fresh.push((location.clone(), request)),
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

    fn refuse_second(&self, location: &Location, second: &'static str) -> Result<(), Misuse> {
        let Some(first) = self.ops.get(location) else {
            return Ok(());
        };
        Err(Misuse::NameTwice {
            path: self.names.path(location),
            first: first.kind,
            second,
        })
    }

    /// Takes the outcome of an operation if it was delivered, or remembers whom to wake.
    pub(crate) fn take(&mut self, location: &Location, waker: &Waker) -> Option<Outcome> {
        let Some(op) = self.ops.get_mut(location) else {
            return Some(Outcome::Ended(Misuse::OutlivedIteration.into()));
        };
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
            self.waiting -= 1;
            let fresh = self.fresh.len();
            self.fresh.retain(|(asked, _)| asked != location);
            if self.fresh.len() == fresh {
                self.dropped.push(location.clone());
            }
        }
    }

    /// Whether everything that was recorded when the instance was loaded has been asked for and delivered: until then
    /// the code is on its way through its own past.
    pub(crate) fn caught_up(&self) -> bool {
        self.seen >= self.loaded && self.unasked == 0
    }

    /// Whether the code waits for any operation at all.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The code came to its end, or to where nothing more is recorded: whatever it did not ask for was for other code.
    pub(crate) fn expect_nothing_unasked(&mut self, ended: bool) {
        if self.unasked == 0 {
            return;
        }
        let unknown = |location: &&Location| !self.is_known(location);
        let first = self.undelivered.iter().find(unknown).cloned();
        match first.or_else(|| self.first_unasked()) {
            Some(left_over) if ended => self.diverge(&left_over, "end"),
            Some(left_over) => self.diverge_unasked(&left_over),
            None => {}
        }
    }

    /// The first recorded entry that the code never asked for.
    fn first_unasked(&self) -> Option<Location> {
        self.entries.keys().find(|location| !self.is_known(location)).cloned()
    }

    /// Notes the first mismatch between history and code.
    pub(crate) fn diverge(&mut self, location: &Location, asked: &str) {
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, Some(asked.to_owned())));
        }
    }

    /// Nobody asked for what is recorded here. What was asked for and is not recorded probably stands in its place.
    fn diverge_unasked(&mut self, location: &Location) {
        let unrecorded = self.fresh.iter().find(|(at, _)| !self.entries.contains_key(at));
        let instead = unrecorded.map(|(at, request)| format!("{} `{}`", request.kind(), self.names.path(at)));
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, instead));
        }
    }

    /// Begins to know an operation that is complete by itself: a version, a loop, a join.
    pub(crate) fn know(&mut self, location: &Location, kind: &'static str) -> Result<(), Misuse> {
        self.refuse_second(location, kind)?;
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
        self.waiting += usize::from(matches!(op.progress, Progress::Waiting(_)));
        self.ops.insert(location.clone(), op);
    }

    fn is_known(&self, location: &Location) -> bool {
        self.ops.contains_key(location)
            || matches!(
                self.entries[location].kind,
                EntryKind::Cancel { .. } | EntryKind::Deadline
            )
    }
}
