//! The promise: whatever goes wrong under a commit, all of it is there afterwards or nothing is, and what was
//! acknowledged is there (FAULTS 4, 5, 6 and 15).
//!
//! The engine is memory that fails on command; reopening is opening the same memory under a new plan.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod kit;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everstep::Shard;
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot,
};
use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan, ReadFault};
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::{Completed, Entry, EntryKind, Runnable, State, Status};
use everstep::storage::{Commit, Condition, Error, Health, OpenOptions, Receipt, Result, Store};
use kit::Rows;

/// Opens the memory under a plan.
fn open(memory: &Memory) -> (Store, Plan) {
    let plan = Plan::new();
    let engine = Faulty::new(Arc::new(memory.clone()), plan.clone());
    (OpenOptions::new().open_engine(Arc::new(engine)).unwrap(), plan)
}

/// One decision with everything in it: a message is taken into the history, the alarm moves, the index follows, and
/// the instance need not run again.
fn decision(store: &Store, revision: u64) -> Commit {
    let namespace = store.namespace(&kit::instance("a"));
    let state = kit::state(revision, Status::Sleeping);
    let entry = Entry {
        id: revision,
        completed: Some(Completed {
            order: revision,
            at_ms: revision,
        }),
        kind: EntryKind::Receive {
            until_ms: None,
            taken: vec![kit::message(&format!("m{revision}"))],
        },
        ran: None,
    };
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(namespace.instance().clone(), revision - 1))
        .set(&namespace, &Local::History(Cow::Owned(kit::location(revision))), &entry)
        .delete(&namespace, &Local::Inbox(kit::arrival(revision)))
        .set_index(&namespace, &kit::origin(), &state)
        .set_runnable(&namespace, None)
        .set_state(&namespace, Some(1_000 + revision - 1), &state);
    commit
}

/// A started instance with messages for the decisions to come.
fn prepare(store: &Store) {
    let namespace = store.namespace(&kit::instance("a"));
    kit::commit(store, kit::start(&namespace)).unwrap();
    for number in 2..8 {
        kit::commit(store, kit::deliver(&namespace, number, &format!("m{number}"))).unwrap();
    }
}

fn rows(memory: &Memory) -> Rows {
    let (store, _) = open(memory);
    kit::rows(&store).unwrap()
}

fn state(store: &Store) -> State {
    let namespace = store.namespace(&kit::instance("a"));
    let snapshot = store.snapshot(Shard(0)).unwrap();
    namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap()
}

/// What must hold whatever happened: an entry and its message are never both there nor both missing, and alarm and
/// index say what the state says.
fn check_sense(rows: &Rows, store: &Store) {
    let state = state(store);
    let shard = Shard(0);
    let has = |key: Key<'_>| rows.contains_key(&key.pack());
    for number in 2..8 {
        let entry = has(Key::Instance(
            shard,
            "a".into(),
            Local::History(Cow::Owned(kit::location(number))),
        ));
        let message = has(Key::Instance(shard, "a".into(), Local::Inbox(kit::arrival(number))));
        assert!(entry != message, "entry {number}: {entry}, message: {message}");
        assert_eq!(entry, number <= state.revision);
        assert!(has(Key::Dedup(shard, "a".into(), format!("m{number}").into())));
    }
    let alarms = store.alarms(shard, None).unwrap().rows;
    let alarms: Vec<_> = alarms.iter().map(|(at, _, alarm)| (*at, alarm.revision)).collect();
    assert_eq!(alarms, [(state.alarm_at_ms.unwrap(), state.revision)]);
    let index = Key::Index(shard, kit::origin().created_at_ms, "a".into()).pack();
    let row: everstep::storage::record::IndexRow = everstep::storage::value::decode(&index, &rows[&index]).unwrap();
    assert_eq!((row.status, row.updated_at_ms), (state.status, state.updated_at_ms));
    assert_eq!(has(Key::Runnable(shard, "a".into())), state.revision == 1);
}

/// How a commit is cut. `Crash` loses everything that was not synced.
#[derive(Debug, Clone, Copy)]
enum Cut {
    FailBefore,
    FailAfter,
    Fail,
    Crash,
}

