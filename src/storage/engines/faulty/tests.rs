//! Each fault does what it says, and nothing goes wrong that was not planned.

use std::io::ErrorKind;
use std::thread;

use super::*;
use crate::storage::engine::Direction;
use crate::storage::engines::Memory;

const SHARD: Shard = Shard(3);

/// An engine, what it wraps, its plan, and how far the one writer has got.
struct Bench {
    inner: Arc<dyn Engine>,
    faulty: Faulty,
    plan: Plan,
    lease: Lease,
    position: Position,
}

impl Bench {
    fn new() -> Self {
        Self::over(Arc::new(Memory::new()))
    }

    fn over(inner: Arc<dyn Engine>) -> Self {
        let plan = Plan::new();
        let faulty = Faulty::new(inner.clone(), plan.clone());
        let lease = faulty.acquire(SHARD, Owner(1)).unwrap();
        Self {
            inner,
            faulty,
            plan,
            lease,
            position: lease.position,
        }
    }

    fn next(&self) -> Position {
        Position {
            sequence: self.position.sequence + 1,
            chain: self.position.chain + 7,
        }
    }

    fn commit_batch(&self, batch: Batch) -> Result<(), CommitError> {
        let (expected, next) = (self.position, self.next());
        self.faulty.commit(&Group {
            lease: self.lease,
            expected,
            next,
            batches: &[batch],
        })
    }

    /// Sets one key, and moves on if that was done.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), CommitError> {
        let mut batch = Batch::new();
        batch.set(key, value);
        self.commit_batch(batch)?;
        self.position = self.next();
        Ok(())
    }

    /// What the engine underneath holds.
    fn stored(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.get(SHARD, key).unwrap()
    }

    fn stands(&self) -> Position {
        self.inner.position(&self.lease).unwrap()
    }
}

fn is_unavailable<T>(answer: Result<T, CommitError>, expected: ErrorKind) -> bool {
    matches!(answer, Err(CommitError::Unavailable(error)) if error.kind() == expected)
}

#[test]
fn fail_writes_nothing_and_is_over() {
    let mut bench = Bench::new();
    bench.plan.at_commit(2, CommitFault::Fail(ErrorKind::StorageFull));
    bench.set(b"a", b"1").unwrap();
    assert!(is_unavailable(bench.set(b"b", b"2"), ErrorKind::StorageFull));
    assert_eq!((bench.stored(b"b"), bench.stands()), (None, bench.position));
    bench.set(b"b", b"2").unwrap();
    assert_eq!(bench.plan.counts().0, 3);
}

#[test]
fn fail_before_is_unknown_and_not_applied() {
    let mut bench = Bench::new();
    bench.plan.at_commit(1, CommitFault::FailBefore);
    assert!(matches!(bench.set(b"a", b"1"), Err(CommitError::Unknown(_))));
    assert_eq!((bench.stored(b"a"), bench.stands()), (None, bench.position));
}

#[test]
fn fail_after_is_unknown_and_applied() {
    let mut bench = Bench::new();
    bench.plan.at_commit(1, CommitFault::FailAfter);
    assert!(matches!(bench.set(b"a", b"1"), Err(CommitError::Unknown(_))));
    assert_eq!(
        (bench.stored(b"a"), bench.stands()),
        (Some(b"1".to_vec()), bench.next())
    );
}

/// What the engine refuses is refused, not unknown.
#[test]
fn fail_after_does_not_hide_a_refusal() {
    let mut bench = Bench::new();
    bench.plan.at_commit(1, CommitFault::FailAfter);
    bench.position.sequence = 5;
    assert!(matches!(bench.set(b"a", b"1"), Err(CommitError::Conflict { .. })));
}

#[test]
fn drop_says_done_and_leaves_the_store_behind() {
    let mut bench = Bench::new();
    bench.plan.at_commit(1, CommitFault::Drop);
    bench.set(b"a", b"1").unwrap();
    assert_eq!((bench.stored(b"a"), bench.stands()), (None, Position::default()));
    assert!(matches!(
        bench.set(b"b", b"2"),
        Err(CommitError::Conflict { expected: 1, found: 0 })
    ));
}

