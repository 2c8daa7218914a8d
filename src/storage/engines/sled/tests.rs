//! What is special about sled: chunks, pages that stay in the log, ff in keys, and stopping.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU32;
use std::sync::{OnceLock, mpsc};
use std::thread;

use super::chunk::CHUNK_BYTES;
use super::*;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::storage::batch::Batch;
use crate::storage::engine::{Direction, Scan};
use crate::storage::engines::model::{Writer as Committer, rows};
use crate::storage::engines::preimage;

const SHARD: Shard = Shard(0);

fn writer(dir: &Path) -> Committer<Sled> {
    Committer::acquire(Sled::open(dir).unwrap(), Owner(1))
}

/// Bytes in which every chunk differs from every other.
fn bytes(length: usize, salt: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at / 1000) as u8 ^ (at % 251) as u8 ^ salt)
        .collect()
}

fn chunk_rows(engine: &Sled) -> usize {
    engine.rows.db().range(layout::CHUNKS.0..layout::CHUNKS.1).count()
}

fn chunked(engine: &Sled) -> u64 {
    engine.writer.lock().unwrap().chunked
}

fn blobs(dir: &Path) -> usize {
    fs::read_dir(dir.join("tree").join("blobs")).unwrap().count()
}

#[test]
fn values_of_every_size_come_back_over_each_other_and_leave_no_chunk_behind() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [
        0,
        1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        2 * CHUNK_BYTES,
        99_999,
        100_000,
        100_001,
        1_000_000,
    ];
    let mut writer = writer(dir.path());
    for before in sizes {
        for after in sizes {
            for (size, salt) in [(before, 1), (after, 2)] {
                let value = bytes(size, salt);
                writer.set(b"key", &value).unwrap();
                assert!(
                    writer.engine.get(SHARD, b"key").unwrap() == Some(value),
                    "{before} to {after}"
                );
                let chunks = if size > CHUNK_BYTES {
                    size.div_ceil(CHUNK_BYTES)
                } else {
                    0
                };
                assert_eq!(chunk_rows(&writer.engine), chunks, "{before} to {after}");
                assert_eq!(chunked(&writer.engine), u64::from(chunks > 0), "{before} to {after}");
            }
            writer.delete(b"key").unwrap();
            assert_eq!(writer.engine.get(SHARD, b"key").unwrap(), None);
            assert_eq!(
                (chunk_rows(&writer.engine), chunked(&writer.engine)),
                (0, 0),
                "{before} to {after}"
            );
        }
    }
}

#[test]
fn chunked_values_are_found_and_counted_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = writer(dir.path());
    let mut batch = Batch::new();
    batch.set(b"large\xff", &bytes(VALUE_BYTES_MAX, 1));
    batch.set(b"larger", &bytes(100_001, 2));
    batch.set(b"", b"");
    first.commit(&[batch]).unwrap();
    drop(first);
    let mut again = writer(dir.path());
    assert_eq!(chunked(&again.engine), 2);
    assert!(again.engine.get(SHARD, b"large\xff").unwrap() == Some(bytes(VALUE_BYTES_MAX, 1)));
    assert_eq!(again.engine.get(SHARD, b"").unwrap(), Some(Vec::new()));
    let mut batch = Batch::new();
    batch.delete_range(b"l", b"m");
    again.commit(&[batch]).unwrap();
    assert_eq!((chunk_rows(&again.engine), chunked(&again.engine)), (0, 0));
}

#[test]
fn a_missing_or_short_chunk_is_damage_and_not_an_absence() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let value = bytes(200_000, 1);
    let all = Scan {
        start: b"",
        end: b"z",
        direction: Direction::Forward,
        limit: 9,
    };
    let corrupt = |engine: &Sled| {
        let got = engine.get(SHARD, b"key").unwrap_err();
        let scanned = rows(engine.snapshot(SHARD).unwrap().as_ref(), &all).unwrap_err();
        assert!(matches!((got, scanned), (ReadError::Corrupt(_), ReadError::Corrupt(_))));
    };
    writer.set(b"key", &value).unwrap();
    writer.engine.rows.db().remove(layout::chunk(b"key", 1)).unwrap();
    corrupt(&writer.engine);
    writer.set(b"key", &value).unwrap();
    writer
        .engine
        .rows
        .db()
        .insert(layout::chunk(b"key", 3), b"short")
        .unwrap();
    corrupt(&writer.engine);
    writer.set(b"key", &value).unwrap();
    assert!(writer.engine.get(SHARD, b"key").unwrap() == Some(value));
}

