//! One instance being run: polls the function to rest, turn by turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::clock::Millis;
use crate::engine::context::Ctx;
use crate::engine::error::{Divergence, WorkflowError};
use crate::engine::journal::{Journal, Names, Request, SleepFor, StepTask};
use crate::engine::workflow::{Definition, Running};
use crate::location::Location;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Entry, EntryKind, Message, Name, Origin, Output, Runnable, State, Status, StepOutcome};
use crate::storage::{Commit, Namespace};

/// What an instance is, as it was read from its namespace.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) input: Payload,
    pub(crate) names: Vec<String>,
    pub(crate) entries: Vec<(Location, Entry)>,
    pub(crate) inbox: VecDeque<(Arrival, Message)>,
}

/// What one turn came to. Steps may start at once: all that the code has seen is durable.
#[derive(Default)]
pub(crate) struct Turn {
    /// What has to be durable before anything of this turn is delivered to the code.
    pub(crate) commit: Option<Commit>,
    /// Steps that have to run.
    pub(crate) steps: Vec<(Location, StepTask)>,
    /// How the instance waits when the commit is done and no step runs.
    pub(crate) wait: Wait,
    /// How the instance ended, if it did.
    pub(crate) end: Option<End>,
}

/// What can wake an instance that rests, apart from its own steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wait {
    /// The earliest alarm.
    pub(crate) alarm_at_ms: Option<Millis>,
}

/// How an instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With a result.
    Completed,
    /// With an error.
    Failed,
}

