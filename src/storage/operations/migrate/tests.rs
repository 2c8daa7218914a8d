//! FAULTS 14: a process that is killed during a migration, anywhere and again and again, ends in the new format with
//! every row migrated once; in between no older release gets in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::ids::{InstanceId, MessageId};
use crate::storage::engine::{CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot};
use crate::storage::engines::Fjall;
use crate::storage::key::{Arrival, Local};
use crate::storage::payload::{KeyId, Payload};
use crate::storage::record::{Message, Name, State, Status};
use crate::storage::value::{self, Envelope};
use crate::storage::{Commit, OpenOptions};

const SHARDS: u16 = 3;

/// Format 2: names get an exclamation mark, under schema version 2. Not the same when done twice.
const EXCLAIM: Migration = Migration {
    from: 1,
    to: 2,
    step: |key, value, changes| {
        if let Ok(Key::Instance(_, _, Local::Name(_))) = Key::unpack(key) {
            let envelope = value::open(key, value).unwrap();
            if envelope.version == 1 {
                let name: Name = value::decode(key, value).unwrap();
                let record = [&[name.0.len() as u8 + 1], name.0.as_bytes(), b"!"].concat();
                let envelope = Envelope {
                    version: 2,
                    record: &record,
                    ..envelope
                };
                changes.set(key, &value::seal(key, &envelope));
            }
        }
        Ok(())
    },
};

/// Format 3: nobody remembers messages any more, and every instance is to run.
const FORGET: Migration = Migration {
    from: 2,
    to: 3,
    step: |key, _, changes| {
        match Key::unpack(key) {
            Ok(Key::Dedup(..)) => changes.delete(key),
            Ok(Key::Instance(shard, id, Local::Name(0))) => changes.set(&Key::Runnable(shard, id).pack(), b"run"),
            _ => {}
        }
        Ok(())
    },
};

const FORMATS: Formats = Formats {
    current: 3,
    migrations: &[EXCLAIM, FORGET],
    slice_rows: 5,
};

/// What became of a commit at which the process was killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    Before,
    After,
}

/// Lets a number of commits through; at the next one the process dies.
#[derive(Debug)]
struct Mortal {
    engine: Arc<Fjall>,
    left: AtomicU32,
    kill: Kill,
}

impl Engine for Mortal {
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
        let dead = || CommitError::Unavailable(std::io::Error::other("killed"));
        let count = |left: u32| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count)
            .is_ok()
        {
            return self.engine.commit(group);
        }
        match self.kill {
            Kill::Before => Err(dead()),
            Kill::After => self.engine.commit(group).and(Err(dead())),
        }
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.engine.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.engine.snapshot(shard)
    }
}

/// A store of format 1.
fn old(engine: Arc<Fjall>) {
    let store = OpenOptions::new().shards(SHARDS).open_engine(engine).unwrap();
    for number in 0..6 {
        let namespace = store.namespace(&InstanceId::new(format!("i{number}")).unwrap());
        let mut commit = Commit::new(namespace.shard());
        for index in 0..4 {
            commit.set(&namespace, &Local::Name(index), &Name(format!("name {index}")));
        }
        let state = State {
            status: Status::Waiting,
            run: 1,
            revision: 1,
            alarm_at_ms: None,
            entries: 0,
            completions: 0,
            updated_at_ms: 0,
            ..State::begun(0)
        };
        commit.set_state(&namespace, None, &state);
        store.try_submit(commit).unwrap().wait().unwrap();
        let message = Message::told(
            "m",
            MessageId::new("m").unwrap(),
            Payload {
                key_id: KeyId::PLAIN,
                bytes: vec![0xf6],
            },
            0,
        );
        let mut commit = Commit::new(namespace.shard());
        commit.deliver(&namespace, Arrival { epoch: 1, number: 1 }, &message);
        store.try_submit(commit).unwrap().wait().unwrap();
    }
    store.close().unwrap();
}

fn options() -> OpenOptions {
    OpenOptions::new().formats(FORMATS)
}

fn old_store() -> (tempfile::TempDir, Arc<Fjall>) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Arc::new(Fjall::open(directory.path()).unwrap());
    old(Arc::clone(&engine));
    (directory, engine)
}

/// Opens with the new release, and dies at the commit after `commits` of them.
fn open_until(engine: &Arc<Fjall>, commits: u32, kill: Kill) -> Result<()> {
    let mortal = Mortal {
        engine: Arc::clone(engine),
        left: AtomicU32::new(commits),
        kill,
    };
    options().open_engine(Arc::new(mortal)).map(drop)
}

fn header(engine: &Fjall) -> StoreHeader {
    let key = Key::Store.pack();
    value::decode(&key, &engine.get(Shard(0), &key).unwrap().unwrap()).unwrap()
}

/// Who holds the first shard, and how far it has got: what taking a store over changes.
fn position(engine: &Fjall) -> Option<Vec<u8>> {
    engine.get(Shard(0), &Key::Position(Shard(0)).pack()).unwrap()
}

/// Everything but the positions and the header, which say when and how often.
fn rows(engine: &Fjall) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let snapshot = engine.snapshot(Shard(0)).unwrap();
    let mut walk = Walk::new(&*snapshot, (Vec::new(), vec![0xff; 8]));
    let mut rows = BTreeMap::new();
    while let Some(row) = walk.next().unwrap() {
        if !matches!(Key::unpack(&row.key), Ok(Key::Store | Key::Position(_))) {
            rows.insert(row.key, row.value);
        }
    }
    rows
}