/// Five decisions, of which the k-th is cut; gives what each was answered.
fn decide(store: &Store, plan: &Plan, cut: Cut, k: u64) -> Vec<Result<Receipt>> {
    match cut {
        Cut::FailBefore => plan.at_commit(k, CommitFault::FailBefore),
        Cut::FailAfter => plan.at_commit(k, CommitFault::FailAfter),
        Cut::Fail => plan.at_commit(k, CommitFault::Fail(ErrorKind::TimedOut)),
        Cut::Crash => {}
    }
    let answers = (1..=5).map(|number| {
        if number == k && matches!(cut, Cut::Crash) {
            let gate = Gate::new();
            plan.at_commit(1, CommitFault::Delay(gate.latch()));
            let pending = store.try_submit(decision(store, number + 1)).unwrap();
            gate.wait(1);
            plan.crash().unwrap();
            gate.open();
            return pending.wait();
        }
        kit::commit(store, decision(store, number + 1))
    });
    answers.collect()
}

/// FAULTS 4 and 5.
#[test]
fn every_decision_is_cut_in_every_way() {
    for k in 1..=5 {
        for cut in [Cut::FailBefore, Cut::FailAfter, Cut::Fail, Cut::Crash] {
            let memory = Memory::new();
            let (store, plan) = open(&memory);
            prepare(&store);
            let answers = decide(&store, &plan, cut, k);
            let acknowledged = answers.iter().take_while(|answer| answer.is_ok()).count() as u64;
            match cut {
                // Resolved: done once, and the answer says so.
                Cut::FailBefore | Cut::FailAfter => assert_eq!(acknowledged, 5, "{cut:?} {k}: {answers:?}"),
                // Not there, so the next one does not find the revision that it builds on.
                Cut::Fail => {
                    assert_eq!(acknowledged, k - 1, "{cut:?} {k}");
                    assert_eq!(answers[k as usize - 1].as_ref().unwrap_err().code(), "ES0217");
                    assert!(matches!(store.health(), Health::Good), "unavailable is not poison");
                    for later in &answers[k as usize..] {
                        assert_eq!(later.as_ref().unwrap_err().code(), "ES0214");
                    }
                }
                Cut::Crash => assert_eq!(acknowledged, k - 1, "{cut:?} {k}"),
            }
            let sequences: Vec<_> = answers.iter().flatten().map(|receipt| receipt.sequence).collect();
            assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
            drop(store);

            let (store, _) = open(&memory);
            let found = kit::rows(&store).unwrap();
            check_sense(&found, &store);
            assert_eq!(state(&store).revision, acknowledged + 1, "{cut:?} {k}");
            // And it goes on from there.
            kit::commit(&store, decision(&store, acknowledged + 2)).unwrap();
            check_sense(&kit::rows(&store).unwrap(), &store);
        }
    }
}

/// FAULTS 4: the proof of the proof. An engine that tears a commit is caught by what the test above looks at.
#[test]
fn a_torn_decision_would_be_seen() {
    let operations = 7;
    for kept in 0..operations {
        let memory = Memory::new();
        let (store, plan) = open(&memory);
        prepare(&store);
        plan.at_commit(1, CommitFault::Tear(kept));
        kit::commit(&store, decision(&store, 2)).unwrap();
        let torn = kit::rows(&store).unwrap();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check_sense(&torn, &store))).is_err();
        // Nothing at all is sense as well; that it is not what was acknowledged is what the revision tells.
        assert!(
            seen || state(&store).revision == 1,
            "{kept} of {operations} operations make sense"
        );
    }
}

/// FAULTS 5: what was acknowledged before a sync is there after a power cut, and the rest is cut off at a commit.
#[test]
fn a_power_cut_takes_whole_commits_from_the_end() {
    for synced in 0..=5 {
        let memory = Memory::new();
        let (store, plan) = open(&memory);
        prepare(&store);
        plan.hold_back();
        for number in 1..=5 {
            kit::commit(&store, decision(&store, number + 1)).unwrap();
            if number <= synced {
                plan.sync();
            }
        }
        plan.crash().unwrap();
        drop(store);
        let (store, _) = open(&memory);
        check_sense(&kit::rows(&store).unwrap(), &store);
        assert_eq!(state(&store).revision, synced + 1);
    }
}

