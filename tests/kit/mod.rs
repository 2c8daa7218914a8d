//! What the tests of the storage room share: stores to try things on, decisions to commit, and all rows of a store.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "each test uses its part, says what it expects by unwrapping it, and starts threads of its own"
)]

pub(crate) mod process;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use everstep::location::{Location, Segment};
use everstep::storage::engine::{Direction, Scan};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    Completed, Decided, Entry, EntryKind, Input, Message, Origin, Runnable, State, Status,
};
use everstep::storage::{Commit, Condition, Error, Namespace, OpenOptions, Receipt, Result, Store};
use everstep::{InstanceId, MessageId, Shard};
use tempfile::TempDir;

/// All rows of a store.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A directory that goes away with the test; in memory where there is such a place, because a test that opens a store
/// hundreds of times is about its bytes and not about the disk's speed.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub(crate) fn url(engine: &str, path: &Path) -> String {
    format!("{engine}:{}", path.display())
}

pub(crate) fn try_open(engine: &str, path: &Path) -> Result<Store> {
    OpenOptions::new().open(&url(engine, path))
}

pub(crate) fn open(engine: &str, path: &Path) -> Store {
    try_open(engine, path).unwrap()
}

/// The error of an open that must not work.
pub(crate) fn refused(engine: &str, path: &Path) -> Error {
    match try_open(engine, path) {
        Ok(_) => panic!("{engine} at {} opened", path.display()),
        Err(error) => error,
    }
}

pub(crate) fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).unwrap()
}

/// Commits and waits, as a thread that may wait.
pub(crate) fn commit(store: &Store, commit: Commit) -> Result<Receipt> {
    store.try_submit(commit)?.wait()
}

pub(crate) fn payload(bytes: Vec<u8>) -> Payload {
    Payload {
        key_id: KeyId::PLAIN,
        bytes,
    }
}

pub(crate) fn origin() -> Origin {
    Origin {
        workflow: "tried".into(),
        version: 1,
        created_at_ms: 7,
        ..Origin::new("", 0, 0, 0)
    }
}

pub(crate) fn state(revision: u64, status: Status) -> State {
    State {
        status,
        run: 1,
        revision,
        alarm_at_ms: (!status.is_terminal()).then_some(1_000 + revision),
        entries: revision - 1,
        completions: revision - 1,
        updated_at_ms: revision,
        ..State::begun(0)
    }
}

/// Begins an instance, at revision 1.
pub(crate) fn start(namespace: &Namespace) -> Commit {
    let state = state(1, Status::Running);
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Missing(namespace.instance().clone()))
        .set(namespace, &Local::Meta(Meta::Origin), &origin())
        .set(namespace, &Local::Meta(Meta::Input), &Input(payload(vec![1])))
        .set_index(namespace, &origin(), &state)
        .set_runnable(namespace, Some(&Runnable::new("w", 0)))
        .set_state(namespace, None, &state);
    commit
}

/// Goes to `revision` with an entry that holds `bytes`.
pub(crate) fn step(namespace: &Namespace, revision: u64, bytes: Vec<u8>) -> Commit {
    let outcome = Decided::Completed(payload(bytes));
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(namespace.instance().clone(), revision - 1))
        .set(
            namespace,
            &Local::History(Cow::Owned(location(revision))),
            &Entry {
                id: revision,
                completed: Some(Completed {
                    order: revision,
                    at_ms: revision,
                }),
                kind: EntryKind::Step(Some(outcome)),
                ran: None,
            },
        )
        .set_index(namespace, &origin(), &state(revision, Status::Running))
        .set_state(namespace, Some(1_000 + revision - 1), &state(revision, Status::Running));
    commit
}

pub(crate) fn message(id: &str) -> Message {
    Message::told("news", MessageId::new(id).unwrap(), payload(id.as_bytes().to_vec()), 3)
}

/// Puts a message into the inbox, at a place that the test gives.
pub(crate) fn deliver(namespace: &Namespace, number: u64, id: &str) -> Commit {
    let mut commit = Commit::new(namespace.shard());
    commit.deliver(namespace, arrival(number), &message(id));
    commit
}

pub(crate) fn arrival(number: u64) -> Arrival {
    Arrival { epoch: 1, number }
}

pub(crate) fn location(number: u64) -> Location {
    Location::root()
        .child(Segment::Name(u32::try_from(number).unwrap()))
        .unwrap()
}

/// Every row of the store but who holds it, which changes with every open.
pub(crate) fn rows(store: &Store) -> Result<Rows> {
    let held = Key::Position(Shard(0)).pack();
    let mut rows = Rows::new();
    let scan = Scan {
        start: &[],
        end: &[0xff],
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    store.snapshot(Shard(0))?.scan(&scan, &mut |key, value| {
        if key != held {
            rows.insert(key.to_vec(), value.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Every file below a directory with its bytes.
pub(crate) fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in paths(directory) {
        if path.is_file() {
            let name = path.strip_prefix(directory).unwrap().to_owned();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

/// Every file and directory below a directory, and the directory itself.
pub(crate) fn paths(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(paths(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Numbers that look random and are the same each time.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }
}
