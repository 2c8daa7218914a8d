//! One instance being run, turn by turn.
//!
//! This file has the turn itself. `function` polls to rest, `asked` begins what the code asked for, the files named
//! after verbs bring it to its end, `stage` gathers what changed into one commit, `turn` says what is to be done about
//! it, `ending` and `undo` come last.

mod asked;
mod children;
mod control;
mod ending;
mod events;
mod function;
mod messages;
mod outbox;
mod output;
mod outside;
mod rehearsal;
mod reserved;
mod running;
mod sleeps;
mod stage;
mod steps;
mod turn;
mod undo;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

use tracing::Span;

use crate::clock::Millis;
use crate::config::Bounds;
use crate::engine::bounds::Warning;
use crate::engine::divergence::Divergence;
use crate::engine::error::Result;
use crate::engine::incident::{Consequence, Incident};
use crate::engine::journal::SharedJournal;
use crate::engine::scope::Facts;
use crate::engine::topic;
#[cfg(feature = "testing")]
use crate::engine::witness::CallSite;
use crate::engine::workflow::{Definition, Running};
use crate::location::Location;
use crate::storage::key::Arrival;
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Attempts, Completed, Entry, EntryKind, Failure, Message, Origin, State};
use crate::storage::{InFlight, Namespace};

use function::Woken;
pub(crate) use function::{FromOutside, Whereabouts};
use messages::Waiting;
use outbox::Outbox;
use outside::Undecided;
use rehearsal::Past;
use running::Steps;
use sleeps::Sleeps;
#[cfg(feature = "testing")]
pub(crate) use steps::panic_text;
pub(crate) use steps::{AttemptEnd, Begin};
pub(crate) use turn::Turn;
use undo::Undoing;

/// What an instance is, as it was read from its namespace.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) input: Payload,
    pub(crate) names: Vec<String>,
    pub(crate) entries: Vec<(Location, Entry)>,
    /// By entry.
    pub(crate) attempts: BTreeMap<u64, Attempts>,
    pub(crate) inbox: VecDeque<(Arrival, Message)>,
    /// The names under which values are published.
    pub(crate) published: BTreeSet<String>,
    /// The attempts that had begun when the process died that ran this instance.
    pub(crate) crashed: InFlight,
}

/// The live function of one instance and everything around it that is not yet on disk.
pub(crate) struct Execution {
    namespace: Namespace,
    origin: Origin,
    state: State,
    journal: SharedJournal,
    function: Running,
    woken: Arc<Woken>,
    /// Who is told when something from outside wakes the function.
    nudge: Option<Waker>,
    inbox: VecDeque<(Arrival, Message)>,
    sleeps: Sleeps,
    waiting: Vec<Waiting>,
    undecided: Undecided,
    steps: Steps,
    attempts: BTreeMap<u64, Attempts>,
    crashed: InFlight,
    /// Completions that wait for the next commit.
    finished: Vec<(Location, EntryKind)>,
    /// Completions of ephemeral steps: the code may see them before they are stored.
    ephemeral: Vec<(Location, EntryKind)>,
    /// Completions that are in the commit under way.
    committing: Vec<Location>,
    /// Inbox rows that the next commit removes, or the one under way.
    taken: Vec<Arrival>,
    /// Messages that the next commit puts back, or the one under way.
    given_back: Vec<(Arrival, Message)>,
    /// Whether something in the inbox waits for the commit after this one.
    more_to_take: bool,
    /// Promises that the next commit gives up.
    given_up: Vec<u64>,
    /// Entries whose attempts changed since the last commit.
    dirty_attempts: Vec<u64>,
    /// Attempts that may begin when what the code has seen is durable.
    held: Vec<Begin>,
    /// What the next commit sends to other instances.
    outbox: Outbox,
    /// Whether the commit of this turn sends anything.
    posted: bool,
    definition: Definition,
    codecs: Codecs,
    /// What this run began with, if another may begin with it.
    input: Option<Payload>,
    /// What the function was called with, until it has caught up.
    past: Option<Past>,
    /// What is done about a failure of the function.
    undoing: Option<Undoing>,
    /// The run is over, and the next one begins with this.
    begins_with: Option<Payload>,
    facts: Arc<Facts>,
    /// Whether a running attempt has told of its progress.
    beats: Arc<AtomicBool>,
    /// Failures that the next commit makes known.
    incidents: Vec<Incident>,
    warnings: Vec<Warning>,
    /// What happens in this stay in memory, from when replay has caught up.
    span: Option<Span>,
    /// Whether the size of the history was worth a warning already.
    warned: bool,
    /// The key that it runs with, if it has one.
    gate: Option<String>,
}

