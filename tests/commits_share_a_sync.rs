//! The promise: commits that are made durable together behave as if each had been made durable alone, one after the
//! other (FAULTS 16, 22 and 54 as far as they concern storage).
//!
//! The engine is memory under a plan. A gate holds the committer inside a commit, so that everything handed over
//! meanwhile becomes one group when it opens.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says what it expects by unwrapping it, and starts its own threads"
)]

mod kit;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use everstep::Shard;
use everstep::limits::{COMMIT_BYTES_MAX, COMMIT_QUEUE_MAX, VALUE_BYTES_MAX};
use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan};
use everstep::storage::key::{Arrival, Local, Meta};
use everstep::storage::record::{Input, Message, Origin, Runnable, State, Status};
use everstep::storage::{
    Commit, Condition, Error, Health, Namespace, OpenOptions, Pending, Receipt, Refusal, Result, Rows, Store,
};

struct Bench {
    memory: Memory,
    store: Store,
    plan: Plan,
}

impl Bench {
    fn new() -> Self {
        let (memory, plan) = (Memory::new(), Plan::new());
        let engine = Faulty::new(Arc::new(memory.clone()), plan.clone());
        let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
        Self { memory, store, plan }
    }

    fn namespace(&self, id: &str) -> Namespace {
        self.store.namespace(&kit::instance(id))
    }

    fn start(&self, id: &str) -> Namespace {
        let namespace = self.namespace(id);
        kit::commit(&self.store, kit::start(&namespace)).unwrap();
        namespace
    }

    /// Holds the committer in a commit of no importance until the gate opens.
    fn hold(&self) -> (Gate, Pending) {
        let gate = Gate::new();
        self.plan.at_commit(1, CommitFault::Delay(gate.latch()));
        let held = self.submit(mark(&self.namespace("held")));
        gate.wait(1);
        (gate, held)
    }

    fn submit(&self, commit: Commit) -> Pending {
        self.store.try_submit(commit).unwrap()
    }

    /// Hands all commits over as one group; gives their answers, and how many groups it took.
    fn as_one_group(&self, commits: Vec<Commit>) -> (Vec<Result<Receipt>>, u64) {
        let (gate, held) = self.hold();
        let before = self.plan.counts().0;
        let pending: Vec<_> = commits.into_iter().map(|commit| self.submit(commit)).collect();
        gate.open();
        held.wait().unwrap();
        let answers = pending.into_iter().map(Pending::wait).collect();
        (answers, self.plan.counts().0 - before)
    }

    fn state(&self, namespace: &Namespace) -> State {
        state(&self.store, namespace)
    }
}

fn state(store: &Store, namespace: &Namespace) -> State {
    let snapshot = store.snapshot(Shard(0)).unwrap();
    namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap()
}

/// A commit without conditions.
fn mark(namespace: &Namespace) -> Commit {
    let mut commit = Commit::new(namespace.shard());
    commit.set_runnable(namespace, Some(&Runnable::new("w", 0)));
    commit
}

