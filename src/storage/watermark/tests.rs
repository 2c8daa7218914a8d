//! What the watermark keeps, and what the store makes of one that fails.

use super::*;
use crate::ids::InstanceId;
use crate::storage::commit::Commit;
use crate::storage::engine::Engine;
use crate::storage::engines::Memory;
#[cfg(feature = "testing")]
use crate::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan};
use crate::storage::key::Local;
use crate::storage::open::{OpenOptions as StoreOptions, Place};
use crate::storage::record::Name;
use crate::storage::store::{Health, Store};

fn mark(sequence: u64) -> Mark {
    Mark {
        position: Position {
            sequence,
            chain: sequence * 31,
        },
        epoch: 3,
    }
}

fn marks(sequence: u64) -> Found {
    Found::Marks {
        format: 1,
        marks: vec![mark(sequence)],
        born: Some(7),
    }
}

fn advance(watermark: &Watermark, sequence: u64) {
    watermark.advance(Shard(0), 3, mark(sequence).position).unwrap();
}

fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn the_newest_slot_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermark");
    assert_eq!(Watermark::read(&path).unwrap(), Found::Missing);
    let watermark = Watermark::create(&path, 1, &[Mark::default()], Some(7)).unwrap();
    for sequence in 1..5 {
        advance(&watermark, sequence);
        assert_eq!(Watermark::read(&path).unwrap(), marks(sequence));
        if sequence % 2 == 0 {
            watermark.sync().unwrap();
        }
    }
}

/// FAULTS 10: one of two slots damaged, the other one is used; both damaged, refused.
#[test]
fn one_damaged_slot_leaves_the_one_that_was_synced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermark");
    let watermark = Watermark::create(&path, 1, &[Mark::default()], Some(7)).unwrap();
    advance(&watermark, 1);
    watermark.sync().unwrap();
    // Whatever is written from here on is not synced, so a power cut may tear all of it.
    advance(&watermark, 2);
    advance(&watermark, 3);
    damage(&path, 30);
    assert_eq!(Watermark::read(&path).unwrap(), marks(1));
    damage(&path, PAGE_BYTES + 30);
    assert_eq!(Watermark::read(&path).unwrap(), Found::Damaged);
}

#[test]
fn every_flipped_byte_of_a_slot_is_found() {
    let slot = |born| {
        let mut bytes = Vec::new();
        let marks = vec![mark(1), mark(2)];
        let content = Slot {
            generation: 7,
            format: 1,
            marks,
            born,
        };
        encode(&content, &mut bytes);
        (bytes, Some(content))
    };
    // As it was written before it said whose it is, which is still read.
    let (old, nameless) = slot(None);
    let (bytes, whole) = slot(Some(9));
    assert_eq!(decode(&old), nameless);
    assert_eq!(decode(&[&old[..], &[0; 64]].concat()), nameless);
    assert_eq!(decode(&bytes), whole);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let left = nameless.as_ref().filter(|_| at >= old.len());
        assert_eq!(decode(&bad).as_ref(), left, "byte {at}");
    }
    for length in 0..bytes.len() {
        let left = nameless.as_ref().filter(|_| length >= old.len());
        assert_eq!(decode(&bytes[..length]).as_ref(), left, "length {length}");
    }
}

/// A watermark over whatever is at `path`, without a thread that syncs.
fn over(path: &str, options: &mut OpenOptions) -> Arc<Watermark> {
    let slot = Slot {
        generation: 1,
        format: 1,
        marks: vec![Mark::default()],
        born: None,
    };
    Arc::new(Watermark {
        path: path.into(),
        file: options.open(path).unwrap(),
        slots: Mutex::new(Slots {
            slot,
            current: 1,
            buffer: Vec::new(),
        }),
        dirty: AtomicBool::new(false),
        failure: Arc::default(),
        keeper: Mutex::default(),
    })
}

/// One that can be written, and not synced.
fn unsyncable() -> Arc<Watermark> {
    over("/dev/null", OpenOptions::new().write(true))
}

fn store(engine: Arc<dyn Engine>, watermark: &Arc<Watermark>) -> Store {
    let mut parts = StoreOptions::new().prepare(Place::Engine(engine)).unwrap();
    parts.watermark = Some(Arc::clone(watermark));
    Store::start(parts).unwrap()
}

fn commit(store: &Store, id: &str) -> Commit {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name(id.into()));
    commit
}

fn is_there(store: &Store, id: &str) -> bool {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let name: Option<Name> = namespace.get(&*snapshot, &Local::Name(0)).unwrap();
    name.is_some()
}

#[track_caller]
fn code_of(health: &Health) -> &'static str {
    match health {
        Health::Good => panic!("the store works"),
        Health::Failed(error) => error.code(),
    }
}

/// Found in review: the sync of the watermark failed, and the store was called good until somebody committed.
#[test]
fn a_sync_that_fails_is_known_at_once() {
    let watermark = unsyncable();
    let store = store(Arc::new(Memory::new()), &watermark);
    store.try_submit(commit(&store, "before")).unwrap().wait().unwrap();
    assert!(watermark.sync().is_err());
    assert_eq!(code_of(&store.health()), "ES0211");
    // Nobody has tried to write it, so it is known not to be done.
    assert_eq!(store.try_submit(commit(&store, "behind")).unwrap_err().code(), "ES0211");
    assert!(is_there(&store, "before") && !is_there(&store, "behind"));
    assert_eq!(store.close().unwrap_err().code(), "ES0211");
}

/// Found in review: a commit that the engine had made durable was answered as not done, since the watermark failed
/// meanwhile.
#[cfg(feature = "testing")]
#[test]
fn a_commit_that_was_written_is_never_said_not_to_be() {
    let (watermark, plan, gate) = (unsyncable(), Plan::new(), Gate::new());
    let store = store(Arc::new(Faulty::new(Arc::new(Memory::new()), plan.clone())), &watermark);
    store.try_submit(commit(&store, "before")).unwrap().wait().unwrap();
    plan.at_commit(1, CommitFault::Delay(gate.latch()));
    let pending = store.try_submit(commit(&store, "meanwhile")).unwrap();
    gate.wait(1);
    assert!(watermark.sync().is_err());
    gate.open();
    assert_eq!(pending.wait().unwrap_err().code(), "ES0218");
    assert!(is_there(&store, "meanwhile"));
}

/// The same if it can't be written at all.
#[test]
fn what_cannot_be_noted_is_not_said_to_be_undone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("watermark");
    std::fs::write(&path, b"").unwrap();
    let watermark = over(&path.display().to_string(), OpenOptions::new().read(true));
    let store = store(Arc::new(Memory::new()), &watermark);
    let error = store.try_submit(commit(&store, "written")).unwrap().wait().unwrap_err();
    assert_eq!(error.code(), "ES0218", "{error}");
    assert!(is_there(&store, "written"));
    assert_eq!(code_of(&store.health()), "ES0204");
    let refused = store.try_submit(commit(&store, "behind")).unwrap_err();
    assert_eq!(refused.code(), "ES0204");
}