/// FAULTS 15: an instance is purged as a whole or not at all, and the index agrees.
#[test]
fn a_purge_is_whole_or_absent() {
    for fault in [
        None,
        Some(CommitFault::FailBefore),
        Some(CommitFault::FailAfter),
        Some(CommitFault::Fail(ErrorKind::TimedOut)),
    ] {
        let memory = Memory::new();
        let (store, plan) = open(&memory);
        let namespace = store.namespace(&kit::instance("a"));
        let other = store.namespace(&kit::instance("ab"));
        kit::commit(&store, kit::start(&other)).unwrap();
        kit::commit(&store, kit::deliver(&other, 50, "m2")).unwrap();
        let without = kit::rows(&store).unwrap();
        prepare(&store);
        let with = kit::rows(&store).unwrap();
        if let Some(fault) = &fault {
            plan.at_commit(1, fault.clone());
        }
        let mut purge = Commit::new(namespace.shard());
        purge.purge(&namespace, &kit::origin(), &state(&store));
        let answer = kit::commit(&store, purge);
        drop(store);
        let expected = match &fault {
            Some(CommitFault::Fail(_)) => {
                assert_eq!(answer.unwrap_err().code(), "ES0217");
                &with
            }
            _ => {
                answer.unwrap();
                &without
            }
        };
        assert_eq!(&rows(&memory), expected, "{fault:?}");
    }
}

/// FAULTS 6: an outcome that can't be found out ends the store, at once and for everyone, until it is opened anew.
#[test]
fn what_can_not_be_found_out_poisons() {
    for (fault, revision) in [(CommitFault::FailBefore, 1), (CommitFault::FailAfter, 2)] {
        let memory = Memory::new();
        let (store, plan) = open(&memory);
        prepare(&store);
        plan.at_commit(1, fault.clone());
        // The first read checks the condition, the second tells how large the message is that goes, and the third asks
        // for the position.
        plan.at_read(3, ReadFault::Fail(ErrorKind::BrokenPipe));
        let error = kit::commit(&store, decision(&store, 2)).unwrap_err();
        assert_eq!(error.code(), "ES0218", "{error}");
        assert!(error.to_string().contains("restart to recover"), "{error}");
        let commits = plan.counts().0;
        for _ in 0..100 {
            let later = kit::commit(&store, decision(&store, 2)).unwrap_err();
            assert_eq!(later.code(), "ES0211", "nothing was tried for it: {later}");
        }
        assert_eq!(plan.counts().0, commits, "the engine was asked again");
        assert!(
            matches!(store.health(), Health::Failed(Error::Failed(_))),
            "{:?}",
            store.health()
        );
        assert_eq!(store.close().unwrap_err().code(), "ES0211");

        let (store, _) = open(&memory);
        assert!(matches!(store.health(), Health::Good));
        assert_eq!(state(&store).revision, revision, "{fault:?}");
        check_sense(&kit::rows(&store).unwrap(), &store);
        kit::commit(&store, decision(&store, revision + 1)).unwrap();
    }
}

/// FAULTS 6: one that waits behind the failed commit is not acknowledged either.
#[test]
fn who_waits_behind_a_failure_fails_with_it() {
    let memory = Memory::new();
    let (store, plan) = open(&memory);
    prepare(&store);
    let gate = Gate::new();
    plan.at_commit(1, CommitFault::Delay(gate.latch()));
    let first = store.try_submit(decision(&store, 2)).unwrap();
    gate.wait(1);
    // These two wait in the queue and become the next group.
    plan.at_commit(1, CommitFault::Fail(ErrorKind::StorageFull));
    let second = store.try_submit(decision(&store, 3)).unwrap();
    let third = store.try_submit(decision(&store, 4)).unwrap();
    gate.open();
    assert!(first.wait().is_ok());
    assert_eq!(second.wait().unwrap_err().code(), "ES0210");
    assert_eq!(third.wait().unwrap_err().code(), "ES0210");
    assert!(matches!(store.health(), Health::Failed(Error::Full)));
    drop(store);
    let (store, _) = open(&memory);
    assert_eq!(state(&store).revision, 2);
}

/// FAULTS 6: a commit that is never done, however often it is tried, is not tried for ever.
#[test]
fn a_commit_that_is_never_done_is_given_up() {
    let memory = Memory::new();
    let (store, plan) = open(&memory);
    prepare(&store);
    for k in 1..100 {
        plan.at_commit(k, CommitFault::FailBefore);
    }
    assert_eq!(kit::commit(&store, decision(&store, 2)).unwrap_err().code(), "ES0218");
    drop(store);
    assert_eq!(state(&open(&memory).0).revision, 1);
}