impl Execution {
    /// Calls the workflow function of an instance; nothing runs before the first turn.
    pub(crate) fn new(
        namespace: Namespace,
        loaded: Loaded,
        definition: &Definition,
        codecs: Codecs,
        bounds: Bounds,
    ) -> Self {
        let Loaded {
            origin,
            state,
            input,
            names,
            entries,
            attempts,
            inbox,
            published,
            crashed,
        } = loaded;
        let bounds = topic::bounds(definition.name, bounds);
        let facts = Arc::new(Facts {
            instance: namespace.instance().clone(),
            run: state.run,
            version: origin.version,
            secret: origin.secret,
            seed: origin.seed,
            drawn_in: state.drawn_in,
            keyed_in: state.keyed_in,
            codecs: codecs.clone(),
            bounds,
        });
        let kept = definition.policy.may_run_again().then(|| input.clone());
        let past = Past {
            input,
            names,
            entries,
            published,
        };
        // Some completions may have been seen by nobody: what the code does there may be too much for one commit.
        let again = (state.said < state.completions).then(|| past.clone());
        let (journal, function) = past.call(&namespace, &state, definition, &facts);
        let woken = Arc::new(Woken::new(journal.lock().token(), None));
        Self {
            namespace,
            origin,
            state,
            journal,
            function,
            woken,
            nudge: None,
            inbox,
            sleeps: Sleeps::default(),
            waiting: Vec::new(),
            undecided: Undecided::default(),
            steps: Steps::default(),
            attempts,
            crashed,
            finished: Vec::new(),
            committing: Vec::new(),
            taken: Vec::new(),
            given_back: Vec::new(),
            more_to_take: false,
            given_up: Vec::new(),
            dirty_attempts: Vec::new(),
            held: Vec::new(),
            outbox: Outbox::default(),
            posted: false,
            definition: definition.clone(),
            codecs,
            input: kept,
            past: again,
            undoing: None,
            begins_with: None,
            ephemeral: Vec::new(),
            facts,
            beats: Arc::new(AtomicBool::new(false)),
            incidents: Vec::new(),
            warnings: Vec::new(),
            span: None,
            warned: false,
            gate: None,
        }
    }

    /// Says with which key it runs: whoever it waits for can't have the same place.
    pub(crate) fn runs_with(&mut self, key: Option<String>) {
        self.gate = key;
    }

    /// Polls the function as far as it gets with what is known, and says what it needs.
    pub(crate) fn turn(&mut self, now: Millis) -> Result<Turn, Divergence> {
        self.take_pauses();
        if self.state.paused {
            return Ok(self.hold(now));
        }
        let mut turn = Turn::default();
        self.take_turn(&mut turn, now)?;
        self.tell(&mut turn);
        Ok(turn)
    }

    fn take_turn(&mut self, turn: &mut Turn, now: Millis) -> Result<(), Divergence> {
        if self.is_held(now) {
            self.rest(turn, now);
            return Ok(());
        }
        if self.undoing.is_some() {
            self.undo(turn, now);
            return Ok(());
        }
        loop {
            let ended = self.advance_or_refuse()?;
            self.let_go(turn, now);
            let mut journal = self.journal.lock();
            turn.broadcasts.append(&mut journal.broadcasts);
            let replaying = journal.is_replaying();
            drop(journal);
            if let Some(result) = ended {
                return self.ended(result, turn, now);
            }
            if replaying {
                self.store_on_the_way(turn, now);
                return Ok(());
            }
            if self.runs_out_of_time(now) {
                break;
            }
            self.begin_fresh(now);
            // What is delivered first may drop the waits that messages would be taken for.
            if !self.journal.lock().is_full() {
                let served = self.take_messages(now);
                self.take_settled(served, now);
            }
            self.take_cancels();
            self.end_undecided(now);
            self.end_sleeps(now);
            if !self.ends_soon() {
                self.begin_due_attempts(now);
            }
            if !self.deliver_early(now) {
                break;
            }
        }
        self.save_progress(now);
        let ends = self.ends_soon();
        turn.commit = self.stage(now);
        turn.alarm_at_ms = self.alarm();
        self.release(turn, ends);
        Ok(())
    }

