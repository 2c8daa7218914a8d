//! The promise: every commit comes to one end that its caller is told, in as few syncs as can be, whatever the engine
//! does with answers and whichever shards commits belong to.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};

use everstep::limits::COMMIT_QUEUE_BYTES_MAX;
use everstep::storage::batch::{Batch, Operation};
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot,
};
use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan};
use everstep::storage::key::Local;
use everstep::storage::record::{Name, Runnable};
use everstep::storage::{Commit, Error, Health, OpenOptions, Pending, Store};
use everstep::{InstanceId, Shard};

/// Found in review: a group used to end at every change of shard, so that a store of sixteen shards synced nearly once
/// for each commit.
#[test]
fn commits_of_many_shards_share_groups_too() {
    let plan = Plan::new();
    let engine = Faulty::new(Arc::new(Memory::new()), plan.clone());
    let store = OpenOptions::new().shards(16).open_engine(Arc::new(engine)).unwrap();
    let gate = Gate::new();
    plan.at_commit(1, CommitFault::Delay(gate.latch()));
    let before = plan.counts().0;
    let start = |number: u32| {
        let id = InstanceId::new(format!("i{number}")).unwrap();
        let namespace = store.namespace(&id);
        let mut commit = Commit::new(namespace.shard());
        commit.set(&namespace, &Local::Name(0), &Name("n".into()));
        store.try_submit(commit).unwrap()
    };
    let first = start(0);
    gate.wait(1);
    let pending: Vec<_> = (1..=1_000).map(start).collect();
    gate.open();
    first.wait().unwrap();
    for pending in pending {
        pending.wait().unwrap();
    }
    let groups = plan.counts().0 - before;
    assert!(groups <= 17, "{groups} groups for the first commit and sixteen shards");
}

/// Found in review: an attempt whose answer was lost, and that seemed not to be done, may arrive late. The attempt
/// after it then conflicts, and the commit is done all the same.
#[test]
fn a_commit_that_arrives_late_is_not_a_failure() {
    let memory: Arc<dyn Engine> = Arc::new(Memory::new());
    let late = Arc::new(Late {
        inner: Arc::clone(&memory),
        lost: AtomicBool::new(true),
    });
    let store = OpenOptions::new().open_engine(Arc::<Late>::clone(&late)).unwrap();
    late.lost.store(false, Ordering::Relaxed);
    let id = InstanceId::new("i").unwrap();
    let namespace = store.namespace(&id);
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name("n".into()));
    store.try_submit(commit).unwrap().wait().unwrap();
    assert!(matches!(store.health(), Health::Good));
}

/// Hands commits over while the first one is held in the engine, so that all the others wait behind it.
fn behind_one(plan: &Plan, store: &Store, commits: Vec<Commit>) -> Vec<everstep::storage::Result<()>> {
    let gate = Gate::new();
    plan.at_commit(1, CommitFault::Delay(gate.latch()));
    let first = store.try_submit(named(store, "first", 1)).unwrap();
    gate.wait(1);
    let pending: Vec<_> = commits
        .into_iter()
        .map(|commit| store.try_submit(commit).unwrap())
        .collect();
    gate.open();
    first.wait().unwrap();
    pending.into_iter().map(|pending| pending.wait().map(drop)).collect()
}

/// A commit that writes a name of so many bytes.
fn named(store: &Store, id: &str, bytes: usize) -> Commit {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name("n".repeat(bytes)));
    commit
}

/// Found in review: what the committer adds to commits was not counted, and a burst of small ones became a group that
/// no engine takes. All of them were refused as too large.
#[test]
fn a_burst_of_small_commits_is_not_too_large() {
    let plan = Plan::new();
    let engine = Faulty::new(Arc::new(Memory::new()), plan.clone());
    let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
    let commit = |number: u32| {
        let id = format!("i{number}");
        let mut commit = named(&store, &id, 3_000);
        let namespace = store.namespace(&InstanceId::new(id).unwrap());
        commit.set_runnable(&namespace, Some(&Runnable::new("a workflow", 0)));
        commit
    };
    for answer in behind_one(&plan, &store, (0..3_499).map(commit).collect()) {
        answer.unwrap();
    }
}

