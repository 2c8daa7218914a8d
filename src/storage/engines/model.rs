//! A writer for the tests of the engines, and the property that every engine equals a plain map.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;

use super::memory::Memory;
use crate::ids::Shard;
use crate::storage::batch::Batch;
use crate::storage::engine::{
    CommitError, Direction, Engine, Group, Lease, Owner, Position, ReadError, Scan, Snapshot,
};
use crate::storage::fence::Fence;

/// The smallest committer: one shard, one batch a group, and it knows where it stands.
pub(super) struct Writer<E> {
    pub(super) engine: Arc<E>,
    pub(super) lease: Lease,
    pub(super) position: Position,
}

impl<E: Engine> Writer<E> {
    pub(super) fn acquire(engine: E, owner: Owner) -> Self {
        Self::sharing(Arc::new(engine), owner)
    }

    pub(super) fn sharing(engine: Arc<E>, owner: Owner) -> Self {
        let lease = engine.acquire(Shard(0), owner).unwrap();
        Self {
            engine,
            lease,
            position: lease.position,
        }
    }

    pub(super) fn commit(&mut self, batches: &[Batch]) -> Result<(), CommitError> {
        let chain = batches
            .iter()
            .fold(self.position.chain, |chain, batch| batch.chain(chain));
        let next = Position {
            sequence: self.position.sequence + 1,
            chain,
        };
        self.engine.commit(&Group {
            lease: self.lease,
            expected: self.position,
            next,
            batches,
        })?;
        self.position = next;
        Ok(())
    }

    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), CommitError> {
        let mut batch = Batch::new();
        batch.set(key, value);
        self.commit(&[batch])
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), CommitError> {
        let mut batch = Batch::new();
        batch.delete(key);
        self.commit(&[batch])
    }
}

