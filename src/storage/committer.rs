//! One thread, or in a simulation one task, that makes commits durable, many at a time.
//!
//! Callers hand over whole commits and wait. The committer takes everything that waits, checks the conditions of
//! each in order, gives sequence numbers, applies them as one group with one sync, and only then answers all of
//! them. Under load the price of a sync is shared by thousands of commits; without load a commit waits for nobody.
//!
//! **Invariant: a commit that was handed over is indivisible.** Dropping the caller's future changes nothing: the
//! commit is in the queue, and the committer owns it.
//!
//! **Invariant: an answer never outruns the disk.** A refusal may rest on a commit of the same group (a duplicate of
//! a message that is only now being written), so refusals wait for the sync like everyone else.
//!
//! **Invariant: after a failed write or sync nothing is acknowledged any more.** What the disk holds is then unknown
//! and a second sync proves nothing, so the store stays poisoned until it is opened anew.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::limits::{COMMIT_BYTES_MAX, COMMIT_QUEUE_MAX, GROUP_COMMITS_MAX};
use crate::spawn;
use crate::storage::activation::Activations;
use crate::storage::batch::Batch;
use crate::storage::commit::Commit;
use crate::storage::condition::Checker;
use crate::storage::engine::{CommitError, Engine, EngineLimits, Group, Lease, Position};
use crate::storage::error::{Error, Result};
use crate::storage::inboxes::Inboxes;
use crate::storage::intent::Intents;
#[cfg(feature = "testing")]
use crate::storage::pace::Pace;
use crate::storage::spare;
use crate::storage::watermark::Watermark;
use crate::telemetry;

/// How often a commit whose outcome was unknown, and that turned out not to be done, is tried again.
const RETRIES_MAX: u32 = 3;

/// How often the committer looks for one more request before it closes a small group: some ten microseconds, a small
/// part of a sync. Callers that were just answered come back within that time, and share this sync instead of the
/// next. A caller that is alone is never made to wait.
const GATHER_TRIES: u32 = 300;

/// How long the committer looks for the next request before it lets its thread sleep. Who was just answered often comes
/// back within that time, with the next step of a chain, and to wake a thread on a core that sleeps takes as long. It
/// gives its core up to anybody else meanwhile; where somebody else has use for it, waiting like this costs more than
/// it gains.
const LINGER: Duration = Duration::from_micros(50);

/// After so many times that nobody came, or somebody else had the core, it lingers only now and then, to see whether
/// that has changed.
const LINGER_MISSES_MAX: u32 = 4;
const LINGER_NOW_AND_THEN: u32 = 64;

/// A group of this many requests is not small any more: the sync is shared by enough, and waiting only costs.
const GATHER_REQUESTS_MAX: usize = 32;

/// What a durable commit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The place of the commit in its shard.
    pub sequence: u64,
}

/// A commit on its way, and who waits for it.
#[derive(Debug)]
pub(crate) struct Request {
    commit: Commit,
    reply: oneshot::Sender<Answer>,
}

/// What a caller gets back: what became of its commit, and the commit itself, whose buffers its thread can use again.
#[derive(Debug)]
struct Answer {
    outcome: Result<Receipt>,
    spent: Commit,
}

impl Answer {
    fn outcome(self) -> Result<Receipt> {
        spare::keep(self.spent);
        self.outcome
    }
}

/// An answer on its way.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Answer>);

impl Pending {
    /// Waits until the commit is durable, or is known not to be.
    pub async fn durable(self) -> Result<Receipt> {
        self.0.await.map_err(|_| Error::Closed)?.outcome()
    }

    /// The same for a thread that may wait.
    pub fn wait(self) -> Result<Receipt> {
        self.0.blocking_recv().map_err(|_| Error::Closed)?.outcome()
    }
}

/// The callers' side of the committer.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Request>,
    failure: Arc<OnceLock<Error>>,
    limits: EngineLimits,
}

/// A place in the queue that was waited for.
#[derive(Debug)]
pub(crate) struct Place<'a>(mpsc::Permit<'a, Request>);

impl Place<'_> {
    /// Puts the commit into the queue. From here on it will be done or refused, whatever becomes of the caller.
    pub(crate) fn hand_over(self, commit: Commit) -> Pending {
        let (reply, answer) = oneshot::channel();
        self.0.send(Request { commit, reply });
        Pending(answer)
    }
}

