//! The thread's side of the committer: it gathers groups, checks, writes, and answers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::company::{Company, Machine};
use super::load::Load;
use super::{Receipt, Request, settle};
use crate::limits::{COMMIT_BYTES_MAX, GROUP_COMMITS_MAX};
use crate::storage::activation::Activations;
use crate::storage::batch::Batch;
use crate::storage::condition::Checker;
use crate::storage::engine::{CommitError, Engine, EngineLimits, Group, Lease, Position, ReadError};
use crate::storage::error::{Error, Result};
use crate::storage::failure::Failure;
use crate::storage::inboxes::{InboxBounds, Inboxes};
use crate::storage::intent::Intents;
#[cfg(feature = "testing")]
use crate::storage::pace::Pace;
use crate::storage::watermark::Watermark;
use crate::telemetry;

/// The thread's side of the committer.
pub(crate) struct Worker {
    engine: Arc<dyn Engine>,
    leases: Vec<Lease>,
    positions: Vec<Position>,
    activations: Arc<Activations>,
    watermark: Option<Arc<Watermark>>,
    failure: Arc<Failure>,
    load: Arc<Load>,
    /// Held while a group is written, of whichever shard.
    writing: Arc<Mutex<()>>,
    group_bytes_max: usize,
    company: Company<Machine>,
    /// Requests that were taken out of the queue, in order.
    backlog: VecDeque<Request>,
    /// Those of them that the group that is being gathered leaves to a later one.
    passed_over: VecDeque<Request>,
    /// The request that is being checked: whatever becomes of the check, its caller is answered.
    at_hand: Option<Request>,
    /// Of so many requests each is a group of its own.
    alone: usize,
    // Kept between groups, so that a group costs no allocation of its own.
    batches: Vec<Batch>,
    staged: Vec<Staged>,
    checker: Checker,
    intents: Intents,
    inboxes: Inboxes,
    delivered: Arc<[AtomicU64]>,
    /// Commits that were made durable.
    tally: Arc<AtomicU64>,
}

/// A request that was checked. If it was accepted, its batch is with those of the group.
struct Staged {
    request: Request,
    outcome: Result<Receipt>,
    /// How many operations it came with. What is behind them was added here.
    own: usize,
}

/// Where a group goes.
struct Course {
    lease: Lease,
    expected: Position,
    next: Position,
}

