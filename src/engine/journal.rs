//! What the code has asked for, and what is known about it.
//!
//! The futures of the verbs and the execution that polls them share one journal. A future asks when it is first
//! polled and waits; the execution sees what was asked when the function rests, and delivers outcomes. A future that
//! is dropped takes back what it asked for.
//!
//! The order of completions is also what a loop goes by that takes up a recorded state: it waits, as everyone does,
//! until replay has come to where that state was recorded.
//!
//! This file has the journal itself; what is done with it stands in the files below, by noun.

mod asking;
mod children;
mod delivery;
mod events;
mod gates;
mod gathered;
mod history;
mod iterations;
mod mismatch;
mod places;
mod rehearsal;
mod room;
mod shared;
mod speech;
mod taking_back;
mod undoings;
mod unread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::clock::Millis;
use crate::config::Bounds;
use crate::engine::bounds::Exceeded;
use crate::engine::divergence::Divergence;
use crate::engine::names::Names;
use crate::engine::polling::Token;
use crate::engine::request::Request;
use crate::engine::witness::{CallSite, Witness};
use crate::ids::{InstanceId, MessageId};
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, Entry, EntryKind, Failure, Message, Ran};

pub(crate) use events::Looked;
pub(crate) use events::{concerns, is_given_up, is_unseen, unseen, waits_for};
use gates::Gates;
use gathered::Gathered;
pub(crate) use iterations::{Again, poll_inside};
use shared::Buried;
pub(crate) use shared::SharedJournal;
pub(crate) use speech::Said;
use taking_back::Rested;
pub(crate) use taking_back::Whole;
pub(crate) use undoings::Undoable;
use undoings::Undoings;
pub(crate) use unread::has_given_back;

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
    /// Whether it waits, or waited, with an entry.
    recorded: bool,
    call_site: CallSite,
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
    /// Whether the code goes through the whole of its past to see that it can, and nothing that it does is kept.
    rehearses: bool,
    /// Whether it has done so: then what it says on its way may be stored on its way.
    pub(crate) was_rehearsed: bool,
    /// Loops that wait for replay to come to this place.
    marks: Vec<(u64, Waker)>,
    /// Operations that the code asked for and that are not complete, in the order of asking.
    pub(crate) fresh: Vec<(Location, Request)>,
    /// Code of users that is dropped when the journal is unlocked.
    buried: Vec<Buried>,
    /// The attempts that did what is about to be recorded.
    ran: BTreeMap<Location, Ran>,
    /// Operations that were begun and whose futures were dropped.
    pub(crate) dropped: Vec<Location>,
    /// Messages that waits had taken which were dropped before anybody looked at them.
    unread: Vec<(Location, Vec<Message>)>,
    /// Events for one that the code has looked at, or has dropped unread, since topics were told.
    looked: Vec<Looked>,
    /// Children that are to be closed: nobody waits for them any more.
    pub(crate) closing: Vec<(Location, ChildState)>,
    /// Entries that changed without being asked for: loop states, versions, joins.
    pub(crate) dirty: Vec<Location>,
    /// Histories below these locations are to be removed.
    pub(crate) trimmed: Vec<Location>,
    /// Entries that were in them.
    pub(crate) forgotten: Vec<u64>,
    /// Steps that were made and dropped without ever being awaited, as many as are worth a warning.
    pub(crate) unawaited: BTreeSet<String>,
    /// The first mismatch between history and code.
    pub(crate) divergence: Option<Divergence>,
    /// What the code reads as the time: when the last delivered completion was decided.
    pub(crate) now_ms: Millis,
    /// Whether something that the code has seen is not recorded yet.
    pub(crate) observed_undurable: bool,
    /// The same of the results of ephemeral steps alone.
    pub(crate) observed_ephemeral: bool,
    /// Why operations outside a shield end, if they do.
    pub(crate) ended: Option<Failure>,
    /// Whether the code has been told so: one of its operations ended, or it asked.
    pub(crate) told_of_end: bool,
    /// Those that are about to, by their paths. One at a time, like everything: of two that ended together, `select!`
    /// would draw one.
    ending: BTreeSet<(String, Location)>,
    /// The place at which the last of them ended: an end has no place of its own.
    ended_at: Option<u64>,
    ops: BTreeMap<Location, Op>,
    /// Operations that wait for their outcome.
    waiting: usize,
    /// Those of them that are not recorded.
    unrecorded: usize,
    /// The iterations that are being polled, the innermost last.
    inside: Vec<Location>,
    /// The iterations that are over and gone through once more.
    again: Vec<Location>,
    /// Loops, and how many of their iterations are over.
    left: BTreeMap<Location, u64>,
    /// How often something that may be repeated was done at a place.
    counters: BTreeMap<Location, u64>,
    /// How often something was drawn in a scope.
    drawn: BTreeMap<Location, u64>,
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
    /// Operations that were asked for since the last commit, and get rows in the next one.
    pub(crate) begun: usize,
    gathered: Gathered,
    gates: Gates,
    /// Whether the code of this run has been called here.
    pub(crate) was_polled: bool,
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
            rehearses: false,
            was_rehearsed: false,
            marks: Vec::new(),
            fresh: Vec::new(),
            buried: Vec::new(),
            ran: BTreeMap::new(),
            dropped: Vec::new(),
            unread: Vec::new(),
            looked: Vec::new(),
            closing: Vec::new(),
            dirty: Vec::new(),
            trimmed: Vec::new(),
            forgotten: Vec::new(),
            unawaited: BTreeSet::new(),
            divergence: None,
            now_ms,
            observed_undurable: false,
            observed_ephemeral: false,
            ended: None,
            told_of_end: false,
            ending: BTreeSet::new(),
            ended_at: None,
            ops: BTreeMap::new(),
            waiting: 0,
            unrecorded: 0,
            inside: Vec::new(),
            again: Vec::new(),
            left: BTreeMap::new(),
            counters: BTreeMap::new(),
            drawn: BTreeMap::new(),
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
            gathered: Gathered::after(last_id),
            gates: Gates::default(),
            was_polled: false,
            published: BTreeSet::new(),
            exceeded: None,
            last_asked: None,
            witness: None,
        };
        journal.bytes = journal.entries.values().map(|entry| entry.kind.bytes() as u64).sum();
        let unasked = journal.entries.keys().filter(|location| !journal.is_known(location));
        journal.unasked = unasked.count();
        journal.gates = Gates::load(&journal.entries);
        journal
    }

    /// Begins to number new entries where no run before this one got to: after a reset the numbers of entries that are
    /// gone are not given again, so what was meant for them finds nobody.
    pub(crate) fn number_for(&mut self, run: u32) {
        let first = u64::from(run.saturating_sub(1)) << 32;
        self.last_id = self.last_id.max(first);
    }

    /// A commit is made, and has all that the code has seen: what follows from it waits for that commit, and there is no
    /// reason for another.
    pub(crate) fn stores_what_was_seen(&mut self) {
        (self.observed_undurable, self.observed_ephemeral) = (false, false);
    }

    /// The run in which an entry with this number began.
    pub(crate) fn began_in(entry: u64) -> u32 {
        u32::try_from(entry >> 32).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Whose journal it is.
    pub(crate) fn token(&self) -> Token {
        self.token
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

    /// Whether the code waits for nothing that is known here, neither for an operation nor for replay to go on.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.marks.is_empty()
    }

    /// How many wakers may be kept here: one for each operation that is waited for, one for each loop that waits.
    pub(crate) fn wakers_max(&self) -> usize {
        self.waiting + self.marks.len()
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

    fn is_known(&self, location: &Location) -> bool {
        self.ops.contains_key(location)
            || matches!(
                self.entries[location].kind,
                EntryKind::Cancel { .. } | EntryKind::Deadline | EntryKind::Rollback(_) | EntryKind::Compensating(_)
            )
    }
}