fn refusal(answer: &Result<Receipt>) -> &Refusal {
    match answer {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Looks once whether a future is done.
fn glance<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_start_sees_the_start_before_it_in_its_group() {
    let bench = Bench::new();
    let namespace = bench.namespace("a");
    let (answers, groups) = bench.as_one_group(vec![kit::start(&namespace), kit::start(&namespace)]);
    assert_eq!(groups, 1);
    assert!(answers[0].is_ok());
    assert_eq!(refusal(&answers[1]), &Refusal::Exists);
    // And from a later group as well.
    assert_eq!(
        refusal(&kit::commit(&bench.store, kit::start(&namespace))),
        &Refusal::Exists
    );
}

#[test]
fn revisions_follow_each_other_inside_a_group() {
    let bench = Bench::new();
    let namespace = bench.namespace("a");
    let mut commits = vec![kit::start(&namespace)];
    commits.extend((2..=20).map(|revision| kit::step(&namespace, revision, vec![1])));
    // Somebody who looked too early, and somebody who is ahead.
    commits.insert(10, kit::step(&namespace, 5, vec![2]));
    commits.insert(15, kit::step(&namespace, 50, vec![3]));
    let (answers, groups) = bench.as_one_group(commits);
    assert_eq!(groups, 1);
    assert_eq!(refusal(&answers[10]), &Refusal::Revision { expected: 4, found: 10 });
    assert_eq!(
        refusal(&answers[15]),
        &Refusal::Revision {
            expected: 49,
            found: 14
        }
    );
    let sequences: Vec<_> = answers.iter().flatten().map(|receipt| receipt.sequence).collect();
    assert_eq!(sequences.len(), 20);
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
    assert_eq!(bench.state(&namespace).revision, 20);
}

/// FAULTS 16: in one group, and spread over many.
#[test]
fn of_a_hundred_equal_messages_one_is_accepted() {
    for one_group in [true, false] {
        let bench = Bench::new();
        let namespace = bench.start("a");
        let held = one_group.then(|| bench.hold());
        let before = bench.plan.counts().0;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .build()
            .unwrap();
        let pending: Vec<_> = runtime.block_on(async {
            let send = |_| {
                let (store, namespace) = (bench.store.clone(), namespace.clone());
                tokio::spawn(async move {
                    let deliver = |places: &mut everstep::storage::Arrivals<'_>| {
                        let mut commit = Commit::new(namespace.shard());
                        commit.deliver(&namespace, places.next_place(), &kit::message("same"));
                        commit
                    };
                    store.submit_delivery(namespace.shard(), deliver).await.unwrap()
                })
            };
            let tasks: Vec<_> = (0..100).map(send).collect();
            let mut pending = Vec::new();
            for task in tasks {
                pending.push(task.await.unwrap());
            }
            pending
        });
        if let Some((gate, held)) = held {
            gate.open();
            held.wait().unwrap();
        }
        let answers: Vec<_> = pending.into_iter().map(Pending::wait).collect();
        if one_group {
            assert_eq!(bench.plan.counts().0 - before, 1);
        }
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        let inbox = inbox(&bench.store, &namespace);
        assert_eq!(inbox.len(), 1);
        for refused in answers.iter().filter(|answer| answer.is_err()) {
            match refusal(refused) {
                Refusal::Duplicate(seen) => assert_eq!(seen.arrival(), inbox[0], "it says where the first one is"),
                other => panic!("{other}"),
            }
        }
    }
}

fn inbox(store: &Store, namespace: &Namespace) -> Vec<Arrival> {
    let mut places = Vec::new();
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let listed = namespace.list(&*snapshot, Rows::Inbox, &mut |local, row| {
        row.decode::<Message>()?;
        if let Local::Inbox(arrival) = local {
            places.push(arrival);
        }
        Ok(())
    });
    listed.unwrap();
    places
}

#[test]
fn a_message_sees_the_end_before_it_in_its_group() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let mut end = Commit::new(namespace.shard());
    let ended = kit::state(2, Status::Completed);
    end.require(Condition::Revision(namespace.instance().clone(), 1))
        .set_state(&namespace, Some(1_001), &ended);
    let commits = vec![
        kit::deliver(&namespace, 1, "m1"),
        end,
        kit::deliver(&namespace, 2, "m2"),
    ];
    let (answers, groups) = bench.as_one_group(commits);
    assert_eq!(groups, 1);
    assert!(answers[0].is_ok() && answers[1].is_ok());
    assert_eq!(refusal(&answers[2]), &Refusal::Ended(Status::Completed));
    let unknown = kit::commit(&bench.store, kit::deliver(&bench.namespace("nobody"), 3, "m3"));
    assert_eq!(refusal(&unknown), &Refusal::Missing);
    assert_eq!(inbox(&bench.store, &namespace), [kit::arrival(1)]);
}