impl Worker {
    /// A worker that owns the leases' shards; lease `i` is for shard `i`.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        leases: Vec<Lease>,
        activations: Arc<Activations>,
        watermark: Option<Arc<Watermark>>,
        inbox: InboxBounds,
    ) -> Self {
        let positions = leases.iter().map(|lease| lease.position).collect();
        let group_bytes_max = engine.limits().group_bytes_max.min(crate::limits::GROUP_BYTES_MAX);
        let delivered = leases.iter().map(|_| AtomicU64::new(0)).collect();
        let failure = watermark
            .as_ref()
            .map_or_else(Arc::default, |watermark| watermark.failure());
        telemetry::store_works(true);
        Self {
            engine,
            leases,
            positions,
            activations,
            watermark,
            failure,
            load: Arc::default(),
            writing: Arc::default(),
            group_bytes_max,
            company: Company::new(Machine::new()),
            backlog: VecDeque::new(),
            passed_over: VecDeque::new(),
            at_hand: None,
            alone: 0,
            batches: Vec::new(),
            staged: Vec::new(),
            checker: Checker::default(),
            intents: Intents::default(),
            inboxes: Inboxes::new(inbox),
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

    /// Whoever holds this sees all shards at one moment, between two groups.
    pub(crate) fn writing(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.writing)
    }

    pub(super) fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }

    pub(super) fn failure(&self) -> Arc<Failure> {
        Arc::clone(&self.failure)
    }

    pub(super) fn shards(&self) -> u16 {
        u16::try_from(self.leases.len()).expect("there are at most SHARDS_MAX shards")
    }

    /// What one commit may hold: what the engine takes, and never more than the system allows.
    pub(super) fn limits(&self) -> EngineLimits {
        let engine = self.engine.limits();
        EngineLimits {
            group_bytes_max: engine.group_bytes_max.min(COMMIT_BYTES_MAX),
            ..engine
        }
    }

    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        self.company.begin_to_wait();
        while self.await_request(&mut requests) {
            self.guarded(&mut requests);
        }
        self.end();
    }

    /// Waits until there is a request, whenever it comes. False when there will be none any more.
    fn await_request(&mut self, requests: &mut mpsc::Receiver<Request>) -> bool {
        if self.backlog.is_empty() {
            let next = self.company.linger(requests).or_else(|| requests.blocking_recv());
            self.backlog.extend(next);
        }
        !self.backlog.is_empty()
    }

    /// The same in a task. The pace comes before a group is closed, so that more may join it meanwhile.
    #[cfg(feature = "testing")]
    pub(super) async fn run_in_task(mut self, mut requests: mpsc::Receiver<Request>, pace: Pace) {
        loop {
            if self.backlog.is_empty() {
                self.backlog.extend(requests.recv().await);
            }
            if self.backlog.is_empty() {
                break;
            }
            pace.before_group().await;
            self.guarded(&mut requests);
        }
        self.end();
    }

    /// A panic in an engine must not leave callers behind who wait for ever, nor a store that looks healthy.
    fn guarded(&mut self, requests: &mut mpsc::Receiver<Request>) {
        let done = catch_unwind(AssertUnwindSafe(|| self.group(requests)));
        if done.is_err() {
            let failure = self.fail(Error::Failed("the committer panicked".into()));
            if let Some(request) = self.at_hand.take() {
                let (outcome, own) = (Err(failure.clone()), request.commit.batch.len());
                self.staged.push(Staged { request, outcome, own });
            }
            self.keep_passed_over();
            self.forget(false);
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
    fn group(&mut self, requests: &mut mpsc::Receiver<Request>) {
        let Some(shard) = self.backlog.front().map(|first| first.commit.shard) else {
            return;
        };
        let expected = self.positions[usize::from(shard.0)];
        let mut position = expected;
        let mut bytes = 0;
        while let Some(request) = self.backlog.pop_front().or_else(|| self.another(requests)) {
            if request.commit.shard != shard {
                self.passed_over.push_back(request);
                if self.passed_over.len() == GROUP_COMMITS_MAX {
                    break;
                }
                continue;
            }
            // With what is added to it here: a group that the engine does not take would be refused as a whole.
            bytes += request.commit.settled_bytes();
            if bytes > self.group_bytes_max && !self.staged.is_empty() {
                self.passed_over.push_back(request);
                break;
            }
            let closes = request.commit.sweeps || self.alone > 0;
            self.stage(request, &mut position);
            if closes || self.staged.len() == GROUP_COMMITS_MAX {
                break;
            }
        }
        self.alone = self.alone.saturating_sub(1);
        self.keep_passed_over();
        telemetry::group(self.batches.len(), self.backlog.len() + requests.len());
        let began = self.company.now();
        let outcome = self.write(&Course {
            lease: self.leases[usize::from(shard.0)],
            expected,
            next: position,
        });
        let crowd = self.staged.len() + self.backlog.len() + requests.len();
        self.company.wrote(began, crowd);
        let outcome = match outcome {
            Err(ReadError::Corrupt(_)) if self.staged.len() > 1 => return self.one_by_one(),
            Err(unread) => Err(unread.into()),
            Ok(outcome) => outcome,
        };
        let last = self.forget(outcome.is_ok());
        if outcome.is_ok() {
            self.tally
                .fetch_add(position.sequence - expected.sequence, Ordering::Relaxed);
            // Before anybody is answered: whoever looks from here on finds the messages in the inboxes.
            self.delivered[usize::from(shard.0)].fetch_max(last, Ordering::AcqRel);
        }
        self.answer(&outcome);
    }

    /// What a group left to a later one comes before what was behind it.
    fn keep_passed_over(&mut self) {
        if !self.passed_over.is_empty() {
            self.passed_over.append(&mut self.backlog);
            std::mem::swap(&mut self.passed_over, &mut self.backlog);
        }
    }

    /// Another request for the group, if one waits, or comes soon and is waited for.
    fn another(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        let here = self.staged.len() + self.passed_over.len();
        self.company.another(here, requests)
    }

    /// Checks one request against the store and the commits before it in the group, and adds it if it holds.
    fn stage(&mut self, request: Request, position: &mut Position) {
        let own = request.commit.batch.len();
        let commit = &mut self.at_hand.insert(request).commit;
        let checked = self
            .checker
            .check(commit, &*self.engine, &self.activations, &self.batches);
        let settled = checked
            .and_then(|()| self.inboxes.settle(commit, &*self.engine))
            .and_then(|()| {
                let settled = self.intents.settle(commit, &*self.engine);
                settled.inspect_err(|_| self.inboxes.doubt())
            });
        let outcome = settled.map(|()| {
            position.sequence += 1;
            position.chain = commit.batch.chain(position.chain);
            self.checker.remember(commit, self.batches.len());
            self.batches.push(std::mem::take(&mut commit.batch));
            Receipt {
                sequence: position.sequence,
            }
        });
        if let Some(request) = self.at_hand.take() {
            self.staged.push(Staged { request, outcome, own });
        }
    }

    /// Makes the staged group durable; or says what could not be read for it, and then nothing was written.
    fn write(&mut self, course: &Course) -> Result<Result<()>, ReadError> {
        if let Some(failure) = self.failure.get() {
            return Ok(Err(failure.clone()));
        }
        if self.batches.is_empty() {
            return Ok(Ok(()));
        }
        let group = Group {
            lease: course.lease,
            expected: course.expected,
            next: course.next,
            batches: &self.batches,
        };
        let settled = {
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            settle(&*self.engine, &group)
        };
        match settled {
            Ok(()) => {}
            Err(CommitError::Unreadable(unread)) => return Err(unread),
            Err(error) => return Ok(Err(self.fail(error.into()))),
        }
        self.positions[usize::from(course.lease.shard.0)] = course.next;
        let Some(watermark) = &self.watermark else {
            return Ok(Ok(()));
        };
        let advanced = watermark.advance(course.lease.shard, course.lease.epoch, course.next);
        // The engine has the group by now. It was not noted, so nobody is told that it is done; and nobody that it is not.
        Ok(advanced.map_err(|error| match self.fail(error) {
            Error::Failed(reason) => Error::Unknown(reason),
            error => Error::Unknown(error.to_string()),
        }))
    }

    /// Takes the group apart again: something that a commit of it removes or replaces could not be read, and nothing
    /// was written. Each of its requests is tried alone, so that only the one that is to blame is refused.
    fn one_by_one(&mut self) {
        self.forget(false);
        self.checker.forget();
        self.alone = self.staged.len();
        let mut batches = self.batches.drain(..);
        for staged in self.staged.drain(..).rev() {
            let mut request = staged.request;
            if staged.outcome.is_ok() {
                request.commit.batch = batches.next_back().unwrap_or_default();
            }
            request.commit.batch.truncate(staged.own);
            self.backlog.push_front(request);
        }
    }

    /// The group is done, or never will be. Gives the number of its last message.
    fn forget(&mut self, written: bool) -> u64 {
        self.inboxes.forget(written);
        self.intents.forget(written)
    }

    /// Answers everyone in the group: what was decided for each, or the failure of the whole.
    fn answer(&mut self, outcome: &Result<()>) {
        let mut batches = self.batches.drain(..);
        let mut bytes = 0;
        for Staged {
            mut request,
            outcome: its,
            ..
        } in self.staged.drain(..)
        {
            if its.is_ok() {
                // Accepted commits gave their batches to the group in this order.
                request.commit.batch = batches.next().unwrap_or_default();
            }
            bytes += request.bytes;
            request.answer(outcome.clone().and(its));
        }
        drop(batches);
        self.load.remove(bytes);
        self.checker.forget();
    }

    /// Poisons the store, unless the engine merely could not be reached and nothing was written.
    fn fail(&self, error: Error) -> Error {
        if matches!(error, Error::Unavailable(_) | Error::TooLarge { .. }) {
            return error;
        }
        tracing::error!(%error, "the store failed and acknowledges nothing any more");
        telemetry::store_works(false);
        if let Error::Unknown(reason) = &error {
            // What comes later is known not to be done.
            self.failure.set(Error::Failed(reason.clone()));
            return error;
        }
        self.failure.set(error).clone()
    }
}
