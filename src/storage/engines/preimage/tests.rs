//! Snapshots while a writer is at work.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::ids::Shard;
use crate::storage::batch::Batch;
use crate::storage::engine::{Engine, Owner};
use crate::storage::engines::Memory;
use crate::storage::engines::model::{Rows, Writer, rows};

/// Keys that the writer rewrites; more than one page.
const KEYS: u16 = 3 * READ_ROWS_MAX as u16;
const ROUNDS: u32 = 400;

const ALL: Scan<'static> = Scan {
    start: b"k",
    end: b"l",
    direction: Direction::Forward,
    limit: usize::MAX,
};

fn key(number: u16) -> Vec<u8> {
    [b"k".as_slice(), &number.to_be_bytes()].concat()
}

/// In every round some keys go, some come, and those that are there all carry the round.
fn there(number: u16, round: u32) -> bool {
    !(u32::from(number) + round).is_multiple_of(3)
}

fn batch_of(round: u32) -> Batch {
    let mut batch = Batch::new();
    for number in 0..KEYS {
        if there(number, round) {
            batch.set(&key(number), &round.to_be_bytes());
        } else {
            batch.delete(&key(number));
        }
    }
    batch
}

fn state_of(round: u32) -> Rows {
    (0..KEYS)
        .filter(|number| there(*number, round))
        .map(|number| (key(number), round.to_be_bytes().to_vec()))
        .collect()
}

fn round_of(snapshot: &dyn Snapshot) -> u32 {
    let first = (0..3).find_map(|number| snapshot.get(&key(number)).unwrap());
    u32::from_be_bytes(first.unwrap().try_into().unwrap())
}

/// Every snapshot has to be exactly the state of one round, whichever way and in whatever pieces it is read.
fn whole(snapshot: &dyn Snapshot) {
    let round = round_of(snapshot);
    let state = state_of(round);
    assert_eq!(rows(snapshot, &ALL).unwrap(), state, "forward, round {round}");
    let mut backward = rows(
        snapshot,
        &Scan {
            direction: Direction::Backward,
            ..ALL
        },
    )
    .unwrap();
    backward.reverse();
    assert_eq!(backward, state, "backward, round {round}");
    let limit = READ_ROWS_MAX + 7;
    assert_eq!(
        rows(snapshot, &Scan { limit, ..ALL }).unwrap(),
        state[..limit],
        "limited, round {round}"
    );
    for number in 0..KEYS {
        let found = snapshot.get(&key(number)).unwrap();
        assert_eq!(found.is_some(), there(number, round), "key {number}, round {round}");
        assert!(
            found.is_none_or(|value| value == round.to_be_bytes()),
            "key {number}, round {round}"
        );
    }
}

/// Tells the readers to stop, also when the writer fails: a test that fails has to end.
#[derive(Default)]
pub(in crate::storage::engines) struct Done(AtomicBool);

pub(in crate::storage::engines) struct Finish<'a>(&'a Done);

impl Done {
    pub(in crate::storage::engines) fn at_the_end(&self) -> Finish<'_> {
        Finish(self)
    }

    pub(in crate::storage::engines) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Readers take snapshots and read them while the writer goes through its rounds.
pub(in crate::storage::engines) fn every_snapshot_is_one_round(engine: &Arc<impl Engine>, rounds: u32) {
    let mut writer = Writer::sharing(Arc::clone(engine), Owner(1));
    writer.commit(&[batch_of(0)]).unwrap();
    let done = Done::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.is_done() {
                    whole(engine.snapshot(Shard(0)).unwrap().as_ref());
                }
            });
        }
        let _finish = done.at_the_end();
        for round in 1..=rounds {
            writer.commit(&[batch_of(round)]).unwrap();
        }
    });
    let last = engine.snapshot(Shard(0)).unwrap();
    assert_eq!(rounds, round_of(last.as_ref()));
    whole(last.as_ref());
}

#[test]
fn a_snapshot_under_a_running_writer_is_the_state_between_two_commits() {
    every_snapshot_is_one_round(&Arc::new(Memory::new()), ROUNDS);
}

#[test]
fn a_scan_goes_on_in_its_own_past_when_commits_come_between_its_pages() {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut writer = Writer::acquire(Memory::new(), Owner(1));
        writer.commit(&[batch_of(0)]).unwrap();
        let snapshot = writer.engine.snapshot(Shard(0)).unwrap();
        let (mut found, mut round) = (Rows::new(), 0);
        let scan = Scan { direction, ..ALL };
        snapshot
            .scan(&scan, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                if found.len().is_multiple_of(50) {
                    round += 1;
                    writer.commit(&[batch_of(round)]).unwrap();
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        if direction == Direction::Backward {
            found.reverse();
        }
        assert!(round >= 5);
        assert_eq!(found, state_of(0), "{direction:?}");
    }
}

#[test]
fn overlays_are_dropped_with_their_snapshots_and_old_values_are_saved_once() {
    let preimages = Preimages::default();
    let mut reads = 0;
    let mut save = |preimages: &Preimages| {
        let commit = preimages.commit().unwrap();
        let read = |_: &[u8]| {
            reads += 1;
            Ok(Some(vec![reads]))
        };
        commit.save([b"a".as_slice()].into_iter(), read).unwrap();
        reads
    };
    assert_eq!(save(&preimages), 0, "nobody looks, nothing is read");
    let tree = Arc::new(Still);
    let take = || preimages.snapshot(&preimages.between_commits().unwrap(), Arc::clone(&tree));
    let (first, second) = (take(), take());
    assert_eq!(save(&preimages), 1, "one read for both");
    assert_eq!(save(&preimages), 1, "only the first change counts");
    let third = take();
    assert_eq!(save(&preimages), 2);
    assert_eq!(first.get(b"a").unwrap(), Some(vec![1]));
    assert_eq!(second.get(b"a").unwrap(), Some(vec![1]));
    assert_eq!(third.get(b"a").unwrap(), Some(vec![2]));
    drop((first, second, third));
    assert_eq!(save(&preimages), 2);
    assert!(preimages.live.lock().unwrap().is_empty());
}

#[test]
fn an_unreadable_row_is_forgiven_only_when_the_overlay_knows_it() {
    let preimages = Preimages::default();
    let view = preimages.snapshot(&preimages.between_commits().unwrap(), Arc::new(Still));
    assert!(matches!(view.get(b"torn"), Err(ReadError::Corrupt(_))));
    let all = Scan {
        start: b"",
        end: b"z",
        direction: Direction::Forward,
        limit: 9,
    };
    assert!(matches!(rows(&view, &all), Err(ReadError::Corrupt(_))));
    let keys = [b"torn".as_slice()].into_iter();
    preimages
        .commit()
        .unwrap()
        .save(keys, |_| Ok(Some(b"old".to_vec())))
        .unwrap();
    assert_eq!(view.get(b"torn").unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(rows(&view, &all).unwrap(), [(b"torn".to_vec(), b"old".to_vec())]);
}

/// A tree with one row, which can't be read.
struct Still;

impl Tree for Still {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        if key == b"torn" {
            Err(ReadError::Corrupt("a chunk is missing".into()))
        } else {
            Ok(None)
        }
    }

    fn page(&self, _scan: &Scan<'_>) -> Result<Page, ReadError> {
        Ok(Page {
            rows: vec![(b"torn".to_vec(), Err(ReadError::Corrupt("a chunk is missing".into())))],
            more: false,
        })
    }
}