/// FAULTS 54.
#[test]
fn an_activation_that_is_over_commits_nothing() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let with = |activation, revision| {
        let mut commit = kit::step(&namespace, revision, vec![1]);
        commit.require(Condition::Current(activation));
        commit
    };
    let first = bench.store.activate(namespace.instance());
    kit::commit(&bench.store, with(first.clone(), 2)).unwrap();
    // Handed over while it was current, and looked at when it no longer is.
    let (gate, held) = bench.hold();
    let late = bench.submit(with(first.clone(), 3));
    let second = bench.store.activate(namespace.instance());
    let resident = bench.submit(with(second.clone(), 3));
    gate.open();
    held.wait().unwrap();
    assert_eq!(refusal(&late.wait()), &Refusal::StaleActivation);
    resident.wait().unwrap();
    // The end of an old one does not end the new one.
    bench.store.deactivate(&first);
    kit::commit(&bench.store, with(second.clone(), 4)).unwrap();
    bench.store.deactivate(&second);
    assert_eq!(
        refusal(&kit::commit(&bench.store, with(second, 5))),
        &Refusal::StaleActivation
    );
    assert_eq!(bench.state(&namespace).revision, 4);
}

#[test]
fn a_start_sees_the_purge_before_it_in_the_queue() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    kit::commit(&bench.store, kit::deliver(&namespace, 1, "m1")).unwrap();
    let mut purge = Commit::new(namespace.shard());
    purge
        .require(Condition::Revision(namespace.instance().clone(), 2))
        .purge(&namespace, &kit::origin(), &kit::state(2, Status::Running));
    let commits = vec![
        kit::step(&namespace, 2, vec![1]),
        purge,
        kit::step(&namespace, 3, vec![1]),
        kit::start(&namespace),
        kit::deliver(&namespace, 2, "m1"),
    ];
    let (answers, _) = bench.as_one_group(commits);
    assert_eq!(refusal(&answers[2]), &Refusal::Missing);
    for done in [0, 1, 3, 4] {
        answers[done].as_ref().unwrap();
    }
    assert_eq!(bench.state(&namespace).revision, 1);
    assert_eq!(inbox(&bench.store, &namespace), [kit::arrival(2)]);
}

/// An answer never outruns the disk, not even a refusal: it rests on a commit that is not durable yet.
#[test]
fn a_refusal_waits_for_what_it_rests_on() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let (first_gate, held) = bench.hold();
    let second_gate = Gate::new();
    bench.plan.at_commit(1, CommitFault::Delay(second_gate.latch()));
    let first = bench.submit(kit::deliver(&namespace, 1, "m1"));
    let duplicate = bench.submit(kit::deliver(&namespace, 2, "m1"));
    first_gate.open();
    held.wait().unwrap();
    second_gate.wait(1);
    let (mut first, mut duplicate) = (pin!(first.durable()), pin!(duplicate.durable()));
    assert!(glance(first.as_mut()).is_pending());
    assert!(
        glance(duplicate.as_mut()).is_pending(),
        "refused before the first one was durable"
    );
    second_gate.open();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(first).unwrap();
    let answer = runtime.block_on(duplicate);
    assert!(matches!(refusal(&answer), Refusal::Duplicate(_)));
}

/// The other side of the same: if the first one is lost, nobody is told that there was one.
#[test]
fn a_refusal_falls_with_what_it_rests_on() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let (gate, held) = bench.hold();
    let fault = CommitFault::Fail(std::io::ErrorKind::TimedOut);
    bench.plan.at_commit(1, fault);
    let first = bench.submit(kit::deliver(&namespace, 1, "m1"));
    let duplicate = bench.submit(kit::deliver(&namespace, 2, "m1"));
    gate.open();
    held.wait().unwrap();
    for answer in [first.wait(), duplicate.wait()] {
        assert_eq!(answer.unwrap_err().code(), "ES0217");
    }
    kit::commit(&bench.store, kit::deliver(&namespace, 3, "m1")).unwrap();
}