/// What a migration that nobody disturbs makes of the store.
fn undisturbed() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (_directory, engine) = old_store();
    open_until(&engine, u32::MAX, Kill::Before).unwrap();
    let rows = rows(&engine);
    let family = |wanted: fn(&Key<'_>) -> bool| {
        let found = rows
            .iter()
            .filter(|(key, _)| Key::unpack(key).is_ok_and(|key| wanted(&key)));
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let names = family(|key| matches!(key, Key::Instance(_, _, Local::Name(_))));
    assert_eq!(names.len(), 24);
    assert!(names.iter().all(|name| name.ends_with(b"!") && !name.ends_with(b"!!")));
    assert_eq!(family(|key| matches!(key, Key::Runnable(..))).len(), 6);
    assert!(family(|key| matches!(key, Key::Dedup(..))).is_empty());
    rows
}

#[track_caller]
fn is_done(engine: &Fjall, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let header = header(engine);
    assert_eq!((header.format, header.migration), (3, None));
    assert!(rows(engine) == *expected, "every row is migrated, once");
}

#[test]
fn a_kill_at_every_commit_is_survived() {
    let expected = undisturbed();
    for kill in [Kill::Before, Kill::After] {
        for commits in 0.. {
            let (_directory, engine) = old_store();
            let before = rows(&engine);
            let cut = open_until(&engine, commits, kill);
            if cut.is_ok() {
                assert!(commits > 10, "the migration was cut in many places");
                break;
            }
            // Where anything was changed, a release that does not know format 3 keeps out.
            if header(&engine).format == 1 {
                assert!(rows(&engine) == before, "{commits} {kill:?}");
            } else {
                let refused = OpenOptions::new().open_engine(Arc::clone(&engine) as Arc<dyn Engine>);
                assert_eq!(refused.unwrap_err().code(), "ES0206", "{commits} {kill:?}");
            }
            open_until(&engine, u32::MAX, kill).unwrap();
            is_done(&engine, &expected);
        }
    }
}

#[test]
fn kills_again_and_again_only_delay_it() {
    let expected = undisturbed();
    for (commits, kill) in [(1, Kill::After), (2, Kill::Before), (3, Kill::After)] {
        let (_directory, engine) = old_store();
        let opens = (0..1_000).find(|_| open_until(&engine, commits, kill).is_ok());
        assert!(opens.is_some_and(|opens| opens > 3), "{commits} {kill:?}: {opens:?}");
        is_done(&engine, &expected);
    }
}

/// The watermark is what an older release looks at first, before it has touched anything.
#[test]
fn the_watermark_says_the_new_format_before_the_first_row_does() {
    const FAILS: Formats = Formats {
        current: 2,
        migrations: &[Migration {
            from: 1,
            to: 2,
            step: |_, _, _| Err(Error::Overloaded),
        }],
        slice_rows: 5,
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data").display().to_string();
    OpenOptions::new().open(&path).unwrap().close().unwrap();
    let store = OpenOptions::new().open(&path).unwrap();
    let namespace = store.namespace(&InstanceId::new("a").unwrap());
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name("a".into()));
    store.try_submit(commit).unwrap().wait().unwrap();
    store.close().unwrap();
    let failed = OpenOptions::new().formats(FAILS).open(&path);
    assert_eq!(failed.unwrap_err().code(), "ES0213");
    let marks = std::fs::read(directory.path().join("data/watermark")).unwrap();
    assert_eq!(OpenOptions::new().open(&path).unwrap_err().code(), "ES0206");
    assert_eq!(
        std::fs::read(directory.path().join("data/watermark")).unwrap(),
        marks,
        "refused, and left untouched"
    );
    let store = options().open(&path).unwrap();
    assert_eq!(store.header().format, 3);
}

#[test]
fn a_format_without_a_way_is_refused_and_left_untouched() {
    let (_directory, engine) = old_store();
    let before = (header(&engine), position(&engine));
    for migrations in [&[] as &[Migration], &[FORGET], &[EXCLAIM]] {
        let migrations: &'static [Migration] = migrations.to_vec().leak();
        let formats = Formats { migrations, ..FORMATS };
        let refused = OpenOptions::new()
            .formats(formats)
            .open_engine(Arc::clone(&engine) as Arc<dyn Engine>);
        assert_eq!(refused.unwrap_err().code(), "ES0233");
    }
    assert_eq!((header(&engine), position(&engine)), before);
}

/// A release that goes from 1 to 3 at once must not take a store that is on its way from 1 to 2 for one at 1.
#[test]
fn a_migration_that_has_begun_is_ended_by_the_same_migration() {
    const DIRECT: Formats = Formats {
        current: 3,
        migrations: &[Migration { to: 3, ..EXCLAIM }, FORGET],
        slice_rows: 5,
    };
    let (_directory, engine) = old_store();
    open_until(&engine, 4, Kill::Before).unwrap_err();
    let before = position(&engine);
    let refused = OpenOptions::new()
        .formats(DIRECT)
        .open_engine(Arc::clone(&engine) as Arc<dyn Engine>);
    assert_eq!(refused.unwrap_err().code(), "ES0233");
    assert_eq!(position(&engine), before, "it was left untouched");
    open_until(&engine, u32::MAX, Kill::Before).unwrap();
    is_done(&engine, &undisturbed());
}
