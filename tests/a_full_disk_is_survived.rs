//! The promise: a full disk ends in one clear error, and costs nothing that was acknowledged (FAULTS 7).
//!
//! The test starts itself in a namespace of mounts of its own, where it may mount a small file system in memory and
//! fill it.
#![cfg(all(feature = "fjall", feature = "sled"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod kit;

use std::fs;
use std::path::Path;
use std::process::Command;

use everstep::Shard;
use everstep::storage::engine::Snapshot;
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{Decided, Entry, EntryKind, State};
use everstep::storage::{Error, Health, Namespace, Store};
use kit::process::{child, lines, part, say};

/// Calls after the disk is full. If each of them tried the disk again, or waited, this would show.
const REFUSALS: usize = 10_000;

/// What the step of a revision holds.
fn content(revision: u64, bytes: usize) -> Vec<u8> {
    vec![revision as u8; bytes]
}

fn namespace(store: &Store) -> Namespace {
    store.namespace(&kit::instance("a"))
}

fn mount(place: &Path, options: &str) {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(place);
    assert!(mount.status().unwrap().success());
}

/// Commits until the disk is full; gives the last revision that was acknowledged.
fn fill(store: &Store, bytes: usize) -> u64 {
    let namespace = namespace(store);
    kit::commit(store, kit::start(&namespace)).unwrap();
    for revision in 2.. {
        match kit::commit(store, kit::step(&namespace, revision, content(revision, bytes))) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), "ES0210", "{error}");
                assert!(error.to_string().contains("make room"), "{error}");
                return revision - 1;
            }
        }
    }
    unreachable!("no disk is that large");
}

fn expect_acknowledged(store: &Store, last: u64, bytes: usize) {
    let namespace = namespace(store);
    let snapshot: Box<dyn Snapshot> = store.snapshot(Shard(0)).unwrap();
    for revision in 2..=last {
        let local = Local::History(std::borrow::Cow::Owned(kit::location(revision)));
        let entry: Entry = namespace.get(&*snapshot, &local).unwrap().unwrap();
        match entry.kind {
            EntryKind::Step(Some(Decided::Completed(payload))) => {
                assert!(payload.bytes == content(revision, bytes), "revision {revision}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Half of the place is taken by something else, which goes away in time.
fn in_a_small_place(engine: &str, place: &Path, megabytes: usize, bytes: usize) {
    mount(place, &format!("size={}m", 2 * megabytes));
    let ballast = place.join("ballast");
    fs::write(&ballast, vec![1; megabytes << 20]).unwrap();
    let path = place.join("store");
    let store = kit::open(engine, &path);
    let last = fill(&store, bytes);
    assert!(last > 2, "nothing fits");

    // It stays so, even now that there is room: what a failed write left behind is not known before a restart.
    fs::remove_file(&ballast).unwrap();
    assert!(
        matches!(store.health(), Health::Failed(Error::Full)),
        "{:?}",
        store.health()
    );
    let namespace = namespace(&store);
    for _ in 0..REFUSALS {
        let error = kit::commit(&store, kit::step(&namespace, last + 1, vec![])).unwrap_err();
        assert_eq!(error.code(), "ES0210");
    }
    assert_eq!(store.close().unwrap_err().code(), "ES0210");

    let store = kit::open(engine, &path);
    assert!(matches!(store.health(), Health::Good));
    expect_acknowledged(&store, last, bytes);
    // The one that was refused may be there all the same, as a whole, or not.
    let state = Local::Meta(Meta::State);
    let snapshot = store.snapshot(Shard(0)).unwrap();
    let found: State = namespace.get(&*snapshot, &state).unwrap().unwrap();
    assert!(
        [last, last + 1].contains(&found.revision),
        "{} after {last}",
        found.revision
    );
    expect_acknowledged(&store, found.revision, bytes);
    drop(snapshot);
    kit::commit(&store, kit::step(&namespace, found.revision + 1, vec![1])).unwrap();
    store.close().unwrap();
    say("survived");
}

/// A store that does not even fit when it is made.
fn in_smaller_and_smaller_places(engine: &str, place: &Path) {
    let mut refused = 0;
    for kilobytes in (8..=96).step_by(4) {
        let place = place.join(kilobytes.to_string());
        fs::create_dir(&place).unwrap();
        mount(&place, &format!("size={kilobytes}k"));
        let path = place.join("store");
        let Err(error) = kit::try_open(engine, &path).and_then(Store::close) else {
            continue;
        };
        refused += 1;
        assert_eq!(error.code(), "ES0210", "{engine}, {kilobytes} KiB: {error}");
        mount(&place, "remount,size=64m");
        let made = kit::try_open(engine, &path).and_then(Store::close);
        made.unwrap_or_else(|error| panic!("{engine}, after {kilobytes} KiB: {error}"));
    }
    assert!(refused > 2, "all of them had room: {refused} had none");
    say("survived");
}

fn full(engine: &str, test: &str, megabytes: usize, bytes: usize) {
    alone(test, |place| in_a_small_place(engine, place, megabytes, bytes));
}

/// Does this in a process with mounts of its own.
fn alone(test: &str, deed: impl FnOnce(&Path)) {
    if let Some((_, place)) = part() {
        return deed(&place);
    }
    let place = kit::scratch();
    let mut child = child(&["unshare", "--mount", "--map-root-user"], test, "fill", place.path());
    let said: Vec<_> = lines(&mut child).collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
    assert_eq!(said, ["survived"]);
}

/// The journal is what does not fit.
#[test]
fn by_fjall() {
    full("fjall", "by_fjall", 16, 30_000);
}

/// The journal fits, and the table that is made of it does not: fjall finds out on a thread of its own.
#[test]
fn by_fjall_while_it_writes_a_table() {
    full("fjall", "by_fjall_while_it_writes_a_table", 80, 1_000_000);
}

/// Found by a user: a disk that was full when a store was made was an engine that was unavailable, and nothing said to
/// make room.
#[test]
fn before_there_is_a_store() {
    alone("before_there_is_a_store", |place| {
        in_smaller_and_smaller_places("fjall", place);
    });
}

#[test]
fn by_sled() {
    full("sled", "by_sled", 40, 30_000);
}