#[test]
fn tear_applies_the_first_operations_across_batches() {
    for applied in 0..=4 {
        let mut bench = Bench::new();
        bench.set(b"c", b"old").unwrap();
        bench.plan.at_commit(1, CommitFault::Tear(applied));
        let [mut first, mut second] = [Batch::new(), Batch::new()];
        first.set(b"a", b"1");
        first.set(b"b", b"2");
        second.delete_range(b"c", b"d");
        second.set(b"e", b"3");
        let group = Group {
            lease: bench.lease,
            expected: bench.position,
            next: bench.next(),
            batches: &[first, second],
        };
        bench.faulty.commit(&group).unwrap();
        let found = [b"a", b"b", b"c", b"e"].map(|key| bench.stored(key).is_some());
        assert_eq!(
            found,
            [applied > 0, applied > 1, applied <= 2, applied > 3],
            "{applied} operations"
        );
        assert_eq!(bench.stands(), bench.next());
    }
}

#[test]
fn delay_holds_a_commit_until_the_gate_opens() {
    let bench = Bench::new();
    let gate = Gate::new();
    bench.plan.at_commit(1, CommitFault::Delay(gate.latch()));
    thread::scope(|scope| {
        let commit = scope.spawn(|| {
            let mut batch = Batch::new();
            batch.set(b"a", b"1");
            bench.commit_batch(batch)
        });
        gate.wait(1);
        assert_eq!(bench.stored(b"a"), None);
        gate.open();
        commit.join().unwrap().unwrap();
    });
    assert_eq!(bench.stored(b"a"), Some(b"1".to_vec()));
}

#[test]
fn a_delayed_commit_finds_the_crash() {
    let bench = Bench::new();
    let gate = Gate::new();
    bench.plan.at_commit(1, CommitFault::Delay(gate.latch()));
    thread::scope(|scope| {
        let commit = scope.spawn(|| bench.commit_batch(Batch::new()));
        gate.wait(1);
        bench.plan.crash().unwrap();
        drop(gate);
        assert!(is_unavailable(commit.join().unwrap(), ErrorKind::BrokenPipe));
    });
    assert_eq!(bench.stands(), bench.position);
}

#[test]
fn crash_ends_everything() {
    let mut bench = Bench::new();
    bench.set(b"a", b"1").unwrap();
    let view = bench.faulty.snapshot(SHARD).unwrap();
    bench.plan.crash().unwrap();
    assert!(is_unavailable(bench.set(b"b", b"2"), ErrorKind::BrokenPipe));
    assert!(is_unavailable(
        bench.faulty.acquire(SHARD, Owner(2)),
        ErrorKind::BrokenPipe
    ));
    assert!(is_unavailable(
        bench.faulty.position(&bench.lease),
        ErrorKind::BrokenPipe
    ));
    assert!(bench.faulty.get(SHARD, b"a").is_err());
    assert!(bench.faulty.snapshot(SHARD).is_err());
    assert!(view.get(b"a").is_err());
    let scan = Scan {
        start: b"a",
        end: b"b",
        direction: Direction::Forward,
        limit: 1,
    };
    assert!(view.scan(&scan, &mut |_, _| ControlFlow::Continue(())).is_err());
    assert_eq!(bench.stored(b"a"), Some(b"1".to_vec()));
}

#[test]
fn what_was_held_back_is_lost_and_what_was_synced_is_not() {
    let mut bench = Bench::new();
    bench.set(b"a", b"before").unwrap();
    bench.plan.hold_back();
    bench.set(b"b", b"synced").unwrap();
    bench.plan.sync();
    let safe = bench.position;
    bench.set(b"a", b"lost").unwrap();
    bench.set(b"c", b"lost").unwrap();
    let mut batch = Batch::new();
    batch.delete_range(b"a", b"c");
    batch.delete(b"c");
    batch.set(b"b", b"lost");
    bench.commit_batch(batch).unwrap();
    assert_eq!(bench.faulty.get(SHARD, b"b").unwrap(), Some(b"lost".to_vec()));
    assert_eq!(bench.plan.unsynced(), 3);
    bench.plan.crash().unwrap();
    let after = Bench::over(bench.inner.clone());
    assert_eq!(after.position, safe);
    assert_eq!(after.stored(b"a"), Some(b"before".to_vec()));
    assert_eq!(after.stored(b"b"), Some(b"synced".to_vec()));
    assert_eq!(after.stored(b"c"), None);
}

#[test]
fn an_acquisition_makes_safe_what_was_before() {
    let mut bench = Bench::new();
    bench.plan.hold_back();
    bench.set(b"a", b"1").unwrap();
    bench.lease = bench.faulty.acquire(SHARD, Owner(2)).unwrap();
    bench.set(b"b", b"2").unwrap();
    bench.plan.crash().unwrap();
    assert_eq!((bench.stored(b"a"), bench.stored(b"b")), (Some(b"1".to_vec()), None));
}

