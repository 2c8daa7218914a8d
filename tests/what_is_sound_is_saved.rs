//! Of a damaged store every instance that is sound can be had, whole, and everything else is named. FAULTS 11.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::ops::ControlFlow;
use std::sync::Arc;

use everstep::Shard;
use everstep::storage::batch::Batch;
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use everstep::storage::engines::Memory;
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::{LeftOut, OpenOptions, Salvaged, Store};
use stores::{Plan, Reachable, export, history};

const IDS: [&str; 4] = ["a", "b", "c", "d"];

fn reachable() -> Reachable {
    let store = Reachable::new(2);
    let open = store.open();
    IDS.iter().for_each(|id| Plan::new(id).make(&open));
    open.close().unwrap();
    store
}

fn salvage(store: &Store) -> (Vec<u8>, Vec<Option<String>>, Salvaged) {
    let (mut file, mut left_out) = (Vec::new(), Vec::new());
    let mut tell = |LeftOut { instance, .. }| left_out.push(instance);
    let salvaged = store.salvage(&mut file, &mut tell).unwrap();
    assert_eq!(salvaged.left_out, left_out.len() as u64);
    (file, left_out, salvaged)
}

/// What a store holds that was imported from this file.
fn imported(file: &[u8]) -> Vec<u8> {
    let target = Reachable::new(2);
    let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
    let (store, _) = target.options.import_engine(engine, &mut &file[..]).unwrap();
    export(&store)
}

/// The lines of an export without those of one instance, and without the last, whose hash is over all of them.
fn without(file: &[u8], id: &str) -> Vec<String> {
    let text = std::str::from_utf8(file).unwrap();
    let owner = format!("\"instance\":\"{id}\"");
    let lines = text.lines().filter(|line| !line.contains("everstep_export_end"));
    lines.filter(|line| !line.contains(&owner)).map(str::to_owned).collect()
}

/// One envelope of each kind is damaged: its instance is left out and named, the others are there to the byte.
#[test]
fn one_damaged_row_costs_one_instance() {
    let locals = [
        Local::Name(0),
        history(1),
        Local::Meta(Meta::State),
        Local::Meta(Meta::Origin),
        Local::Meta(Meta::Input),
    ];
    for local in locals {
        let store = reachable();
        let (shard, whole) = (store.open().shard_of(&Plan::new("b").id()), export(&store.open()));
        let key = Key::Instance(shard, "b".into(), local.clone()).pack();
        let mut value = store.engine.get(shard, &key).unwrap().unwrap();
        *value.last_mut().unwrap() ^= 1;
        store.tamper(shard, |batch: &mut Batch| batch.set(&key, &value));
        let open = store.open();
        assert!(open.export(&mut Vec::new()).is_err(), "an export does not leave it out");
        let (file, left_out, salvaged) = salvage(&open);
        assert_eq!(left_out, [Some("b".to_owned())], "{local:?}");
        assert_eq!(salvaged.instances, 3);
        assert_eq!(without(&imported(&file), ""), without(&whole, "b"), "{local:?}");
    }
}

#[test]
fn of_a_sound_store_it_is_an_export() {
    let store = reachable().open();
    let (file, left_out, _) = salvage(&store);
    assert_eq!(left_out, [] as [Option<String>; 0]);
    assert!(file == export(&store), "to the byte");
}

/// A key that nobody packs lies among the instances: nobody is left out over it, and it is told.
#[test]
fn a_key_that_can_not_be_read_is_told_of() {
    let store = reachable();
    let shard = store.open().shard_of(&Plan::new("b").id());
    let whole = export(&store.open());
    let mut key = Key::Instance(shard, "b".into(), Local::Name(0)).pack();
    key.truncate(4);
    store.tamper(shard, |batch: &mut Batch| batch.set(&key, b"?"));
    let (file, left_out, _) = salvage(&store.open());
    assert_eq!(left_out, [None]);
    assert!(file == whole, "nobody is left out");
}

