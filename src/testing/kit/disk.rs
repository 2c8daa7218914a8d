//! A disk in memory that counts commits, and takes the process down at one of them if it is told to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::ids::Shard;
use crate::storage::engine::{CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot};
use crate::storage::engines::Memory;

/// When the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// When it is about to make this commit, which is lost.
    Before(u64),
    /// Right after this commit became durable, before anybody was told.
    After(u64),
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before(number) => write!(f, "a crash before commit {number} was durable"),
            Self::After(number) => write!(f, "a crash after commit {number} was durable"),
        }
    }
}

/// The disk of one process. What is on it outlives the process.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    memory: Memory,
    shared: Arc<Shared>,
    /// Which process this is.
    life: u64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    committed: Notify,
    gone: Notify,
}

#[derive(Debug, Default)]
struct State {
    commits: u64,
    death: Option<Death>,
    life: u64,
    dead: bool,
}

impl Disk {
    pub(super) fn new(death: Option<Death>) -> Self {
        let shared = Shared::default();
        let disk = Self {
            memory: Memory::new(),
            shared: Arc::new(shared),
            life: 0,
        };
        disk.state().death = death;
        disk
    }

    /// The same disk in the next process. The one before can write nothing any more.
    pub(super) fn next_life(&self) -> Self {
        let mut state = self.state();
        state.life += 1;
        state.dead = false;
        Self {
            life: state.life,
            ..self.clone()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits so far, of all processes.
    pub(super) fn commits(&self) -> u64 {
        self.state().commits
    }

    /// Waits for the next commit.
    pub(super) async fn committed(&self) {
        self.shared.committed.notified().await;
    }

    /// Waits until so many commits were made.
    pub(super) async fn committed_to(&self, commits: u64) {
        while self.commits() < commits {
            self.committed().await;
        }
    }

    /// Does something, unless the process dies meanwhile.
    pub(super) async fn alive<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.shared.gone.notified() => None,
            done = work => Some(done),
        }
    }

    fn die(&self) -> CommitError {
        self.state().dead = true;
        self.shared.gone.notify_one();
        CommitError::Unavailable(std::io::ErrorKind::BrokenPipe.into())
    }
}

impl Engine for Disk {
    fn limits(&self) -> EngineLimits {
        self.memory.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.memory.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.memory.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let (number, death) = {
            let mut state = self.state();
            if state.dead || state.life != self.life {
                return Err(CommitError::Unavailable(std::io::ErrorKind::BrokenPipe.into()));
            }
            state.commits += 1;
            (state.commits, state.death)
        };
        if death == Some(Death::Before(number)) {
            return Err(self.die());
        }
        self.memory.commit(group)?;
        if death == Some(Death::After(number)) {
            return Err(self.die());
        }
        self.shared.committed.notify_waiters();
        Ok(())
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.memory.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.memory.snapshot(shard)
    }
}