/// Sled splits its pages by the number of rows. With its usual segments the rows below, each far smaller than what
/// it would put into a blob by itself, made pages that it did put into blobs.
#[test]
fn no_page_of_large_rows_or_long_keys_leaves_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let value = bytes(CHUNK_BYTES, 1);
    for round in 0..3u8 {
        for part in 0..4u8 {
            let mut batch = Batch::new();
            for number in 0..10 {
                batch.set(&[part, number], &value);
                batch.set(&[part, number, round], &bytes(CHUNK_BYTES * 2, round));
            }
            writer.commit(&[batch]).unwrap();
            assert_eq!(blobs(dir.path()), 0);
        }
    }
    for part in 0..8u16 {
        let mut batch = Batch::new();
        for number in 0..128u16 {
            // Different from the first byte on, so that sled can't share prefixes.
            let mut key = (part * 128 + number).reverse_bits().to_be_bytes().to_vec();
            key.resize(KEY_BYTES_MAX, 7);
            batch.set(&key, b"");
        }
        writer.commit(&[batch]).unwrap();
        assert_eq!(blobs(dir.path()), 0);
    }
}

/// A backward scan over keys like these ran in circles inside sled and panicked, when a page began at `05`.
#[test]
fn scanning_backward_passes_keys_full_of_ff() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let low = |number: u16| {
        [
            [4, 255, 255, 255, 255, 255, 255, 0, 0].as_slice(),
            &number.to_be_bytes(),
            &[1],
        ]
        .concat()
    };
    let groups: [Vec<Vec<u8>>; 3] = [
        (0..9)
            .map(low)
            .chain([vec![5]])
            .chain((0..8).map(|number| vec![5, number]))
            .collect(),
        (20..400).map(low).collect(),
        (9..200).map(|number| vec![5, number]).collect(),
    ];
    // One key a commit: where sled splits its pages depends on the order in which keys come.
    for key in groups.iter().flatten() {
        let mut batch = Batch::new();
        batch.set(key, b"x");
        writer.commit(&[batch]).unwrap();
    }
    let snapshot = writer.engine.snapshot(SHARD).unwrap();
    let scan = Scan {
        start: &[4],
        end: &[6],
        direction: Direction::Backward,
        limit: usize::MAX,
    };
    let found: Vec<_> = rows(snapshot.as_ref(), &scan)
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let mut expected = groups.concat();
    expected.sort();
    expected.reverse();
    assert_eq!(found, expected);
}

#[test]
fn a_snapshot_under_a_running_writer_is_the_state_between_two_commits() {
    let dir = tempfile::tempdir().unwrap();
    preimage::tests::every_snapshot_is_one_round(&Arc::new(Sled::open(dir.path()).unwrap()), 60);
}

#[test]
fn a_chunked_value_is_never_seen_torn() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let value = |round: u32| match round % 3 {
        0 => vec![round as u8; 300_000],
        1 => vec![round as u8; 10],
        _ => vec![round as u8; 200_000],
    };
    writer.set(b"key", &value(0)).unwrap();
    let done = preimage::tests::Done::default();
    let engine = Arc::clone(&writer.engine);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.is_done() {
                let snapshot = engine.snapshot(SHARD).unwrap();
                let first = snapshot.get(b"key").unwrap().unwrap();
                for _ in 0..5 {
                    let mut scanned = None;
                    let scan = Scan {
                        start: b"k",
                        end: b"l",
                        direction: Direction::Forward,
                        limit: 1,
                    };
                    let mut visit = |_: &[u8], value: &[u8]| {
                        scanned = Some(value.to_vec());
                        ControlFlow::Break(())
                    };
                    snapshot.scan(&scan, &mut visit).unwrap();
                    assert!(scanned.as_ref() == Some(&first) && snapshot.get(b"key").unwrap().as_ref() == Some(&first));
                }
                assert!((0..3).any(|kind| first == vec![first[0]; value(kind).len()]));
            }
        });
        let _finish = done.at_the_end();
        for round in 1..=80 {
            writer.set(b"key", &value(round)).unwrap();
        }
    });
}