impl Committer {
    /// Starts the thread. It ends when the committer is dropped and the queue is empty.
    pub(crate) fn start(worker: Worker) -> Result<(Self, JoinHandle<()>)> {
        let (committer, requests) = Self::of(&worker);
        let thread = spawn::thread("everstep-committer", move || worker.run(requests))
            .map_err(Error::io("start a thread for", "the committer"))?;
        Ok((committer, thread))
    }

    /// Starts a task instead, on the runtime that this is called from. It ends in the same way, or with the runtime.
    #[cfg(feature = "testing")]
    pub(crate) fn start_in_task(worker: Worker, pace: Pace) -> Self {
        let (committer, requests) = Self::of(&worker);
        drop(spawn::task(worker.run_in_task(requests, pace)));
        committer
    }

    fn of(worker: &Worker) -> (Self, mpsc::Receiver<Request>) {
        let (queue, requests) = mpsc::channel(COMMIT_QUEUE_MAX);
        let committer = Self {
            queue,
            failure: Arc::clone(&worker.failure),
            limits: worker.limits(),
        };
        (committer, requests)
    }

    /// Waits for a place in the queue.
    pub(crate) async fn place(&self) -> Result<Place<'_>> {
        self.check()?;
        self.queue.reserve().await.map(Place).map_err(|_| Error::Closed)
    }

    /// Takes a place in the queue if there is one.
    pub(crate) fn try_place(&self) -> Result<Place<'_>> {
        self.check()?;
        self.queue.try_reserve().map(Place).map_err(|error| match error {
            mpsc::error::TrySendError::Full(()) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(()) => Error::Closed,
        })
    }

    /// Refuses a commit that could never be done, before it can spoil a group.
    pub(crate) fn fits(&self, commit: &Commit) -> Result<()> {
        Ok(self.limits.check(std::slice::from_ref(&commit.batch))?)
    }

    /// Why the store acknowledges nothing any more, if it does not.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Closes the queue; gives where a failure of what is still in it will show.
    pub(crate) fn close(self) -> Arc<OnceLock<Error>> {
        self.failure
    }

    fn check(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

/// The thread's side of the committer.
pub(crate) struct Worker {
    engine: Arc<dyn Engine>,
    leases: Vec<Lease>,
    positions: Vec<Position>,
    activations: Arc<Activations>,
    watermark: Option<Arc<Watermark>>,
    failure: Arc<OnceLock<Error>>,
    group_bytes_max: usize,
    /// Requests in the group before.
    group_before: usize,
    /// How often in a row it did not pay to linger.
    linger_misses: u32,
    /// Requests that were taken out of the queue and belong to a later group, in order.
    backlog: VecDeque<Request>,
    // Kept between groups, so that a group costs no allocation of its own.
    batches: Vec<Batch>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    checker: Checker,
    intents: Intents,
    inboxes: Inboxes,
    delivered: Arc<[AtomicU64]>,
    /// Commits that were made durable.
    tally: Arc<AtomicU64>,
}

impl Worker {
    /// A worker that owns the leases' shards; lease `i` is for shard `i`.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        leases: Vec<Lease>,
        activations: Arc<Activations>,
        watermark: Option<Arc<Watermark>>,
        inbox_max: usize,
    ) -> Self {
        let positions = leases.iter().map(|lease| lease.position).collect();
        let group_bytes_max = engine.limits().group_bytes_max.min(crate::limits::GROUP_BYTES_MAX);
        let delivered = leases.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            engine,
            leases,
            positions,
            activations,
            watermark,
            failure: Arc::default(),
            group_bytes_max,
            group_before: 0,
            linger_misses: 0,
            backlog: VecDeque::new(),
            batches: Vec::new(),
            answers: Vec::new(),
            checker: Checker::default(),
            intents: Intents::default(),
            inboxes: Inboxes::new(inbox_max),
            delivered,
            tally: Arc::default(),
        }
    }

    /// The number of the last durable message of each shard, for whoever reads inboxes.
    pub(crate) fn delivered(&self) -> Arc<[AtomicU64]> {
        Arc::clone(&self.delivered)
    }

    /// How many commits were made durable since the store was opened.
    pub(crate) fn tally(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.tally)
    }

    /// What one commit may hold: what the engine takes, and never more than the system allows.
    fn limits(&self) -> EngineLimits {
        let engine = self.engine.limits();
        EngineLimits {
            group_bytes_max: engine.group_bytes_max.min(COMMIT_BYTES_MAX),
            ..engine
        }
    }

    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = self.next(&mut requests) {
            self.guarded(first, &mut requests);
        }
        self.end();
    }

    /// The next request, whenever it comes; none when there will be none any more.
    fn next(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        if let Some(kept) = self.backlog.pop_front() {
            return Some(kept);
        }
        self.linger(requests).or_else(|| requests.blocking_recv())
    }

    /// A request that comes within a moment.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a thread lingers decides nothing that is stored"
    )]
    fn linger(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        let (misses, begin) = (self.linger_misses, Instant::now());
        self.linger_misses = misses.wrapping_add(1);
        if misses >= LINGER_MISSES_MAX && !misses.is_multiple_of(LINGER_NOW_AND_THEN) {
            return None;
        }
        loop {
            let request = requests.try_recv().ok();
            let lingered = begin.elapsed();
            if request.is_some() && lingered < LINGER {
                self.linger_misses = 0;
            }
            if request.is_some() || lingered >= LINGER {
                return request;
            }
            std::thread::yield_now();
        }
    }

    /// The same in a task. The pace comes before a group is closed, so that more may join it meanwhile.
    #[cfg(feature = "testing")]
    async fn run_in_task(mut self, mut requests: mpsc::Receiver<Request>, pace: Pace) {
        loop {
            let first = match self.backlog.pop_front() {
                Some(kept) => Some(kept),
                None => requests.recv().await,
            };
            let Some(first) = first else { break };
            pace.before_group().await;
            self.guarded(first, &mut requests);
        }
        self.end();
    }

    /// A panic in an engine must not leave callers behind who wait for ever, nor a store that looks healthy.
    fn guarded(&mut self, first: Request, requests: &mut mpsc::Receiver<Request>) {
        let done = catch_unwind(AssertUnwindSafe(|| self.group(first, requests)));
        if done.is_err() {
            let failure = self.fail(Error::Failed("the committer panicked".into()));
            self.answer(&Err(failure));
        }
    }

    fn end(&self) {
        if let Some(watermark) = &self.watermark
            && let Err(error) = watermark.sync()
        {
            tracing::warn!(%error, "the watermark could not be synced at the end");
        }
    }

    /// Gathers one group of the first request's shard, makes it durable, answers. What belongs to a later group is
    /// kept, in order.
    fn group(&mut self, first: Request, requests: &mut mpsc::Receiver<Request>) {
        let shard = first.commit.shard;
        let lease = self.leases[usize::from(shard.0)];
        let expected = self.positions[usize::from(shard.0)];
        let mut position = expected;
        let mut bytes = 0;
        let mut kept = std::mem::take(&mut self.backlog);
        let mut later = VecDeque::new();
        let mut next = Some(first);
        while let Some(request) = next
            .take()
            .or_else(|| kept.pop_front())
            .or_else(|| self.another(requests))
        {
            if request.commit.shard != shard {
                later.push_back(request);
                if later.len() == GROUP_COMMITS_MAX {
                    break;
                }
                continue;
            }
            if bytes + request.commit.bytes() > self.group_bytes_max && !self.answers.is_empty() {
                later.push_back(request);
                break;
            }
            bytes += request.commit.bytes();
            let closes = request.commit.sweeps;
            self.stage(request, &mut position);
            if closes || self.answers.len() == GROUP_COMMITS_MAX {
                break;
            }
        }
        later.append(&mut kept);
        self.backlog = later;
        self.group_before = self.answers.len();
        telemetry::group(self.batches.len(), self.backlog.len() + requests.len());
        let outcome = self.write(&Staged {
            lease,
            expected,
            next: position,
        });
        let last = self.intents.forget();
        self.inboxes.forget(outcome.is_ok());
        if outcome.is_ok() {
            self.tally
                .fetch_add(position.sequence - expected.sequence, Ordering::Relaxed);
            // Before anybody is answered: whoever looks from here on finds the messages in the inboxes.
            self.delivered[usize::from(shard.0)].fetch_max(last, Ordering::AcqRel);
        }
        self.answer(&outcome);
    }

    /// Another request for the group, if one waits or comes at once.
    fn another(&self, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        let alone = self.answers.len() == 1 && self.group_before <= 1;
        let small = self.answers.len() < GATHER_REQUESTS_MAX;
        let tries = if small && !alone { GATHER_TRIES } else { 1 };
        (0..tries).find_map(|_| {
            let request = requests.try_recv().ok();
            if request.is_none() {
                std::hint::spin_loop();
            }
            request
        })
    }

    /// Checks one request against the store and the commits before it in the group, and adds it if it holds.
    fn stage(&mut self, request: Request, position: &mut Position) {
        let Request { mut commit, reply } = request;
        let checked = self
            .checker
            .check(&commit, &*self.engine, &self.activations, &self.batches);
        let settled = checked
            .and_then(|()| self.inboxes.settle(&commit, &*self.engine))
            .and_then(|()| {
                let settled = self.intents.settle(&mut commit, &*self.engine);
                settled.inspect_err(|_| self.inboxes.doubt())
            });
        let outcome = settled.map(|()| {
            position.sequence += 1;
            position.chain = commit.batch.chain(position.chain);
            self.checker.remember(&commit, self.batches.len());
            self.batches.push(std::mem::take(&mut commit.batch));
            Receipt {
                sequence: position.sequence,
            }
        });
        self.answers.push((reply, Answer { outcome, spent: commit }));
    }

    /// Makes the staged group durable.
    fn write(&mut self, staged: &Staged) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        if self.batches.is_empty() {
            return Ok(());
        }
        let group = Group {
            lease: staged.lease,
            expected: staged.expected,
            next: staged.next,
            batches: &self.batches,
        };
        settle(&*self.engine, &group).map_err(|error| self.fail(error))?;
        self.positions[usize::from(staged.lease.shard.0)] = staged.next;
        if let Some(watermark) = &self.watermark {
            watermark
                .advance(staged.lease.shard, staged.lease.epoch, staged.next)
                .map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Answers everyone in the group: what was decided for each, or the failure of the whole.
    fn answer(&mut self, outcome: &Result<()>) {
        let mut batches = self.batches.drain(..);
        for (reply, mut answer) in self.answers.drain(..) {
            if answer.outcome.is_ok() {
                // Accepted commits gave their batches to the group in this order.
                answer.spent.batch = batches.next().unwrap_or_default();
            }
            answer.outcome = outcome.clone().and(answer.outcome);
            // A caller that went away does not want to know; the commit is done all the same.
            let _ = reply.send(answer);
        }
        drop(batches);
        self.checker.forget();
    }

    /// Poisons the store, unless the engine merely could not be reached and nothing was written.
    fn fail(&self, error: Error) -> Error {
        if matches!(error, Error::Unavailable(_) | Error::TooLarge { .. }) {
            return error;
        }
        tracing::error!(%error, "the store failed and acknowledges nothing any more");
        self.failure.get_or_init(|| error).clone()
    }
}

