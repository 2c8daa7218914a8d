//! One instance being run: polls the function to rest, turn by turn.
//!
//! What a function awaits comes from its context. Something else (a timer of the executor, a channel that a step
//! writes to) would wake it at a moment that no replay could find again. It is noticed by who wakes: operations of the
//! context, and what parts of the function tell each other, wake during a poll or a delivery; the rest of the world
//! does not. Such a wait ends the instance with a misuse, as does one that nothing can ever end.

mod messages;
mod stage;
mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::clock::Millis;
use crate::engine::divergence::Divergence;
use crate::engine::error::{Misuse, Result, WorkflowError};
use crate::engine::journal::{Journal, SharedJournal};
use crate::engine::polling::Token;
use crate::engine::request::{Attempting, Request};
use crate::engine::scope::{Facts, Scope};
use crate::engine::workflow::{Definition, Running};
use crate::location::{Location, Segment};
use crate::storage::key::Arrival;
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Attempts, Completed, Entry, EntryKind, Failure, FailureKind, Message, Origin, State};
use crate::storage::{Commit, Namespace};

use messages::Waiting;
pub(crate) use steps::AttemptEnd;
use steps::RunningStep;

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
    /// Processes that died while they ran this instance, since it last got anywhere.
    pub(crate) crashes: u32,
}

/// What one turn came to.
#[derive(Default)]
pub(crate) struct Turn {
    /// What has to be durable before anything of this turn is delivered to the code.
    pub(crate) commit: Option<Commit>,
    /// Attempts to begin now: all that the code has seen is durable.
    pub(crate) begin: Vec<Begin>,
    /// Attempts to cancel: nobody waits for them any more.
    pub(crate) cancel: Vec<Location>,
    /// The earliest time at which there is something to do.
    pub(crate) alarm_at_ms: Option<Millis>,
    /// Whether the instance has ended, once the commit is durable.
    pub(crate) ended: bool,
}

/// An attempt to begin.
pub(crate) struct Begin {
    pub(crate) location: Location,
    /// The location as people read it.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only the harness asks"))]
    pub(crate) path: String,
    pub(crate) number: u32,
    pub(crate) attempting: Attempting,
    pub(crate) timeout: Option<std::time::Duration>,
}

/// The live function of one instance and everything around it that is not yet on disk.
pub(crate) struct Execution {
    namespace: Namespace,
    origin: Origin,
    state: State,
    journal: SharedJournal,
    function: Running,
    woken: Arc<Woken>,
    inbox: VecDeque<(Arrival, Message)>,
    sleeps: BTreeMap<Location, Millis>,
    waiting: Vec<Waiting>,
    steps: BTreeMap<Location, RunningStep>,
    attempts: BTreeMap<u64, Attempts>,
    crashes: u32,
    /// Completions that wait for the next commit.
    finished: Vec<(Location, EntryKind)>,
    /// Completions that are in the commit under way.
    committing: Vec<Location>,
    /// Inbox rows that the next commit removes, or the one under way.
    taken: Vec<Arrival>,
    /// Entries whose attempts changed since the last commit.
    dirty_attempts: Vec<u64>,
    /// Attempts that may begin when what the code has seen is durable.
    held: Vec<Begin>,
}

