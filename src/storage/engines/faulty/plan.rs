//! What goes wrong and when: the side of a faulty engine that the test keeps.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gate::Latch;
use super::splitmix::Splitmix;
use super::undo::Undo;
use crate::storage::engine::{CommitError, Lease, ReadError};

/// What happens to a commit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CommitFault {
    /// Nothing is applied, and the engine is unavailable for this reason: `ErrorKind::StorageFull`, for one.
    Fail(ErrorKind),
    /// Nothing is applied, and the outcome is unknown.
    FailBefore,
    /// Everything is applied, and the outcome is unknown.
    FailAfter,
    /// Nothing is applied, and the commit is reported as done: a disk that lies. The position does not move either,
    /// so a later commit meets a conflict, and a store that is opened again is behind what was acknowledged.
    Drop,
    /// Only so many of the group's first operations are applied, the position moves as if it were all, and the
    /// commit is reported as done: an engine that is not atomic. With 0 a commit is lost whole without a trace.
    Tear(usize),
    /// The commit waits at the gate, and is then applied.
    Delay(Latch),
}

/// What happens to an acquisition.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AcquireFault {
    /// The shard is not taken, and the engine is unavailable for this reason.
    Fail(ErrorKind),
    /// The shard is not taken, and the outcome is unknown.
    FailBefore,
    /// The shard is taken, which fences the owner before, and the outcome is unknown.
    FailAfter,
    /// The acquisition waits at the gate, and then goes on.
    Delay(Latch),
}

/// What happens to a read: a get, a snapshot, a get or a scan in one, or a question for the position.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReadFault {
    /// The engine is unavailable for this reason.
    Fail(ErrorKind),
    /// The engine says that its data is damaged.
    Corrupt,
    /// The read waits at the gate, and then goes on.
    Delay(Latch),
}

/// What goes wrong and when. Clones share one plan; [`Faulty`](super::Faulty) gets one and the test keeps one.
///
/// Calls are counted from 1 for each kind, those that fail included. A fault is planned for the k-th call of its kind
/// from now on, 1 being the next; it happens once, and planning another one for the same call replaces it.
#[derive(Clone, Default)]
pub struct Plan {
    state: Arc<Mutex<State>>,
    /// Commits that would be lost, in order; `None` while nothing is held back. Locked while a commit is applied, so
    /// that a crash falls between two commits and never into one. Locked before `state`.
    held: Arc<Mutex<Option<Vec<Undo>>>>,
}

#[derive(Default)]
struct State {
    commits: Calls<CommitFault>,
    acquires: Calls<AcquireFault>,
    reads: Calls<ReadFault>,
    flips: HashMap<Vec<u8>, (usize, u8)>,
    crashed: bool,
}

/// The calls of one kind.
struct Calls<F> {
    count: u64,
    faults: HashMap<u64, F>,
}

impl<F> Default for Calls<F> {
    fn default() -> Self {
        Self {
            count: 0,
            faults: HashMap::new(),
        }
    }
}

impl<F> Calls<F> {
    fn plan(&mut self, from_now: u64, fault: F) {
        self.faults.insert(self.count + from_now, fault);
    }

    fn next(&mut self) -> Option<F> {
        self.count += 1;
        self.faults.remove(&self.count)
    }
}

impl Plan {
    /// A plan by which nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// A plan drawn from a seed: each of the first `commits` commits meets, with a chance of one in `odds`, one of
    /// the faults. The same arguments give the same plan, everywhere.
    pub fn random(seed: u64, commits: u64, odds: u64, faults: &[CommitFault]) -> Self {
        let plan = Self::new();
        let mut random = Splitmix::new(seed);
        for number in 1..=commits {
            if !faults.is_empty() && random.below(odds.max(1)) == 0 {
                let chosen = random.below(faults.len() as u64) as usize;
                plan.at_commit(number, faults[chosen].clone());
            }
        }
        plan
    }

    /// Plans a fault for the k-th commit from now on.
    pub fn at_commit(&self, k: u64, fault: CommitFault) {
        self.state().commits.plan(k, fault);
    }

    /// Plans a fault for the k-th acquisition from now on.
    pub fn at_acquire(&self, k: u64, fault: AcquireFault) {
        self.state().acquires.plan(k, fault);
    }

    /// Plans a fault for the k-th read from now on.
    pub fn at_read(&self, k: u64, fault: ReadFault) {
        self.state().reads.plan(k, fault);
    }