/// A group that was checked, and where it goes.
struct Staged {
    lease: Lease,
    expected: Position,
    next: Position,
}

/// Commits a group and finds out what became of it when the engine can't tell.
pub(crate) fn settle(engine: &dyn Engine, group: &Group<'_>) -> Result<()> {
    for attempt in 0..RETRIES_MAX {
        let unknown = match engine.commit(group) {
            Ok(()) => return Ok(()),
            Err(CommitError::Unknown(error)) => error,
            // An earlier attempt that seemed lost may have arrived after all.
            Err(CommitError::Conflict { .. }) if attempt > 0 && is_at(engine, group) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match engine.position(&group.lease) {
            Ok(position) if position == group.next => return Ok(()),
            Ok(position) if position == group.expected => {}
            Ok(position) => {
                let (expected, found) = (group.expected.sequence, position.sequence);
                return Err(CommitError::Conflict { expected, found }.into());
            }
            Err(CommitError::Fenced { .. }) => return Err(Error::Fenced),
            Err(_) => return Err(CommitError::Unknown(unknown).into()),
        }
    }
    Err(Error::Failed(format!(
        "a commit was tried {RETRIES_MAX} times and never done"
    )))
}

/// Whether the shard stands where the group leads.
fn is_at(engine: &dyn Engine, group: &Group<'_>) -> bool {
    engine
        .position(&group.lease)
        .is_ok_and(|position| position == group.next)
}
