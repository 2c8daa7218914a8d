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

mod company;
mod load;
mod settle;
mod worker;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::limits::COMMIT_QUEUE_MAX;
use crate::spawn;
use crate::storage::commit::Commit;
use crate::storage::engine::{CommitError, EngineLimits};
use crate::storage::error::{Error, Result};
use crate::storage::failure::Failure;
#[cfg(feature = "testing")]
use crate::storage::pace::Pace;
use crate::storage::spare;

use load::Load;
pub(crate) use settle::settle;
pub(crate) use worker::Worker;

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
    /// Its bytes when it was handed over.
    bytes: usize,
    reply: oneshot::Sender<Answer>,
}

impl Request {
    /// Tells the caller what became of its commit. One that went away does not want to know.
    fn answer(self, outcome: Result<Receipt>) {
        let spent = self.commit;
        let _ = self.reply.send(Answer { outcome, spent });
    }
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
    pub async fn durable(mut self) -> Result<Receipt> {
        poll_fn(|context| self.poll_durable(context)).await
    }

    /// The same for whoever has to keep it while it waits.
    pub(crate) fn poll_durable(&mut self, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        let answer = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answer.map_err(|_| Error::Closed).and_then(Answer::outcome))
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
    load: Arc<Load>,
    failure: Arc<Failure>,
    limits: EngineLimits,
    shards: u16,
}

/// A place in the queue that was waited for.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    permit: mpsc::Permit<'a, Request>,
    load: &'a Load,
}

impl Place<'_> {
    /// Puts the commit into the queue. From here on it will be done or refused, whatever becomes of the caller.
    pub(crate) fn hand_over(self, commit: Commit) -> Pending {
        let (reply, answer) = oneshot::channel();
        let bytes = commit.bytes();
        self.load.add(bytes);
        self.permit.send(Request { commit, bytes, reply });
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
            load: worker.load(),
            failure: worker.failure(),
            limits: worker.limits(),
            shards: worker.shards(),
        };
        (committer, requests)
    }

    /// Waits for a place in the queue. To be used without waiting for anything else: it stands for any number of bytes.
    pub(crate) async fn place(&self) -> Result<Place<'_>> {
        self.check()?;
        let permit = self.queue.reserve().await.map_err(|_| Error::Closed)?;
        self.load.lightens().await;
        let load = &self.load;
        Ok(Place { permit, load })
    }

    /// Takes a place in the queue if there is one.
    pub(crate) fn try_place(&self) -> Result<Place<'_>> {
        self.check()?;
        if self.load.is_heavy() {
            return Err(Error::Overloaded);
        }
        let permit = self.queue.try_reserve().map_err(|error| match error {
            mpsc::error::TrySendError::Full(()) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(()) => Error::Closed,
        })?;
        let load = &self.load;
        Ok(Place { permit, load })
    }

    /// Refuses a commit that could never be done, before it can spoil a group.
    pub(crate) fn fits(&self, commit: &Commit) -> Result<()> {
        let (shard, shards) = (commit.shard, self.shards);
        if shard.0 >= shards {
            return Err(Error::NoShard { shard, shards });
        }
        self.limits.check(std::slice::from_ref(&commit.batch))?;
        let (bytes, max) = (commit.settled_bytes(), self.limits.group_bytes_max);
        if bytes > max {
            return Err(CommitError::TooLarge { bytes, max }.into());
        }
        Ok(())
    }

    /// Why the store acknowledges nothing any more, if it does not.
    pub(crate) fn failure(&self) -> &Arc<Failure> {
        &self.failure
    }

    /// Closes the queue; gives where a failure of what is still in it will show.
    pub(crate) fn close(self) -> Arc<Failure> {
        self.failure
    }

    fn check(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }
}
