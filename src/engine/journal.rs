//! What the code has asked for, and what is known about it.
//!
//! The futures of the verbs and the execution that polls them share one journal. A future asks when it is first
//! polled and waits; the execution sees what was asked when the function rests, and delivers outcomes. A future that
//! is dropped takes back what it asked for.
//!
//! The order of completions is also what a loop goes by that takes up a recorded state: it waits, as everyone does,
//! until replay has come to where that state was recorded.

mod children;
mod delivery;
mod events;
mod history;
mod speech;
mod taking_back;
mod undoings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::clock::Millis;
use crate::config::Bounds;
use crate::engine::bounds::Exceeded;
use crate::engine::divergence::Divergence;
use crate::engine::error::Misuse;
use crate::engine::names::Names;
use crate::engine::polling::Token;
use crate::engine::request::{Request, Until};
use crate::engine::witness::{Asked, CallSite, Witness};
use crate::ids::{InstanceId, MessageId};
use crate::limits::{ASKED_BYTES_MAX, LOCATION_DEPTH_MAX, NAMES_MAX};
use crate::location::{Location, Segment, TooDeep};
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, Entry, EntryKind, Failure};

pub(crate) use events::waits_for;
pub(crate) use speech::Said;
use taking_back::Rested;
pub(crate) use taking_back::Whole;
pub(crate) use undoings::Undoable;
use undoings::Undoings;

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
    call_site: CallSite,
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
    /// How things stood when the code rested last.
    rested: Rested,
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
    /// Children that are to be closed: nobody waits for them any more.
    pub(crate) closing: Vec<(Location, ChildState)>,
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
    /// Those that are about to, by their paths. One at a time, like everything: of two that ended together, `select!`
    /// would draw one.
    ending: BTreeSet<(String, Location)>,
    /// The place at which the last of them ended: an end has no place of its own.
    ended_at: Option<u64>,
    ops: BTreeMap<Location, Op>,
    /// Operations that wait for their outcome.
    waiting: usize,
    /// Loops, and how many of their iterations are over.
    left: BTreeMap<Location, u64>,
    /// How often something that may be repeated was done at a place.
    counters: BTreeMap<Location, u64>,
    /// Recorded entries that the code has not asked for yet.
    unasked: usize,
    undoings: Undoings,
    /// A mistake that had no result to be told in: it ends the function.
    pub(crate) misused: Option<Failure>,
    /// Whether the run is over, and what comes is another.
    is_over: bool,
    /// What the code said since the last commit.
    pub(crate) said: Vec<Said>,
    /// What it said before this place was stored when the instance was loaded.
    pub(crate) said_before: u64,
    /// How much it has said at the place where it is.
    said_here: (u64, usize),
    /// Before this place, what it says to whoever happens to listen may have been said before.
    pub(crate) silent_before: u64,
    /// What it said to whoever happens to listen.
    pub(crate) broadcasts: Vec<Payload>,
    /// Questions that were handed to the code and not answered.
    pub(crate) questions: BTreeSet<MessageId>,
    /// Whether something was recorded that the code would not come to again by itself.
    pub(crate) urgent: bool,
    /// Bytes of what is recorded, about.
    pub(crate) bytes: u64,
    pub(crate) bounds: Bounds,
    /// Bytes that a row of this instance has at least.
    pub(crate) row_bytes: usize,
    /// Operations that were begun since the last commit, and have rows.
    pub(crate) begun: usize,
    /// The names under which values are published.
    pub(crate) published: BTreeSet<String>,
    /// A bound that the code has run into: it goes no further.
    pub(crate) exceeded: Option<Exceeded>,
    /// What the code asked for last.
    pub(crate) last_asked: Option<Location>,
    /// Who sees what the code asks for, and as which run of which instance.
    pub(crate) witness: Option<(Arc<dyn Witness>, InstanceId, u32)>,
}