#[test]
fn a_failed_sync_stops_the_engine_until_it_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&full);
    let sync = move |file: &File| {
        if disk.load(Ordering::Relaxed) {
            Err(ErrorKind::StorageFull.into())
        } else {
            file.sync_data()
        }
    };
    let mut writer = Committer::acquire(Sled::open_with(dir.path(), Box::new(sync)).unwrap(), Owner(1));
    writer.set(b"a", b"1").unwrap();
    full.store(true, Ordering::Relaxed);
    let before = writer.position;
    let unknown = writer.set(b"a", b"2").unwrap_err();
    assert!(matches!(unknown, CommitError::Unknown(error) if error.kind() == ErrorKind::StorageFull));
    full.store(false, Ordering::Relaxed);
    let stopped = |outcome: Result<(), CommitError>| {
        let Err(CommitError::Unavailable(error)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().contains("restart"), "{error}");
    };
    stopped(writer.set(b"a", b"3"));
    stopped(writer.engine.position(&writer.lease).map(drop));
    stopped(writer.engine.acquire(SHARD, Owner(2)).map(drop));
    // What was not made durable is shown to nobody: it may be gone after the restart.
    assert!(writer.engine.get(SHARD, b"a").is_err());
    assert!(writer.engine.snapshot(SHARD).is_err());
    drop(writer);
    let again = Committer::acquire(Sled::open(dir.path()).unwrap(), Owner(3));
    let done = again.position != before;
    assert_eq!(
        again.engine.get(SHARD, b"a").unwrap().unwrap(),
        if done { b"2" } else { b"1" }
    );
}

#[test]
fn half_a_commit_is_shown_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    writer.set(b"a", b"1").unwrap();
    let before = writer.engine.snapshot(SHARD).unwrap();
    writer.engine.torn.store(true, Ordering::Release);
    assert!(matches!(writer.engine.get(SHARD, b"a"), Err(ReadError::Unavailable(_))));
    assert!(matches!(writer.engine.snapshot(SHARD), Err(ReadError::Unavailable(_))));
    assert_eq!(before.get(b"a").unwrap().as_deref(), Some(b"1".as_slice()));
}

#[test]
fn every_commit_is_synced_before_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&syncs);
    let sync = move |file: &File| {
        counter.fetch_add(1, Ordering::Relaxed);
        file.sync_data()
    };
    let mut writer = Committer::acquire(Sled::open_with(dir.path(), Box::new(sync)).unwrap(), Owner(1));
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "the lease");
    writer.set(b"a", b"1").unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 2);
}

/// Whoever reads goes through the gate, and the gate is closed until the disk has answered.
#[test]
fn nothing_is_shown_before_it_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let shared: Arc<OnceLock<Arc<Sled>>> = Arc::default();
    let closed = Arc::new(AtomicU32::new(0));
    let (engine, counter) = (Arc::clone(&shared), Arc::clone(&closed));
    let sync = move |file: &File| {
        let engine = engine.get().unwrap();
        counter.fetch_add(u32::from(engine.preimages.is_committing()), Ordering::Relaxed);
        // Applied already, and not to be seen through the engine yet.
        assert!(engine.rows.get(&Fence::key(SHARD)).unwrap().is_some());
        file.sync_data()
    };
    let engine = Arc::new(Sled::open_with(dir.path(), Box::new(sync)).unwrap());
    shared.set(Arc::clone(&engine)).unwrap();
    Committer::sharing(engine, Owner(1)).set(b"a", b"1").unwrap();
    assert_eq!(closed.load(Ordering::Relaxed), 2);
    let reader = shared.get().unwrap();
    let commit = reader.preimages.commit().unwrap();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for read in [
            |engine: &Sled| drop(engine.get(SHARD, b"a")),
            |engine: &Sled| drop(engine.snapshot(SHARD)),
        ] {
            let sender = sender.clone();
            scope.spawn(move || {
                sender.send("reads").unwrap();
                read(reader);
                sender.send("has read").unwrap();
            });
        }
        (0..2).for_each(|_| assert_eq!(receiver.recv().unwrap(), "reads"));
        // A reader that did not wait would be done long before a thread has yielded this often.
        (0..10_000).for_each(|_| thread::yield_now());
        assert!(receiver.try_recv().is_err(), "a read did not wait for the commit");
        drop(commit);
        (0..2).for_each(|_| assert_eq!(receiver.recv().unwrap(), "has read"));
    });
}

#[test]
fn errors_of_sled_keep_their_meaning() {
    let full = ::sled::Error::Io(ErrorKind::StorageFull.into());
    let mut writer = Writer::default();
    assert!(matches!(writer.stop(full), CommitError::Unknown(error) if error.kind() == ErrorKind::StorageFull));
    let damage = ::sled::Error::Corruption { at: None, bt: () };
    assert!(matches!(rows::read_error(damage.clone()), ReadError::Corrupt(_)));
    assert!(matches!(Writer::default().stop(damage), CommitError::Corrupt(_)));
}