/// FAULTS 5: a disk that says done and did nothing is found out by the next commit.
#[test]
fn a_lying_disk_is_caught() {
    let memory = Memory::new();
    let (store, plan) = open(&memory);
    prepare(&store);
    plan.at_commit(1, CommitFault::Drop);
    kit::commit(&store, decision(&store, 2)).unwrap();
    let namespace = store.namespace(&kit::instance("b"));
    let error = kit::commit(&store, kit::start(&namespace)).unwrap_err();
    assert_eq!(error.code(), "ES0211", "{error}");
    assert!(matches!(store.health(), Health::Failed(_)));
    drop(store);
    let (store, _) = open(&memory);
    assert_eq!(state(&store).revision, 1, "nothing was built on what is not there");
}

/// FAULTS 11, as far as it concerns commits: the state of one instance is damaged.
#[test]
fn a_row_that_can_not_be_read_refuses_only_who_needs_it() {
    let memory = Memory::new();
    let (store, plan) = open(&memory);
    prepare(&store);
    let other = store.namespace(&kit::instance("b"));
    kit::commit(&store, kit::start(&other)).unwrap();
    let key = Key::Instance(Shard(0), "a".into(), Local::Meta(Meta::State)).pack();
    plan.flip(&key, 20, 4);
    let error = kit::commit(&store, decision(&store, 2)).unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "{error}");
    assert!(error.to_string().contains('a'), "{error}");
    kit::commit(&store, kit::step(&other, 2, vec![1])).unwrap();
    assert!(matches!(store.health(), Health::Good));
    plan.mend(&key);
    kit::commit(&store, decision(&store, 2)).unwrap();
    let namespace = store.namespace(&kit::instance("a"));
    let mut commit = Commit::new(namespace.shard());
    commit.set_runnable(&namespace, Some(&Runnable::new("w", 1)));
    kit::commit(&store, commit).unwrap();
}

/// An engine that panics in its next commit, once it is told to.
struct Panicking(Memory, AtomicBool);

impl Engine for Panicking {
    fn limits(&self) -> EngineLimits {
        self.0.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.0.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.0.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        assert!(!self.1.load(Ordering::Acquire), "as the test wants it");
        self.0.commit(group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.0.snapshot(shard)
    }
}

/// Callers of a committer that had panicked were told that the store is closed, and the store called itself healthy.
#[test]
fn an_engine_that_panics_poisons() {
    let memory = Memory::new();
    let engine = Arc::new(Panicking(memory.clone(), AtomicBool::new(false)));
    let store = OpenOptions::new()
        .open_engine(Arc::clone(&engine) as Arc<dyn Engine>)
        .unwrap();
    prepare(&store);
    engine.1.store(true, Ordering::Release);
    for _ in 0..2 {
        let error = kit::commit(&store, decision(&store, 2)).unwrap_err();
        assert_eq!(error.code(), "ES0211", "{error}");
        assert!(matches!(store.health(), Health::Failed(Error::Failed(_))));
    }
    assert_eq!(store.close().unwrap_err().code(), "ES0211");
    assert_eq!(state(&open(&memory).0).revision, 1);
}

/// The header is the first commit of all: a store with commits and without it has lost something, and must not get a
/// new one as if it were new.
#[test]
fn commits_without_a_header_are_damage() {
    let memory = Memory::new();
    let (store, _) = open(&memory);
    prepare(&store);
    store.close().unwrap();
    let lease = memory.acquire(Shard(0), Owner(7)).unwrap();
    let mut batch = everstep::storage::batch::Batch::new();
    batch.delete(&Key::Store.pack());
    let next = Position {
        sequence: lease.position.sequence + 1,
        chain: 1,
    };
    let group = Group {
        lease,
        expected: lease.position,
        next,
        batches: &[batch],
    };
    memory.commit(&group).unwrap();
    let error = OpenOptions::new().open_engine(Arc::new(memory)).unwrap_err();
    assert_eq!(error.code(), "ES0209", "{error}");
    assert!(error.to_string().contains("no store header"), "{error}");
}