/// FAULTS 22.
#[test]
fn who_goes_away_after_handing_over_changes_nothing() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let (gate, held) = bench.hold();
    {
        let mut leaving = pin!(bench.store.commit(kit::deliver(&namespace, 1, "m1")));
        assert!(glance(leaving.as_mut()).is_pending());
    }
    drop(bench.submit(kit::deliver(&namespace, 2, "m2")));
    gate.open();
    held.wait().unwrap();
    for id in ["m1", "m2"] {
        let again = kit::commit(&bench.store, kit::deliver(&namespace, 9, id));
        assert!(matches!(refusal(&again), Refusal::Duplicate(_)), "{id}");
    }
    assert_eq!(inbox(&bench.store, &namespace), [kit::arrival(1), kit::arrival(2)]);
}

#[test]
fn a_full_queue_refuses_or_lets_wait_and_loses_nothing() {
    let bench = Bench::new();
    let (gate, held) = bench.hold();
    let namespace = bench.namespace("a");
    let mut pending: Vec<_> = (0..COMMIT_QUEUE_MAX).map(|_| bench.submit(mark(&namespace))).collect();
    let error = bench.store.try_submit(mark(&namespace)).unwrap_err();
    assert_eq!(error.code(), "ES0213");
    let waiter = bench.namespace("waiter");
    let mut waiting = pin!(bench.store.submit(mark(&waiter)));
    assert!(glance(waiting.as_mut()).is_pending());
    // One who stops waiting for a place has handed nothing over.
    let left = bench.namespace("left");
    let mut leaving = Box::pin(bench.store.submit(mark(&left)));
    assert!(glance(leaving.as_mut()).is_pending());
    drop(leaving);
    gate.open();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    pending.push(runtime.block_on(waiting).unwrap());
    let first = held.wait().unwrap().sequence;
    let sequences: Vec<_> = pending
        .into_iter()
        .map(|pending| pending.wait().unwrap().sequence)
        .collect();
    let expected: Vec<_> = (first + 1..=first + COMMIT_QUEUE_MAX as u64 + 1).collect();
    assert_eq!(sequences, expected);
    let runnable = bench.store.runnable(Shard(0), None).unwrap().rows;
    let names: Vec<_> = runnable.iter().map(|(instance, _)| instance.as_str()).collect();
    assert_eq!(names, ["a", "held", "waiter"]);
}

#[test]
fn what_is_too_large_is_refused_and_its_neighbours_are_not() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let with = |values: usize, bytes: usize| {
        let mut commit = Commit::new(namespace.shard());
        for number in 0..values {
            let value = Input(kit::payload(vec![7; bytes]));
            commit.set(&namespace, &Local::Name(u32::try_from(number).unwrap()), &value);
        }
        commit
    };
    let (gate, held) = bench.hold();
    let before = bench.submit(kit::step(&namespace, 2, vec![1]));
    for too_large in [with(1, VALUE_BYTES_MAX), with(9, COMMIT_BYTES_MAX / 8)] {
        let error = bench.store.try_submit(too_large).unwrap_err();
        assert_eq!(error.code(), "ES0215", "{error}");
    }
    // Each of these fits; together they do not fit into one group.
    let groups = bench.plan.counts().0;
    let large: Vec<_> = (0..3).map(|_| bench.submit(with(7, COMMIT_BYTES_MAX / 8))).collect();
    let after = bench.submit(kit::step(&namespace, 3, vec![1]));
    gate.open();
    held.wait().unwrap();
    before.wait().unwrap();
    for pending in large {
        pending.wait().unwrap();
    }
    after.wait().unwrap();
    assert_eq!(bench.plan.counts().0 - groups, 3);
    assert!(matches!(bench.store.health(), Health::Good));
}