pub(super) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All rows of a scan.
pub(super) fn rows(snapshot: &dyn Snapshot, scan: &Scan<'_>) -> Result<Rows, ReadError> {
    let mut rows = Vec::new();
    snapshot.scan(scan, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Change {
    Set(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

#[derive(Debug, Clone)]
enum Act {
    Commit(Vec<Vec<Change>>),
    Snapshot,
    DropSnapshot(prop::sample::Index),
    Check(prop::sample::Index, Vec<u8>, Vec<u8>, bool, usize),
}

/// Few different keys, so that they meet, and all of the bytes that have a meaning somewhere.
fn key() -> impl Strategy<Value = Vec<u8>> {
    // The key of the fence row, 14 14, lies in the middle and can't be drawn.
    let byte = prop::sample::select(vec![0x00, 0x01, 0x62, 0xfe, 0xff]);
    prop::collection::vec(byte, 0..4)
}

fn change(large: usize) -> impl Strategy<Value = Change> {
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..6),
        1 => (any::<u8>(), 0..=large).prop_map(|(byte, length)| vec![byte; length]),
    ];
    prop_oneof![
        5 => (key(), value).prop_map(|(key, value)| Change::Set(key, value)),
        2 => key().prop_map(Change::Delete),
        1 => (key(), key()).prop_map(|(start, end)| Change::DeleteRange(start, end)),
    ]
}

fn act(large: usize) -> impl Strategy<Value = Act> {
    let group = prop::collection::vec(prop::collection::vec(change(large), 0..8), 1..4);
    let limit = prop_oneof![0..6usize, Just(usize::MAX)];
    prop_oneof![
        4 => group.prop_map(Act::Commit),
        1 => Just(Act::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Act::DropSnapshot),
        3 => (any::<prop::sample::Index>(), key(), key(), any::<bool>(), limit)
            .prop_map(|(which, start, end, forward, limit)| Act::Check(which, start, end, forward, limit)),
    ]
}

fn apply(map: &mut Map, batch: &mut Batch, change: &Change) {
    match change {
        Change::Set(key, value) => {
            map.insert(key.clone(), value.clone());
            batch.set(key, value);
        }
        Change::Delete(key) => {
            map.remove(key);
            batch.delete(key);
        }
        Change::DeleteRange(start, end) => {
            map.retain(|key, _| key < start || key >= end);
            batch.delete_range(start, end);
        }
    }
}

fn expected(map: &Map, scan: &Scan<'_>) -> Rows {
    let inside = map
        .iter()
        .filter(|(key, _)| scan.start <= key.as_slice() && key.as_slice() < scan.end);
    let mut rows: Rows = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
    if scan.direction == Direction::Backward {
        rows.reverse();
    }
    rows.truncate(scan.limit);
    rows
}

/// The fence row is the engine's own; the model takes it from the engine, and then it has to stay put.
fn learn_fence(engine: &dyn Engine, map: &mut Map) {
    let key = Fence::key(Shard(0));
    let value = engine.get(Shard(0), &key).unwrap().unwrap();
    map.insert(key, value);
}

fn equals_the_model(engine: impl Engine, acts: &[Act]) -> Result<(), TestCaseError> {
    let mut writer = Writer::acquire(engine, Owner(1));
    let mut map = Map::new();
    learn_fence(writer.engine.as_ref(), &mut map);
    let mut snapshots: Vec<(Box<dyn Snapshot>, Map)> = Vec::new();
    for act in acts {
        match act {
            Act::Commit(group) => {
                let mut batches = Vec::new();
                for changes in group {
                    let mut batch = Batch::new();
                    changes.iter().for_each(|change| apply(&mut map, &mut batch, change));
                    batches.push(batch);
                }
                writer.commit(&batches).unwrap();
                learn_fence(writer.engine.as_ref(), &mut map);
            }
            Act::Snapshot => snapshots.push((writer.engine.snapshot(Shard(0)).unwrap(), map.clone())),
            Act::DropSnapshot(which) if !snapshots.is_empty() => {
                snapshots.swap_remove(which.index(snapshots.len()));
            }
            Act::Check(which, start, end, forward, limit) if !snapshots.is_empty() => {
                let (snapshot, then) = &snapshots[which.index(snapshots.len())];
                let direction = if *forward {
                    Direction::Forward
                } else {
                    Direction::Backward
                };
                let scan = Scan {
                    start,
                    end,
                    direction,
                    limit: *limit,
                };
                prop_assert_eq!(&snapshot.get(start).unwrap(), &then.get(start).cloned());
                prop_assert_eq!(rows(snapshot.as_ref(), &scan).unwrap(), expected(then, &scan));
            }
            Act::DropSnapshot(_) | Act::Check(..) => {}
        }
    }
    snapshots.push((writer.engine.snapshot(Shard(0)).unwrap(), map));
    for (snapshot, then) in &snapshots {
        for direction in [Direction::Forward, Direction::Backward] {
            let all = Scan {
                start: b"",
                end: b"\xff\xff\xff\xff",
                direction,
                limit: usize::MAX,
            };
            prop_assert_eq!(rows(snapshot.as_ref(), &all).unwrap(), expected(then, &all));
        }
        for key in then.keys() {
            prop_assert_eq!(&snapshot.get(key).unwrap(), &then.get(key).cloned());
        }
    }
    let (_, now) = snapshots.last().unwrap();
    for key in [b"".as_slice(), b"\xff", b"\x00", b"b"] {
        prop_assert_eq!(&writer.engine.get(Shard(0), key).unwrap(), &now.get(key).cloned());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn memory_equals_the_model(acts in prop::collection::vec(act(50), 1..40)) {
        equals_the_model(Memory::new(), &acts)?;
    }
}

#[cfg(feature = "sled")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn sled_equals_the_model(acts in prop::collection::vec(act(200_000), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        equals_the_model(super::sled::Sled::open(dir.path()).unwrap(), &acts)?;
    }
}