#[test]
fn acquisitions_fail_as_planned() {
    let bench = Bench::new();
    bench.plan.at_acquire(1, AcquireFault::Fail(ErrorKind::TimedOut));
    bench.plan.at_acquire(2, AcquireFault::FailBefore);
    bench.plan.at_acquire(3, AcquireFault::FailAfter);
    assert!(is_unavailable(
        bench.faulty.acquire(SHARD, Owner(2)),
        ErrorKind::TimedOut
    ));
    assert!(matches!(
        bench.faulty.acquire(SHARD, Owner(2)),
        Err(CommitError::Unknown(_))
    ));
    bench.faulty.position(&bench.lease).unwrap();
    assert!(matches!(
        bench.faulty.acquire(SHARD, Owner(2)),
        Err(CommitError::Unknown(_))
    ));
    assert!(matches!(
        bench.faulty.position(&bench.lease),
        Err(CommitError::Fenced { held: 2, carried: 1 })
    ));
}

#[test]
fn reads_fail_as_planned() {
    let mut bench = Bench::new();
    bench.set(b"a", b"1").unwrap();
    bench.plan.at_read(1, ReadFault::Fail(ErrorKind::TimedOut));
    bench.plan.at_read(2, ReadFault::Corrupt);
    bench.plan.at_read(4, ReadFault::Corrupt);
    bench.plan.at_read(5, ReadFault::Corrupt);
    assert!(matches!(bench.faulty.get(SHARD, b"a"), Err(ReadError::Unavailable(e)) if e.kind() == ErrorKind::TimedOut));
    assert!(matches!(bench.faulty.snapshot(SHARD), Err(ReadError::Corrupt(_))));
    let view = bench.faulty.snapshot(SHARD).unwrap();
    assert!(matches!(view.get(b"a"), Err(ReadError::Corrupt(_))));
    assert!(matches!(
        bench.faulty.position(&bench.lease),
        Err(CommitError::Corrupt(_))
    ));
    assert_eq!(view.get(b"a").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn a_flipped_byte_shows_in_every_read_until_it_is_mended() {
    let mut bench = Bench::new();
    bench.set(b"a", b"abc").unwrap();
    bench.set(b"b", b"abc").unwrap();
    bench.plan.flip(b"a", 1, 0x20);
    let read = |bench: &Bench| {
        let view = bench.faulty.snapshot(SHARD).unwrap();
        let mut shown = Vec::new();
        let scan = Scan {
            start: b"a",
            end: b"c",
            direction: Direction::Forward,
            limit: 9,
        };
        let visited = view.scan(&scan, &mut |_, value| {
            shown.push(value.to_vec());
            ControlFlow::Continue(())
        });
        visited.unwrap();
        [
            bench.faulty.get(SHARD, b"a").unwrap().unwrap(),
            view.get(b"a").unwrap().unwrap(),
        ]
        .into_iter()
        .chain(shown)
        .collect()
    };
    let found: Vec<Vec<u8>> = read(&bench);
    assert_eq!(found, [b"aBc", b"aBc", b"aBc", b"abc"]);
    bench.plan.mend(b"a");
    let found: Vec<Vec<u8>> = read(&bench);
    assert_eq!(found, [b"abc"; 4]);
    bench.plan.flip(b"a", 3, 1);
    assert_eq!(bench.faulty.get(SHARD, b"a").unwrap(), Some(b"abc".to_vec()));
}

#[test]
fn a_random_plan_depends_on_its_seed_only() {
    let outcomes = |seed| -> Vec<bool> {
        let mut bench = Bench::new();
        bench.plan = Plan::random(
            seed,
            100,
            4,
            &[CommitFault::Fail(ErrorKind::Other), CommitFault::FailBefore],
        );
        bench.faulty = Faulty::new(bench.inner.clone(), bench.plan.clone());
        (0..200).map(|_| bench.set(b"a", b"1").is_ok()).collect()
    };
    let first = outcomes(1);
    assert_eq!(first, outcomes(1));
    assert_ne!(first, outcomes(2));
    let failed = first[..100].iter().filter(|done| !**done).count();
    assert!((10..45).contains(&failed), "{failed} of 100 with odds of one in four");
    assert!(first[100..].iter().all(|done| *done));
}