/// Found in review: the queue was bounded by the number of commits alone, each of which may have megabytes.
#[test]
fn what_waits_is_bounded_in_bytes_too() {
    let plan = Plan::new();
    let engine = Faulty::new(Arc::new(Memory::new()), plan.clone());
    let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
    let gate = Gate::new();
    plan.at_commit(1, CommitFault::Delay(gate.latch()));
    let large = || named(&store, "large", 4_000_000);
    let mut pending: Vec<Pending> = Vec::new();
    let error = loop {
        match store.try_submit(large()) {
            Ok(handed_over) => pending.push(handed_over),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "ES0213");
    assert_eq!(pending.len(), COMMIT_QUEUE_BYTES_MAX / 4_000_000 + 1);
    let mut waiting = pin!(store.commit(large()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "it waits for a place");
    gate.open();
    for pending in pending {
        pending.wait().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(waiting).unwrap();
    store.try_submit(large()).unwrap().wait().unwrap();
}

/// Found in review: the committer looked for the lease of the shard, panicked, and the store was over.
#[test]
fn a_commit_for_no_shard_is_refused_alone() {
    let store = OpenOptions::new()
        .shards(2)
        .open_engine(Arc::new(Memory::new()))
        .unwrap();
    let error = store.try_submit(Commit::new(Shard(2))).unwrap_err();
    assert!(matches!(error, Error::NoShard { shards: 2, .. }), "{error}");
    store.try_submit(named(&store, "i", 1)).unwrap().wait().unwrap();
}

/// Found in review: one damaged block, and whoever deleted something that lay in it stopped the whole store.
#[test]
fn only_the_commit_that_needs_what_cannot_be_read_is_refused() {
    let plan = Plan::new();
    let engine = Faulty::new(
        Arc::new(Bent::new(|bent, group| {
            let sweeps = |operation| matches!(operation, Operation::DeleteRange { .. });
            if group.batches.iter().flat_map(Batch::operations).any(sweeps) {
                return Err(CommitError::Unreadable(ReadError::Corrupt("a block".into())));
            }
            bent.commit(group)
        })),
        plan.clone(),
    );
    let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
    let sweep = || {
        let mut commit = named(&store, "i", 1);
        let namespace = store.namespace(&InstanceId::new("i").unwrap());
        commit.set_runnable(&namespace, Some(&Runnable::new("w", 0)));
        commit.delete_below(&namespace, &everstep::location::Location::root());
        commit
    };
    let commits = vec![
        named(&store, "a", 1),
        named(&store, "b", 1),
        sweep(),
        named(&store, "c", 1),
        sweep(),
    ];
    let answers = behind_one(&plan, &store, commits);
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().map_err(Error::code))
        .collect();
    assert_eq!(codes, [Ok(&()), Ok(&()), Err("ES0209"), Ok(&()), Err("ES0209")]);
    assert!(matches!(store.health(), Health::Good));
}

/// Found in review: when the answer to a commit was lost, and the engine could not be reached or was taken over after
/// that, its caller heard that nothing was written. It may have been.
#[test]
fn what_may_have_been_done_is_never_said_not_to_be() {
    for after in ["unavailable", "fenced", "conflict", "too large"] {
        let attempts = AtomicU32::new(0);
        let engine = Bent::new(move |bent, group| {
            if group.expected.sequence == 0 {
                return bent.commit(group);
            }
            Err(match (attempts.fetch_add(1, Ordering::Relaxed), after) {
                (0, _) => CommitError::Unknown(ErrorKind::TimedOut.into()),
                (_, "unavailable") => CommitError::Unavailable(ErrorKind::TimedOut.into()),
                (_, "fenced") => CommitError::Fenced { held: 2, carried: 1 },
                (_, "conflict") => CommitError::Conflict { expected: 1, found: 9 },
                (_, _) => CommitError::TooLarge { bytes: 2, max: 1 },
            })
        });
        let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
        let answer = store.try_submit(named(&store, "i", 1)).unwrap().wait();
        assert_eq!(answer.unwrap_err().code(), "ES0218", "{after}");
        assert!(matches!(store.health(), Health::Failed(_)), "{after}");
    }
}

/// Found in review: a panic while a commit was checked, and everybody who waited heard that the store was closed.
#[test]
fn a_panic_is_a_failure_for_everybody_who_waits() {
    let plan = Plan::new();
    let bent = Bent {
        panics: true,
        ..Bent::new(Memory::commit)
    };
    let engine = Faulty::new(Arc::new(bent), plan.clone());
    let store = OpenOptions::new().shards(2).open_engine(Arc::new(engine)).unwrap();
    let namespace = |number: u32| store.namespace(&InstanceId::new(format!("i{number}")).unwrap());
    let commits = (0..20).map(|number| {
        let mut commit = named(&store, &format!("i{number}"), 1);
        if number == 10 {
            commit.require(everstep::storage::Condition::Exists(
                namespace(number).instance().clone(),
            ));
        }
        commit
    });
    let answers = behind_one(&plan, &store, commits.collect());
    let failed = answers.iter().filter(|answer| answer.is_err());
    assert!(failed.clone().count() >= 1);
    for answer in failed {
        assert_eq!(answer.as_ref().unwrap_err().code(), "ES0211");
    }
}

type OnCommit = dyn Fn(&Memory, &Group<'_>) -> Result<(), CommitError> + Send + Sync;

/// Memory that commits as it is told.
struct Bent {
    inner: Memory,
    commit: Box<OnCommit>,
    /// Whether a look at the state of an instance panics.
    panics: bool,
}

impl Bent {
    fn new(commit: impl Fn(&Memory, &Group<'_>) -> Result<(), CommitError> + Send + Sync + 'static) -> Self {
        Self {
            inner: Memory::new(),
            commit: Box::new(commit),
            panics: false,
        }
    }
}

impl Engine for Bent {
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.inner.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.inner.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        (self.commit)(&self.inner, group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let wanted = key.windows(3).any(|part| part == b"i10");
        assert!(!(self.panics && wanted), "the engine is not what it seemed");
        self.inner.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.inner.snapshot(shard)
    }
}

/// Loses one answer, and does what it was asked only when it is asked again.
struct Late {
    inner: Arc<dyn Engine>,
    lost: AtomicBool,
}

impl Engine for Late {
    fn limits(&self) -> EngineLimits {
        self.inner.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.inner.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.inner.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        if !self.lost.swap(true, Ordering::Relaxed) {
            return Err(CommitError::Unknown(ErrorKind::TimedOut.into()));
        }
        self.inner.commit(group)?;
        // The first attempt has arrived by now, and this one finds its work done.
        if group.next.sequence > 1 {
            self.inner.commit(group)
        } else {
            Ok(())
        }
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.inner.snapshot(shard)
    }
}