    /// Something failed: observers hear of it with the next commit.
    fn report(&mut self, failure: Failure, consequence: Consequence) {
        self.incidents.push(Incident {
            instance: self.namespace.instance().clone(),
            workflow: self.origin.workflow.clone(),
            run: self.state.run,
            failure,
            consequence,
        });
    }

    /// The commit of the last turn is durable: its completions are delivered in the next one. Tells whether there is
    /// anything to do at once.
    pub(crate) fn committed(&mut self) -> bool {
        if let Some(input) = self.begins_with.take() {
            self.begin_run(input);
            return true;
        }
        let committed = std::mem::take(&mut self.committing);
        let more = !committed.is_empty() || !self.held.is_empty() || !self.finished.is_empty();
        let more = more || std::mem::take(&mut self.more_to_take);
        let more = more || !self.ephemeral.is_empty() || !self.dirty_attempts.is_empty();
        self.taken.clear();
        self.given_back.clear();
        let mut journal = self.journal.lock();
        journal.committed(committed);
        let to_deliver = self.undoing.is_none() && journal.has_undelivered();
        more || to_deliver || !journal.fresh.is_empty() || !journal.closing.is_empty()
    }

    /// Whether something that the code waits for is given up by now, unless it has come meanwhile.
    pub(crate) fn gives_up(&self, now: Millis) -> bool {
        let waits = self.waiting.iter().filter_map(|waiting| waiting.until_ms);
        waits.chain(self.undecided.until_ms()).any(|until_ms| until_ms <= now)
    }

    /// What has come into the inbox since it was read, and how much is in it now.
    pub(crate) fn add_to_inbox(&mut self, come: VecDeque<(Arrival, Message)>) -> usize {
        self.inbox.extend(come);
        self.inbox.len()
    }

    /// The inbox as it is now, read from the store.
    #[cfg(feature = "testing")]
    pub(crate) fn refresh_inbox(&mut self, inbox: VecDeque<(Arrival, Message)>) {
        // What a commit under way takes may still be there.
        self.inbox = inbox;
        self.inbox.retain(|(arrival, _)| !self.taken.contains(arrival));
        // And what it puts back is not there yet.
        for (arrival, message) in &self.given_back {
            let at = self.inbox.partition_point(|(there, _)| there < arrival);
            let is_there = self.inbox.get(at).is_some_and(|(there, _)| there == arrival);
            if !is_there && !self.taken.contains(arrival) {
                self.inbox.insert(at, (*arrival, message.clone()));
            }
        }
    }

    /// The revision and the number of completions, with those that the commit under way makes.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.state.revision, self.state.completions)
    }

    /// Where the instance is in its life, with the commit under way.
    pub(crate) fn stands(&self) -> crate::storage::record::Status {
        self.state.status
    }

    /// What the code waits for: where, what, and since which line.
    #[cfg(feature = "testing")]
    pub(crate) fn waits_for(&self) -> Vec<(String, &'static str, CallSite)> {
        self.journal.lock().waits_for()
    }

    /// The earliest time at which there is something to do.
    fn alarm(&self) -> Option<Millis> {
        if self.state.paused {
            return None;
        }
        let waits = self.waiting.iter().filter_map(|waiting| waiting.until_ms);
        let waits = waits.chain(self.undecided.until_ms()).chain(self.deadline_ahead());
        waits
            .chain(self.sleeps.next_due_ms())
            .chain(self.steps.next_due_ms())
            .min()
    }
}

/// The completion of an entry that is being recorded now.
fn completed(order: u64, now: Millis) -> Completed {
    Completed { order, at_ms: now }
}