    /// How many commits, acquisitions and reads there were so far.
    pub fn counts(&self) -> (u64, u64, u64) {
        let state = self.state();
        (state.commits.count, state.acquires.count, state.reads.count)
    }

    /// From now on every read of this key gives its value with the bits of `mask` flipped in the byte at `at`. A
    /// value that is too short is not changed.
    pub fn flip(&self, key: &[u8], at: usize, mask: u8) {
        self.state().flips.insert(key.to_vec(), (at, mask));
    }

    /// From now on reads of this key give what is stored again.
    pub fn mend(&self, key: &[u8]) {
        self.state().flips.remove(key);
    }

    /// From now on commits are acknowledged before they are safe: until the next [`Plan::sync`], a
    /// [`Plan::crash`] loses them. Reads see them meanwhile, as they see what a disk has only in its cache. An
    /// acquisition is always safe when it returns, and so is everything before it.
    ///
    /// Works over engines that store the position they are given, also one that goes back.
    pub fn hold_back(&self) {
        self.held().get_or_insert_default();
    }

    /// Makes everything safe that was committed so far. What comes is held back again.
    pub fn sync(&self) {
        if let Some(held) = self.held().as_mut() {
            held.clear();
        }
    }

    /// How many commits a crash would lose now.
    pub fn unsynced(&self) -> usize {
        self.held().as_ref().map_or(0, Vec::len)
    }

    /// Ends the engine as a power cut would, between two commits: what was held back is lost, and from now on
    /// everything is unavailable, open snapshots included. Calls that wait at a gate find out when it opens.
    ///
    /// To go on, wrap the engine underneath, or the store that it is opened from again, under a new plan. Fails when
    /// the engine underneath refuses to take back what is lost.
    pub fn crash(&self) -> Result<(), CommitError> {
        let mut held = self.held();
        self.state().crashed = true;
        let lost = held.take().unwrap_or_default();
        lost.iter().rev().try_for_each(Undo::take_back)
    }

    /// Counts a commit.
    pub(super) fn commits(&self) -> Option<CommitFault> {
        self.state().commits.next()
    }

    /// Counts an acquisition.
    pub(super) fn acquires(&self) -> Option<AcquireFault> {
        self.state().acquires.next()
    }

    /// Counts a read, and fails it if so planned.
    pub(super) fn reads(&self) -> Result<(), ReadError> {
        let fault = self.state().reads.next();
        if let Some(ReadFault::Delay(latch)) = &fault {
            latch.pass();
        }
        self.alive().map_err(ReadError::Unavailable)?;
        match fault {
            Some(ReadFault::Fail(kind)) => Err(ReadError::Unavailable(kind.into())),
            Some(ReadFault::Corrupt) => Err(ReadError::Corrupt("the plan says so".into())),
            Some(ReadFault::Delay(_)) | None => Ok(()),
        }
    }

    /// Says whether the engine has crashed.
    pub(super) fn alive(&self) -> io::Result<()> {
        if self.state().crashed {
            Err(io::Error::new(ErrorKind::BrokenPipe, "the plan crashed"))
        } else {
            Ok(())
        }
    }

    /// The list of what would be lost, to be kept while a commit is applied.
    pub(super) fn alive_for_commit(&self) -> Result<MutexGuard<'_, Option<Vec<Undo>>>, CommitError> {
        let held = self.held();
        self.alive().map_err(CommitError::Unavailable)?;
        Ok(held)
    }

    /// Acquires between two commits; what was committed before is safe afterwards.
    pub(super) fn acquire(&self, acquire: impl FnOnce() -> Result<Lease, CommitError>) -> Result<Lease, CommitError> {
        let mut held = self.alive_for_commit()?;
        let lease = acquire()?;
        if let Some(held) = held.as_mut() {
            held.clear();
        }
        Ok(lease)
    }

    /// The value as the plan wants it read.
    pub(super) fn damaged(&self, key: &[u8], value: Vec<u8>) -> Vec<u8> {
        self.damage(key, &value).unwrap_or(value)
    }

    /// The value with its flipped bits, if the key has any.
    pub(super) fn damage(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let (at, mask) = *self.state().flips.get(key)?;
        let mut damaged = value.to_vec();
        *damaged.get_mut(at)? ^= mask;
        Some(damaged)
    }

    // A test that panics while it holds a lock must not hide its own message behind that of a poisoned lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Option<Vec<Undo>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