impl Execution {
    /// Calls the workflow function of an instance; nothing runs before the first turn.
    pub(crate) fn new(namespace: Namespace, loaded: Loaded, definition: &Definition, codecs: Codecs) -> Self {
        let Loaded {
            origin,
            state,
            input,
            names,
            entries,
            attempts,
            inbox,
            crashes,
        } = loaded;
        let journal = Journal::load(names, entries, state.completions, origin.created_at_ms);
        let woken = Arc::new(Woken::new(journal.token()));
        let journal = SharedJournal::new(journal);
        let facts = Facts {
            instance: namespace.instance().clone(),
            run: state.run,
            version: origin.version,
            codecs,
        };
        let scope = Scope::root(Arc::new(facts), journal.clone());
        let function = definition.erased.call(scope, input);
        Self {
            namespace,
            origin,
            state,
            journal,
            function,
            woken,
            inbox,
            sleeps: BTreeMap::new(),
            waiting: Vec::new(),
            steps: BTreeMap::new(),
            attempts,
            crashes,
            finished: Vec::new(),
            committing: Vec::new(),
            taken: Vec::new(),
            dirty_attempts: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Polls the function as far as it gets with what is known, and says what it needs.
    pub(crate) fn turn(&mut self, now: Millis) -> Result<Turn, Divergence> {
        let foreign = self.woken.foreign.load(Ordering::Acquire);
        let mut ended = self.advance()?;
        if foreign || (ended.is_none() && !self.journal.lock().is_waiting()) {
            ended = Some(Err(Failure::from(Misuse::ForeignWait).into()));
        }
        let mut turn = Turn::default();
        self.let_go(&mut turn);
        if let Some(result) = ended {
            turn.cancel.extend(std::mem::take(&mut self.steps).into_keys());
            turn.commit = Some(self.end(result, now));
            turn.ended = true;
            return Ok(turn);
        }
        self.begin_fresh(now);
        self.take_messages(now);
        self.end_sleeps(now);
        self.begin_due_attempts(now);
        turn.commit = self.stage(now);
        turn.alarm_at_ms = self.alarm();
        if turn.commit.is_none() || !std::mem::take(&mut self.journal.lock().observed_undurable) {
            turn.begin = std::mem::take(&mut self.held);
        }
        Ok(turn)
    }

    /// The commit of the last turn is durable: its completions are delivered in the next one. Tells whether there is
    /// anything to do at once.
    pub(crate) fn committed(&mut self) -> bool {
        let committed = std::mem::take(&mut self.committing);
        let more = !committed.is_empty() || !self.held.is_empty();
        self.taken.clear();
        self.journal.lock().committed(committed);
        more
    }

    /// The inbox as it is now, read from the store.
    pub(crate) fn refresh_inbox(&mut self, inbox: VecDeque<(Arrival, Message)>) {
        // What a commit under way takes may still be there.
        self.inbox = inbox;
        self.inbox.retain(|(arrival, _)| !self.taken.contains(arrival));
    }

    /// Asks the instance to end. What waits outside a shield ends with this; asking twice changes nothing.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "handles do not offer it yet"))]
    pub(crate) fn cancel(&mut self, reason: &str) {
        let location = self.reserved("cancel");
        let asked = self.finished.iter().any(|(at, _)| *at == location);
        if !asked && !self.journal.lock().entries.contains_key(&location) {
            self.finished.push((
                location,
                EntryKind::Cancel {
                    reason: reason.to_owned(),
                },
            ));
        }
    }

    /// Steps that the function made and never awaited.
    pub(crate) fn take_unawaited(&mut self) -> Vec<String> {
        std::mem::take(&mut self.journal.lock().unawaited)
    }

    /// A place that no operation of the code can have.
    #[cfg_attr(
        not(feature = "testing"),
        allow(dead_code, reason = "only cancelling needs one so far")
    )]
    fn reserved(&self, name: &str) -> Location {
        let mut journal = self.journal.lock();
        let name = journal.names.index(name).expect("a reserved name is a name");
        let number = u64::try_from(i64::MAX).expect("a positive number");
        Location::root()
            .child(Segment::Iteration { name, number })
            .expect("one segment is not too deep")
    }

    /// Polls to rest, delivers the next completion, and so on until nothing is left to deliver.
    pub(crate) fn advance(&mut self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        let _polling = self.woken.token.poll_here();
        loop {
            let poll = self.poll_to_rest();
            let mut journal = self.journal.lock();
            if poll.is_ready() {
                journal.expect_nothing_unasked(true);
            } else if journal.divergence.is_none() && journal.deliver_next() {
                continue;
            } else {
                journal.expect_nothing_unasked(false);
            }
            return match (journal.divergence.take(), poll) {
                (Some(divergence), _) => Err(divergence),
                (None, Poll::Ready(result)) => Ok(Some(result)),
                (None, Poll::Pending) => Ok(None),
            };
        }
    }