/// A part of the engine's files is damaged, as a table may be: it reads nothing between two keys. Who lies behind that is
/// found in the listing.
#[test]
fn a_hole_in_the_engine_costs_those_who_lie_in_it() {
    let engine = Arc::new(Memory::new());
    let store = OpenOptions::new()
        .open_engine(Arc::clone(&engine) as Arc<dyn Engine>)
        .unwrap();
    IDS.iter().for_each(|id| Plan::new(id).make(&store));
    let whole = export(&store);
    drop(store);
    let edge = |id: &str| Key::Instance(Shard(0), id.to_owned().into(), Local::Name(0)).pack();
    let hole = (edge("b"), edge("c"));
    let store = OpenOptions::new()
        .open_engine(Arc::new(Holed { engine, hole }))
        .unwrap();
    assert!(store.export(&mut Vec::new()).is_err());
    let (file, left_out, salvaged) = salvage(&store);
    assert_eq!(left_out, [None, Some("b".to_owned())]);
    assert_eq!(salvaged.instances, 3);
    assert_eq!(without(&file, ""), without(&whole, "b"));
}

/// An engine that can't read what lies between two keys.
struct Holed {
    engine: Arc<Memory>,
    hole: (Vec<u8>, Vec<u8>),
}

fn damaged() -> ReadError {
    ReadError::Corrupt("a block is damaged".into())
}

impl Engine for Holed {
    fn limits(&self) -> EngineLimits {
        self.engine.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.engine.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.engine.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        self.engine.commit(group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.snapshot(shard)?.get(key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let (whole, hole) = (self.engine.snapshot(shard)?, self.hole.clone());
        Ok(Box::new(HoledSnapshot { whole, hole }))
    }
}

struct HoledSnapshot {
    whole: Box<dyn Snapshot>,
    hole: (Vec<u8>, Vec<u8>),
}

impl HoledSnapshot {
    fn has_lost(&self, key: &[u8]) -> bool {
        (self.hole.0.as_slice()..self.hole.1.as_slice()).contains(&key)
    }
}

impl Snapshot for HoledSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        if self.has_lost(key) {
            return Err(damaged());
        }
        self.whole.get(key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let mut fell = false;
        self.whole.scan(scan, &mut |key, value| {
            fell = self.has_lost(key);
            if fell {
                return ControlFlow::Break(());
            }
            visit(key, value)
        })?;
        if fell { Err(damaged()) } else { Ok(()) }
    }
}

/// The command writes what is sound, names the rest, and says with its exit code that there is any.
#[cfg(all(feature = "cli", feature = "fjall"))]
#[test]
fn the_command_names_what_it_leaves_out() {
    use everstep::storage::engines::Fjall;

    let directory = tempfile::tempdir().unwrap();
    let [data, out] = ["data", "sound.jsonl"].map(|name| stores::url(directory.path(), name));
    let store = OpenOptions::new().open(&data).unwrap();
    IDS.iter().for_each(|id| Plan::new(id).make(&store));
    let whole = export(&store);
    store.close().unwrap();
    {
        let engine = Fjall::open(&directory.path().join("data/fjall")).unwrap();
        let mut batch = Batch::new();
        batch.set(&Key::Instance(Shard(0), "b".into(), history(1)).pack(), b"?");
        let lease = engine.acquire(Shard(0), Owner(9)).unwrap();
        let (sequence, chain) = (lease.position.sequence + 1, 1);
        let group = Group {
            lease,
            expected: lease.position,
            next: Position { sequence, chain },
            batches: &[batch],
        };
        engine.commit(&group).unwrap();
    }
    let run = |words: &[&str]| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_everstep"));
        program
            .args(["export", &data, "--out", &out])
            .args(words)
            .output()
            .unwrap()
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(!std::path::Path::new(&out).exists(), "half a file is none");
    let salvaged = run(&["--salvage", "--json"]);
    assert_eq!(salvaged.status.code(), Some(1), "{salvaged:?}");
    let told: serde_json::Value = serde_json::from_slice(&salvaged.stderr).unwrap();
    assert_eq!(told["left_out"]["instance"], "b", "{told}");
    assert_eq!(without(&std::fs::read(&out).unwrap(), ""), without(&whole, "b"));
}