/// Places in inboxes are given in the order of the commits, whoever asks for them.
#[test]
fn the_order_of_arrivals_is_the_order_of_commits() {
    let bench = Bench::new();
    let namespaces: Vec<_> = (0..4).map(|number| bench.start(&format!("i{number}"))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let mut sequences: BTreeMap<Arrival, u64> = BTreeMap::new();
    let tasks: Vec<_> = (0..400_usize)
        .map(|number| {
            let (store, namespace) = (bench.store.clone(), namespaces[number % 4].clone());
            runtime.spawn(async move {
                let mut place = None;
                let pending = store.submit_delivery(namespace.shard(), |places| {
                    let arrival = *place.insert(places.next_place());
                    let mut commit = Commit::new(namespace.shard());
                    commit.deliver(&namespace, arrival, &kit::message(&format!("m{number}")));
                    commit
                });
                let receipt = pending.await.unwrap().durable().await.unwrap();
                (place.unwrap(), receipt.sequence)
            })
        })
        .collect();
    for task in tasks {
        let (arrival, sequence) = runtime.block_on(task).unwrap();
        assert!(
            sequences.insert(arrival, sequence).is_none(),
            "{arrival:?} was given twice"
        );
    }
    let sequences: Vec<_> = sequences.into_values().collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
}

#[test]
fn closing_makes_what_was_handed_over_durable() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let (gate, held) = bench.hold();
    let pending: Vec<_> = (2..300)
        .map(|revision| bench.submit(kit::step(&namespace, revision, vec![1])))
        .collect();
    let Bench { memory, store, .. } = bench;
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| store.close());
        gate.open();
        closing.join().unwrap().unwrap();
    });
    let store = OpenOptions::new().open_engine(Arc::new(memory)).unwrap();
    assert_eq!(state(&store, &namespace).revision, 299);
    held.wait().unwrap();
    for pending in pending {
        pending.wait().unwrap();
    }
}

/// Closing asked for a failure before it waited for the queue, and so passed over what failed in it.
#[test]
fn closing_tells_of_what_failed_in_the_queue() {
    let bench = Bench::new();
    let namespace = bench.start("a");
    let (gate, held) = bench.hold();
    // A commit that removes a range is a group of its own, so the failure comes long after the gate has opened.
    let groups = 500;
    bench
        .plan
        .at_commit(groups + 1, CommitFault::Fail(std::io::ErrorKind::StorageFull));
    for _ in 0..groups {
        let mut sweep = Commit::new(namespace.shard());
        sweep.delete_below(&namespace, &kit::location(1));
        drop(bench.submit(sweep));
    }
    let last = bench.submit(kit::step(&namespace, 2, vec![1]));
    let store = bench.store;
    let closed = std::thread::scope(|scope| {
        let closing = scope.spawn(|| store.close());
        gate.open();
        closing.join().unwrap()
    });
    assert_eq!(closed.unwrap_err().code(), "ES0210");
    held.wait().unwrap();
    assert_eq!(last.wait().unwrap_err().code(), "ES0210");
}

/// Sequences are consecutive in each shard, whatever the others do.
#[test]
fn every_shard_counts_for_itself() {
    let plan = Plan::new();
    let engine = Faulty::new(Arc::new(Memory::new()), plan.clone());
    let store = OpenOptions::new().shards(4).open_engine(Arc::new(engine)).unwrap();
    let pending: Vec<_> = (0..200)
        .map(|number| {
            let namespace = store.namespace(&kit::instance(&format!("i{number}")));
            let origin: Origin = kit::origin();
            let mut commit = Commit::new(namespace.shard());
            commit.set(&namespace, &Local::Meta(Meta::Origin), &origin);
            (namespace.shard(), store.try_submit(commit).unwrap())
        })
        .collect();
    let mut sequences: BTreeMap<Shard, Vec<u64>> = BTreeMap::new();
    for (shard, pending) in pending {
        sequences
            .entry(shard)
            .or_default()
            .push(pending.wait().unwrap().sequence);
    }
    assert_eq!(sequences.len(), 4);
    for (shard, sequences) in sequences {
        assert!(
            sequences.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{shard}: {sequences:?}"
        );
    }
}