/// The live function of one instance and everything around it that is not yet on disk.
pub(crate) struct Execution {
    namespace: Namespace,
    origin: Origin,
    state: State,
    journal: Arc<Mutex<Journal>>,
    function: Running,
    woken: Arc<Woken>,
    inbox: VecDeque<(Arrival, Message)>,
    /// When each sleep ends that was begun and not completed.
    sleeps: BTreeMap<Location, Millis>,
    /// Waits for a message, in the order of asking.
    receives: Vec<(Location, &'static str)>,
    running: usize,
    /// Completions that wait for the next commit.
    finished: Vec<(Location, EntryKind)>,
    /// Completions that are in the commit under way.
    committing: Vec<Location>,
    /// Inbox rows that the next commit removes.
    taken: Vec<Arrival>,
    /// Entries that the next commit writes.
    dirty: HashMap<Location, Entry>,
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
            inbox,
        } = loaded;
        let sleeps = entries
            .iter()
            .filter_map(|(location, entry)| match (entry.order, &entry.kind) {
                (None, EntryKind::Sleep { wake_at_ms }) => Some((location.clone(), *wake_at_ms)),
                _ => None,
            });
        let sleeps = sleeps.collect();
        let mut completed: Vec<_> = entries
            .iter()
            .filter_map(|(location, entry)| Some((entry.order?, location.clone())))
            .collect();
        completed.sort();
        let mut journal = Journal::default();
        journal.names = Names::load(names);
        journal.undelivered = completed.into_iter().map(|(_, location)| location).collect();
        journal.entries = entries.into_iter().collect();
        let journal = Arc::new(Mutex::new(journal));
        let function = definition.erased.call(Ctx::new(Arc::clone(&journal), codecs), input);
        Self {
            namespace,
            origin,
            state,
            journal,
            function,
            woken: Arc::default(),
            inbox,
            sleeps,
            receives: Vec::new(),
            running: 0,
            finished: Vec::new(),
            committing: Vec::new(),
            taken: Vec::new(),
            dirty: HashMap::new(),
        }
    }

    /// Polls the function as far as it gets with what is known, and says what it needs.
    pub(crate) fn turn(&mut self, now: Millis) -> Result<Turn, Divergence> {
        if let Some(result) = self.advance()? {
            return Ok(self.end(result, now));
        }
        let mut turn = Turn::default();
        self.begin_fresh(now, &mut turn);
        self.take_messages();
        self.end_sleeps(now);
        turn.commit = self.stage(now);
        turn.wait = Wait {
            alarm_at_ms: self.sleeps.values().min().copied(),
        };
        Ok(turn)
    }

    /// The commit of the last turn is durable: its completions are delivered in the next one. Tells whether there
    /// are any.
    pub(crate) fn committed(&mut self) -> bool {
        let committed = std::mem::take(&mut self.committing);
        let any = !committed.is_empty();
        self.journal().undelivered.extend(committed);
        any
    }

    /// A step ended.
    pub(crate) fn step_ended(&mut self, location: Location, outcome: StepOutcome) {
        self.running -= 1;
        self.finished.push((location, EntryKind::Step(Some(outcome))));
    }

    /// The inbox as it is now, read from the store.
    pub(crate) fn refresh_inbox(&mut self, inbox: VecDeque<(Arrival, Message)>) {
        self.inbox = inbox;
    }

    /// Polls to rest, delivers the next completion, and so on until nothing is left to deliver.
    fn advance(&mut self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        loop {
            if let Poll::Ready(result) = self.poll_to_rest() {
                let mut journal = self.journal();
                let Some(left_over) = journal.undelivered.pop_front() else {
                    return Ok(Some(result));
                };
                journal.deliver(&left_over)?;
                let path = journal.path(&left_over);
                return Err(Divergence {
                    path,
                    recorded: "a completion",
                    asked: "the end",
                });
            }
            let mut journal = self.journal();
            let Some(next) = journal.undelivered.pop_front() else {
                return Ok(None);
            };
            journal.deliver(&next)?;
        }
    }

    /// At rest: pending, and not woken by itself meanwhile. A combinator that yields is polled again.
    fn poll_to_rest(&mut self) -> Poll<Result<Payload, WorkflowError>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.0.store(false, Ordering::Release);
            match self.function.as_mut().poll(&mut context) {
                Poll::Pending if self.woken.0.load(Ordering::Acquire) => {}
                poll => return poll,
            }
        }
    }

    fn begin_fresh(&mut self, now: Millis, turn: &mut Turn) {
        let fresh = std::mem::take(&mut self.journal().fresh);
        for (location, request) in fresh {
            match request {
                Request::Step(task) => {
                    self.running += 1;
                    turn.steps.push((location, task));
                }
                Request::Receive(name) => self.receives.push((location, name)),
                Request::Sleep(SleepFor::Duration(duration)) => {
                    let wake_at_ms = now.saturating_add(duration);
                    self.sleeps.insert(location.clone(), wake_at_ms);
                    self.record(location, EntryKind::Sleep { wake_at_ms }, None);
                }
            }
        }
    }

    fn take_messages(&mut self) {
        let waiting = std::mem::take(&mut self.receives);
        for (location, name) in waiting {
            match self.inbox.iter().position(|(_, message)| message.name == name) {
                Some(at) => {
                    let (arrival, message) = self.inbox.remove(at).expect("the position was just found");
                    self.taken.push(arrival);
                    self.finished.push((location, EntryKind::Message(message)));
                }
                None => self.receives.push((location, name)),
            }
        }
    }

    fn end_sleeps(&mut self, now: Millis) {
        let mut due: Vec<_> = self
            .sleeps
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(l, at)| (*at, l.clone()))
            .collect();
        due.sort();
        for (wake_at_ms, location) in due {
            self.sleeps.remove(&location);
            self.finished.push((location, EntryKind::Sleep { wake_at_ms }));
        }
    }

    /// Gathers everything that changed since the last commit into one.
    fn stage(&mut self, now: Millis) -> Option<Commit> {
        for (location, kind) in std::mem::take(&mut self.finished) {
            let order = self.state.completions;
            self.state.completions += 1;
            self.committing.push(location.clone());
            self.record(location, kind, Some(order));
        }
        let status = self.status();
        if self.dirty.is_empty() && status == self.state.status {
            return None;
        }
        let alarm = self.sleeps.values().min().copied();
        Some(self.commit(status, alarm, now))
    }

    fn status(&self) -> Status {
        if self.running > 0 || !self.committing.is_empty() {
            Status::Running
        } else if !self.sleeps.is_empty() {
            Status::Sleeping
        } else {
            Status::Waiting
        }
    }

    fn end(&mut self, result: Result<Payload, WorkflowError>, now: Millis) -> Turn {
        let (status, end) = match result {
            Ok(_) => (Status::Completed, End::Completed),
            Err(_) => (Status::Failed, End::Failed),
        };
        let mut commit = self.commit(status, None, now);
        match result {
            Ok(payload) => commit.set(&self.namespace, &Local::Meta(Meta::Output), &Output(payload)),
            Err(error) => commit.set(&self.namespace, &Local::Meta(Meta::Failure), &error.into_failure()),
        };
        Turn {
            commit: Some(commit),
            end: Some(end),
            ..Turn::default()
        }
    }

    fn commit(&mut self, status: Status, alarm_at_ms: Option<Millis>, now: Millis) -> Commit {
        let mut commit = Commit::new(self.namespace.shard());
        for (index, name) in self.journal().names.take_new() {
            commit.set(&self.namespace, &Local::Name(index), &Name(name));
        }
        for (location, entry) in self.dirty.drain() {
            commit.set(
                &self.namespace,
                &Local::History(std::borrow::Cow::Borrowed(&location)),
                &entry,
            );
        }
        for arrival in self.taken.drain(..) {
            commit.delete(&self.namespace, &Local::Inbox(arrival));
        }
        let before = self.state.clone();
        self.state = State {
            status,
            alarm_at_ms,
            revision: before.revision + 1,
            updated_at_ms: now,
            ..before
        };
        commit.set_state(&self.namespace, before.alarm_at_ms, &self.state);
        if before.status != status {
            commit.set_index(&self.namespace, &self.origin, &self.state);
            let runs = |status| matches!(status, Status::Pending | Status::Running);
            if runs(before.status) != runs(status) {
                let runnable = runs(status).then_some(Runnable { activations: 0 });
                commit.set_runnable(&self.namespace, runnable.as_ref());
            }
        }
        commit
    }

    fn record(&mut self, location: Location, kind: EntryKind, order: Option<u64>) {
        let known = self.journal().entries.get(&location).map(|entry| entry.id);
        let id = known.unwrap_or_else(|| {
            self.state.entries += 1;
            self.state.entries
        });
        let entry = Entry { id, order, kind };
        self.journal().entries.insert(location.clone(), entry.clone());
        self.dirty.insert(location, entry);
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices when the function wakes itself.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}