/// What a row has beside its key's prefix and its own words: the rest of the key, and an envelope.
pub(crate) const ROW_BYTES: usize = 64;

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
            rested: Rested::default(),
            undelivered: completed.into_iter().map(|(_, location)| location).collect(),
            seen: 0,
            durable: completions,
            loaded: completions,
            marks: Vec::new(),
            fresh: Vec::new(),
            dropped: Vec::new(),
            closing: Vec::new(),
            dirty: Vec::new(),
            trimmed: Vec::new(),
            forgotten: Vec::new(),
            unawaited: Vec::new(),
            divergence: None,
            now_ms,
            observed_undurable: false,
            ended: None,
            ending: BTreeSet::new(),
            ended_at: None,
            ops: BTreeMap::new(),
            waiting: 0,
            left: BTreeMap::new(),
            counters: BTreeMap::new(),
            unasked: 0,
            undoings: Undoings::default(),
            misused: None,
            is_over: false,
            said: Vec::new(),
            said_before: 0,
            said_here: (0, 0),
            silent_before: 0,
            broadcasts: Vec::new(),
            questions: BTreeSet::new(),
            urgent: false,
            bytes: 0,
            bounds: Bounds::default(),
            row_bytes: ROW_BYTES,
            begun: 0,
            published: BTreeSet::new(),
            exceeded: None,
            last_asked: None,
            witness: None,
        };
        journal.bytes = journal.entries.values().map(|entry| entry.kind.bytes() as u64).sum();
        let unasked = journal.entries.keys().filter(|location| !journal.is_known(location));
        journal.unasked = unasked.count();
        journal
    }

    /// Begins to number new entries where no run before this one got to: after a reset the numbers of entries that are
    /// gone are not given again, so what was meant for them finds nobody.
    pub(crate) fn number_for(&mut self, run: u32) {
        let first = u64::from(run.saturating_sub(1)) << 32;
        self.last_id = self.last_id.max(first);
    }

    /// The run in which an entry with this number began.
    pub(crate) fn began_in(entry: u64) -> u32 {
        u32::try_from(entry >> 32).unwrap_or(u32::MAX).saturating_add(1)
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
        let index = self.name(name)?;
        Ok(scope.child(Segment::Name(index))?)
    }

    /// The location of the next operation of its kind in a scope, for operations that may be repeated.
    pub(crate) fn locate_next(&mut self, scope: &Location, name: &str) -> Result<Location, Misuse> {
        self.check_use(scope)?;
        let name = self.name(name)?;
        let counter = self.counters.entry(scope.child(Segment::Name(name))?).or_default();
        let number = *counter;
        *counter += 1;
        Ok(scope.child(Segment::Iteration { name, number })?)
    }

    /// The index of a name that the code uses. Too many of them end the function.
    fn name(&mut self, name: &str) -> Result<u32, Misuse> {
        if self.names.find(name).is_none() {
            if self.names.all().len() >= NAMES_MAX {
                self.refuse(Exceeded::Names { max: NAMES_MAX })?;
            }
            self.has_room_at_once(name.len())?;
        }
        Ok(self.names.index(name)?)
    }

    /// Whether what the code has asked for since the last commit, with so much more, fits into one.
    fn has_room_at_once(&mut self, more: usize) -> Result<(), Misuse> {
        let (names, bytes) = self.names.new_ones();
        let rows = names + self.begun + 1;
        if rows * self.row_bytes + bytes + more > ASKED_BYTES_MAX {
            self.refuse(Exceeded::AtOnce { max: ASKED_BYTES_MAX })?;
        }
        Ok(())
    }

    /// Refuses what would be too much, and ends the function when it rests, whatever it makes of the refusal.
    pub(crate) fn refuse(&mut self, exceeded: Exceeded) -> Result<(), Misuse> {
        self.within(Err(exceeded));
        Err(exceeded.into())
    }

    /// Asks for an operation.
    pub(crate) fn ask(
        &mut self,
        location: &Location,
        mut request: Request,
        shielded: bool,
        call_site: CallSite,
    ) -> Result<(), Misuse> {
        let kind = request.kind();
        self.refuse_second(location, kind)?;
        if self.witness.is_some() {
            let (detail, payload) = request.detail();
            self.show(location, kind, detail, payload, call_site);
        }
        self.last_asked = Some(location.clone());
        if let Some(undo) = request.take_undo() {
            self.register(location, undo)?;
        }
        let recorded = self.entries.contains_key(location);
        // A step is recorded when it has ended, and as many of them at once as fit.
        if !recorded && !matches!(request, Request::Step(_)) {
            self.has_room_at_once(0)?;
            self.begun += 1;
        }
        let progress = Progress::Waiting(None);
        let has_room = recorded || self.has_room();
        match recorded.then(|| &self.entries[location]) {
            Some(entry) if entry.kind.name() != kind => self.diverge_at(location, kind, Some(call_site)),
            Some(entry) if !request.takes(entry) => {
                let asked = format!("{kind}, {}", request.detail().0);
                self.diverge_at(location, &asked, Some(call_site));
            }
            Some(entry) if entry.completed.is_some() => {}
            None if self.ended.is_some() && !shielded => self.end_soon(location),
            None if !has_room => {}
            _ => self.fresh.push((location.clone(), request)),
        }
        let op = Op {
            kind,
            shielded,
            progress,
            call_site,
        };
        self.add_known(location, op, recorded);
        Ok(())
    }

    /// Gives an operation that was asked for before a time at which it gives up.
    pub(crate) fn limit(&mut self, location: &Location, until: Until) {
        let waits = |op: &Op| matches!(op.progress, Progress::Waiting(_));
        let ends = (self.names.path(location), location.clone());
        if self.ops.get(location).is_some_and(waits) && !self.ending.contains(&ends) {
            self.fresh.push((location.clone(), Request::Limit(until)));
        }
    }

    /// Whether the history may have another entry, beside those that are asked for already. A function that asks for
    /// more gets no answer and is ended: an error that code could catch would come at another place after the bounds
    /// were changed.
    fn has_room(&mut self) -> bool {
        let entries = self.entries_recorded() + self.waiting as u64;
        let checked = self.bounds.check_history(entries, self.bytes);
        self.within(checked)
    }

    /// Notes the first bound that the code runs into.
    pub(crate) fn within(&mut self, checked: Result<(), Exceeded>) -> bool {
        let within = checked.is_ok();
        self.exceeded = self.exceeded.or(checked.err());
        within
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
            // What is recorded may have been begun before what is fresh about it.
            if self.fresh.len() == fresh || self.entries.contains_key(location) {
                self.dropped.push(location.clone());
            }
            self.close_child(location);
        }
    }

    /// Whether everything that was recorded when the instance was loaded has been asked for and delivered: until then
    /// the code is on its way through its own past.
    pub(crate) fn caught_up(&self) -> bool {
        self.seen >= self.loaded && self.unasked == 0
    }

    /// Whether what the code says and logs here was said and logged before.
    pub(crate) fn is_silent(&self) -> bool {
        self.seen < self.silent_before
    }

    /// Whether the code waits for any operation at all.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// What the code waits for: where, what, and since which line.
    #[cfg(feature = "testing")]
    pub(crate) fn waits_for(&self) -> Vec<(String, &'static str, CallSite)> {
        let waiting = self
            .ops
            .iter()
            .filter(|(_, op)| matches!(op.progress, Progress::Waiting(_)));
        waiting
            .map(|(at, op)| (self.names.path(at), op.kind, op.call_site))
            .collect()
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
        let call_site = self.ops.get(location).map(|op| op.call_site);
        self.diverge_at(location, asked, call_site);
    }

    fn diverge_at(&mut self, location: &Location, asked: &str, call_site: Option<CallSite>) {
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, Some(asked.to_owned()), call_site));
        }
    }

    /// Shows the witness what the code asks for.
    fn show(
        &self,
        location: &Location,
        kind: &'static str,
        detail: String,
        payload: Option<Payload>,
        call_site: CallSite,
    ) {
        if let Some((witness, instance, run)) = &self.witness {
            witness.asked(Asked {
                instance: instance.clone(),
                run: *run,
                path: self.names.path(location),
                kind,
                detail,
                payload,
                call_site,
            });
        }
    }

    /// Nobody asked for what is recorded here. What was asked for and is not recorded probably stands in its place.
    fn diverge_unasked(&mut self, location: &Location) {
        let unrecorded = self.fresh.iter().find(|(at, _)| !self.entries.contains_key(at));
        let instead = unrecorded.map(|(at, request)| format!("{} `{}`", request.kind(), self.names.path(at)));
        let call_site = unrecorded.and_then(|(at, _)| self.ops.get(at)).map(|op| op.call_site);
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, instead, call_site));
        }
    }

    /// Begins to know an operation that is complete by itself: a version, a loop, a join.
    pub(crate) fn know(&mut self, location: &Location, kind: &'static str, call_site: CallSite) -> Result<(), Misuse> {
        self.refuse_second(location, kind)?;
        self.show(location, kind, String::new(), None, call_site);
        if self
            .entries
            .get(location)
            .is_some_and(|entry| entry.kind.name() != kind)
        {
            self.diverge_at(location, kind, Some(call_site));
        }
        self.add(
            location,
            Op {
                kind,
                shielded: false,
                progress: Progress::Over,
                call_site,
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
        let recorded = self.entries.contains_key(location);
        self.add_known(location, op, recorded);
    }

    fn add_known(&mut self, location: &Location, op: Op, recorded: bool) {
        self.unasked -= usize::from(recorded);
        self.waiting += usize::from(matches!(op.progress, Progress::Waiting(_)));
        self.ops.insert(location.clone(), op);
    }

    fn is_known(&self, location: &Location) -> bool {
        self.ops.contains_key(location)
            || matches!(
                self.entries[location].kind,
                EntryKind::Cancel { .. } | EntryKind::Deadline | EntryKind::Rollback(_) | EntryKind::Compensating(_)
            )
    }
}