    /// At rest: pending, and not woken by itself meanwhile. A combinator that yields is polled again. A panic is the
    /// end of the function, with that failure.
    fn poll_to_rest(&mut self) -> Poll<Result<Payload, WorkflowError>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.own.store(false, Ordering::Release);
            let function = AssertUnwindSafe(|| self.function.as_mut().poll(&mut context));
            match catch_unwind(function) {
                Ok(Poll::Pending) if self.woken.own.load(Ordering::Acquire) => {}
                Ok(poll) => return poll,
                Err(panic) => {
                    let failure = Failure::new(FailureKind::Panicked, steps::panic_text(&*panic));
                    return Poll::Ready(Err(failure.into()));
                }
            }
        }
    }

    /// Lets go of what dropped futures stood for.
    fn let_go(&mut self, turn: &mut Turn) {
        for location in std::mem::take(&mut self.journal.lock().dropped) {
            self.sleeps.remove(&location);
            self.waiting.retain(|waiting| waiting.location != location);
            self.finished.retain(|(at, _)| *at != location);
            if self.steps.remove(&location).is_some() {
                self.held.retain(|begin| begin.location != location);
                turn.cancel.push(location);
            }
        }
    }

    fn begin_fresh(&mut self, now: Millis) {
        let fresh = std::mem::take(&mut self.journal.lock().fresh);
        for (location, request) in fresh {
            match request {
                Request::Step(request) => self.begin_step(&location, request, now),
                Request::Receive(request) => self.begin_waiting(location, request, now),
                Request::Sleep(until) => {
                    let recorded = self
                        .journal
                        .lock()
                        .entries
                        .get(&location)
                        .map(|entry| entry.kind.clone());
                    let wake_at_ms = match recorded {
                        Some(EntryKind::Sleep { wake_at_ms }) => wake_at_ms,
                        _ => until.at_ms(now),
                    };
                    if wake_at_ms > now && recorded.is_none() {
                        self.journal
                            .lock()
                            .record(&location, EntryKind::Sleep { wake_at_ms }, None);
                    }
                    self.sleeps.insert(location, wake_at_ms);
                }
            }
        }
        self.crashes = 0;
    }

    fn end_sleeps(&mut self, now: Millis) {
        let due = self.sleeps.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due.map(|(location, at)| (*at, location.clone())).collect();
        due.sort();
        for (wake_at_ms, location) in due {
            self.sleeps.remove(&location);
            self.finished.push((location, EntryKind::Sleep { wake_at_ms }));
        }
    }

    /// The earliest time at which there is something to do.
    fn alarm(&self) -> Option<Millis> {
        let sleeps = self.sleeps.values().copied();
        let waits = self.waiting.iter().filter_map(|waiting| waiting.until_ms);
        let retries = self.steps.values().filter_map(RunningStep::due_at_ms);
        sleeps.chain(waits).chain(retries).min()
    }
}

/// Notices who wakes the function.
#[derive(Debug)]
struct Woken {
    token: Token,
    /// It woke itself, or was woken by what was delivered to it.
    own: AtomicBool,
    /// It was woken from outside.
    foreign: AtomicBool,
}

impl Woken {
    fn new(token: Token) -> Self {
        Self {
            token,
            own: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
        }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let own = self.token.is_polled_here();
        let flag = if own { &self.own } else { &self.foreign };
        flag.store(true, Ordering::Release);
    }
}

/// The completion of an entry that is being recorded now.
fn completed(order: u64, now: Millis) -> Completed {
    Completed { order, at_ms: now }
}

/// A failure that ends an operation, at its place.
fn at(failure: Failure, path: String, attempts: u32) -> Failure {
    Failure {
        attempts,
        ..failure.at(path)
    }
}
