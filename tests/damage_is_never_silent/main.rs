//! The promise: damage to the files of a store is found (FAULTS 8 and 9). Either the store does not open and says why,
//! or what it reads back is what was written, or a row that can't be trusted is an error; never a silent difference,
//! never a panic, never a hang.
//!
//! One thing can't be found by any store alone: a whole older copy of the directory, watermark included, is a store
//! that was fine when it was copied.
#![cfg(all(feature = "fjall", feature = "sled"))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test says what it expects by unwrapping it, and starts a thread for what might hang"
)]

mod accepted;
#[path = "../kit/mod.rs"]
mod kit;
mod template;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use everstep::clock::{Clock, Millis};
use everstep::storage::{Error, OpenOptions};
use kit::{Chance, Rows};
use template::{Damage, Template, batches, flip, is_journal, put_down, try_all};

const SEED: u64 = 0x5eed_da7a;

/// For a longer run: how many bytes of each file are flipped, one after the other.
const FLIPS: &str = "EVERSTEP_TEST_FLIPS";

/// FAULTS 8.
fn one_flipped_byte(engine: &'static str, flips_per_file: u64) {
    let template = Template::make(engine);
    let flips_per_file = std::env::var(FLIPS).map_or(flips_per_file, |flips| flips.parse().unwrap());
    let mut chance = Chance::new(SEED);
    let mut damages: Vec<Damage> = Vec::new();
    for (name, bytes) in template.files.iter().filter(|(name, _)| *name != Path::new("lock")) {
        // What was never written can't be damaged in a way that anyone could miss.
        let written: Vec<_> = bytes
            .chunks(4096)
            .enumerate()
            .filter(|(_, page)| page.iter().any(|byte| *byte != 0))
            .flat_map(|(page, bytes)| (page * 4096)..(page * 4096 + bytes.len()))
            .collect();
        let flips = flips_per_file.min(written.len() as u64);
        for number in 0..flips {
            let (from, to) = (
                number * written.len() as u64 / flips,
                (number + 1) * written.len() as u64 / flips,
            );
            let at = written[(from + chance.below((to - from).max(1))) as usize];
            let bit = 1 << chance.below(8);
            let file = name.clone();
            let flip = move |path: &Path| flip(&path.join(&file), at, bit);
            damages.push((format!("{} byte {at} bit {bit:#x}", name.display()), Box::new(flip)));
        }
    }
    try_all(template, damages);
}

#[test]
fn one_flipped_byte_in_fjall() {
    one_flipped_byte("fjall", 16);
}

#[test]
fn one_flipped_byte_in_sled() {
    one_flipped_byte("sled", 32);
}

/// FAULTS 8: a log of several segments, damaged where segments begin and anywhere. What is behind the damage, in later
/// segments, is whole, and must not hide it.
#[test]
fn a_flipped_byte_in_a_segment_of_sled() {
    const SEGMENT_BYTES: usize = 16 << 20;
    let template = Template::with("sled", 32);
    let log = Path::new("sled/tree/db");
    let bytes = template.files[log].len();
    assert!(bytes > 2 * SEGMENT_BYTES, "{bytes} bytes are too few");
    let mut chance = Chance::new(SEED);
    let heads = (0..bytes / SEGMENT_BYTES).flat_map(|segment| (0..24).step_by(9).map(move |at| (segment, at)));
    let heads: Vec<_> = heads.map(|(segment, at)| segment * SEGMENT_BYTES + at).collect();
    let anywhere = (0..6).map(|_| chance.below(bytes as u64) as usize);
    let damages = heads.into_iter().chain(anywhere).map(|at| {
        let flip = move |path: &Path| flip(&path.join(log), at, 1 << (at % 8));
        (format!("byte {at}"), Box::new(flip) as _)
    });
    let damages = damages.collect();
    try_all(template, damages);
}

/// FAULTS 8: fjall has no checksum over the frame of a batch in its journal: where it begins and ends, which decides
/// whether what follows is read at all, and its number, which says what is newer than what.
#[test]
fn a_flipped_frame_of_a_batch_in_fjall() {
    let template = Template::make("fjall");
    let mut damages: Vec<Damage> = Vec::new();
    for (name, bytes) in template.files.iter().filter(|(name, _)| is_journal(name)) {
        for (number, start) in batches(bytes).into_iter().enumerate().step_by(4) {
            // The mark of the batch before, the tag, or the number behind the tag and the length.
            let at = start - 1 + [0, 1, 6, 6][number / 4 % 4];
            let (file, bit) = (name.clone(), 1_u8 << (number / 4 % 8));
            let flip = move |path: &Path| flip(&path.join(&file), at, bit);
            damages.push((format!("{} byte {at} bit {bit:#x}", name.display()), Box::new(flip)));
        }
    }
    assert!(damages.len() > 20, "batches were not found");
    try_all(template, damages);
}

/// FAULTS 8: a bit flips in the middle of the journal that fjall was writing, in a store that was closed well. The
/// commits behind it are whole, and whoever looks at the damage needs them. fjall takes the place for a write that a
/// crash cut short and cuts the file off there; the watermark refuses the store then, but the commits are gone. So
/// fjall must not come that far: the store is refused with every byte as it was, and when the bit is flipped back,
/// everything is there.
#[test]
fn a_refused_open_leaves_what_is_behind_the_damage() {
    let directory = kit::scratch();
    let path = directory.path().join("made");
    let store = kit::open("fjall", &path);
    let namespace = store.namespace(&kit::instance("a"));
    let mut chance = Chance::new(SEED);
    kit::commit(&store, kit::start(&namespace)).unwrap();
    for revision in 2..52 {
        let bytes = chance.bytes(100 + 7 * revision as usize);
        kit::commit(&store, kit::step(&namespace, revision, bytes)).unwrap();
    }
    store.close().unwrap();
    // Once more, so that what was only allocated is gone.
    let store = kit::open("fjall", &path);
    let rows = kit::rows(&store).unwrap();
    store.close().unwrap();
    let files = kit::files(&path);
    let (name, journal) = active_journal(&files);
    let starts = batches(journal);
    assert!(starts.len() > 50, "{} batches", starts.len());
    let start = starts[starts.len() / 2];

    let url = kit::url("fjall", &path);
    let untouched = |path: &Path| {
        let mut files = kit::files(path);
        files.remove(Path::new("lock"));
        files
    };
    // The mark of the batch before, the tag, the count, the tag of an item, its kind, its lengths, its key, a value.
    for at in [0, 1, 2, 14, 15, 25, 27, 31, 36, 150] {
        let (at, bit) = (start - 1 + at, 1 << (at % 8));
        flip(&path.join(name), at, bit);
        let damaged = untouched(&path);
        for error in [
            kit::refused("fjall", &path),
            OpenOptions::new().verify(&url).unwrap_err(),
        ] {
            let Error::DamagedLog {
                path: named,
                expected,
                found,
                ..
            } = &error
            else {
                panic!("byte {at}: {error}");
            };
            assert_eq!((named, *expected), (&path.join(name), 52), "byte {at}");
            assert!(
                found.is_some_and(|found| (20..40).contains(&found)),
                "byte {at}: {error}"
            );
        }
        assert!(untouched(&path) == damaged, "byte {at}: files have changed");
        flip(&path.join(name), at, bit);
        let store = kit::open("fjall", &path);
        assert!(
            kit::rows(&store).unwrap() == rows,
            "byte {at}: flipped back, it reads differently"
        );
        store.close().unwrap();
    }
}

/// FAULTS 5: the power goes while the last batch is synced. Its sectors reach the disk in any order: the first and the
/// last are there, one in between reads as zeros. Nobody was told that the batch is durable, so the store is as it was
/// before it. fjall takes a batch that has its end and the wrong checksum for damage and would never open again.
///
/// Had the batch been durable, the watermark would know it, and the same bytes are a loss.
#[test]
fn a_last_batch_with_a_hole_is_a_write_cut_short() {
    for length in [600, 3_000, 20_000, 150_000, 1_000_000] {
        let directory = kit::scratch();
        let path = directory.path().join("made");
        let store = kit::open("fjall", &path);
        let namespace = store.namespace(&kit::instance("a"));
        let mut chance = Chance::new(SEED);
        kit::commit(&store, kit::start(&namespace)).unwrap();
        kit::commit(&store, kit::step(&namespace, 2, chance.bytes(5_000))).unwrap();
        store.close().unwrap();
        let store = kit::open("fjall", &path);
        kit::commit(&store, kit::step(&namespace, 3, chance.bytes(500))).unwrap();
        let rows = kit::rows(&store).unwrap();
        let watermark = fs::read(path.join("watermark")).unwrap();
        let content = chance.bytes(length);
        let last = kit::commit(&store, kit::step(&namespace, 4, content.clone())).unwrap();
        let rows_after = kit::rows(&store).unwrap();
        store.close().unwrap();
        let files = kit::files(&path);
        let (name, journal) = active_journal(&files);
        let start = *batches(journal).last().unwrap();
        assert!(journal.len() - start > length, "the last batch is another one");

        for (case, torn) in tears(journal, start) {
            let case = format!("{length} bytes, {case}");
            let put_down = |name_of_copy: &str| {
                let path = directory.path().join(name_of_copy);
                drop(fs::remove_dir_all(&path));
                put_down(&files, &path);
                fs::write(path.join(name), &torn).unwrap();
                path
            };
            let path = put_down("durable");
            match kit::refused("fjall", &path) {
                Error::DamagedLog {
                    at, expected, found, ..
                } => {
                    assert_eq!((expected, found), (last.sequence, Some(last.sequence - 1)), "{case}");
                    assert_eq!(at, start as u64, "{case}");
                }
                other => panic!("{case}: {other}"),
            }
            assert!(
                fs::read(path.join(name)).unwrap() == torn,
                "{case}: what is left of it is gone"
            );
            let path = put_down("unacknowledged");
            fs::write(path.join("watermark"), &watermark).unwrap();
            let store = kit::try_open("fjall", &path).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(kit::rows(&store).unwrap() == rows, "{case}: reads differently");
            kit::commit(&store, kit::step(&namespace, 4, content.clone())).unwrap();
            store.close().unwrap();
            let store = kit::open("fjall", &path);
            assert!(kit::rows(&store).unwrap() == rows_after, "{case}: does not go on");
            store.close().unwrap();
        }
    }
}

/// What a power cut may leave of the last batch, which begins at `start`.
fn tears(journal: &[u8], start: usize) -> Vec<(String, Vec<u8>)> {
    let end = journal.len();
    let mut tears = Vec::new();
    let mut hole = |from: usize, to: usize| {
        let mut torn = journal.to_vec();
        torn[from..to].fill(0);
        tears.push((format!("a hole from {from} to {to}"), torn));
    };
    for unit in [512, 4096] {
        // Some of the sectors or pages that the batch has bytes in: always the first, the second and the last two.
        let units: Vec<_> = (start / unit..end.div_ceil(unit)).collect();
        let some = [
            0,
            1,
            units.len() / 3,
            units.len() / 2,
            units.len().saturating_sub(2),
            units.len() - 1,
        ];
        let some: std::collections::BTreeSet<_> = some.into_iter().filter_map(|it| units.get(it)).collect();
        for number in some {
            hole((number * unit).max(start), ((number + 1) * unit).min(end));
        }
    }
    for missing in [1, 4, 12, 13] {
        hole(end - missing, end);
    }
    hole(start, end - 4096.min((end - start) / 2));
    for length in [start + 1, start + 13, (start + end) / 2, end - 13, end - 1] {
        tears.push((format!("cut to {length}"), journal[..length].to_vec()));
        let mut torn = journal[..length].to_vec();
        torn.resize(end + 4096, 0);
        tears.push((format!("zeros from {length}"), torn));
    }
    for count in [0, 200] {
        let mut torn = journal.to_vec();
        torn[start + 1] = count;
        tears.push((format!("{count} items"), torn));
    }
    tears
}

/// The journal that was being written.
fn active_journal(files: &BTreeMap<PathBuf, Vec<u8>>) -> (&PathBuf, &[u8]) {
    let mut journals = files.iter().filter(|(name, _)| is_journal(name));
    let (name, bytes) = journals.next_back().unwrap();
    (name, bytes)
}

/// FAULTS 8: fjall writes a checksum over its list of tables, and does not look at it.
#[test]
fn a_flipped_byte_in_a_list_of_tables_of_fjall() {
    let template = Template::make("fjall");
    let mut damages: Vec<Damage> = Vec::new();
    let keyspace = |name: &&PathBuf| name.parent() == Some(Path::new("fjall/keyspaces/1"));
    for name in template.files.keys().filter(keyspace) {
        for at in 0..template.files[name].len().min(80) {
            let (file, bit) = (name.clone(), 2_u8);
            let flip = move |path: &Path| flip(&path.join(&file), at, bit);
            damages.push((format!("{} byte {at} bit {bit:#x}", name.display()), Box::new(flip)));
        }
    }
    assert!(damages.len() > 20, "lists were not found");
    try_all(template, damages);
}

/// FAULTS 9.
fn a_truncated_file(engine: &'static str) {
    let template = Template::make(engine);
    let mut damages: Vec<Damage> = Vec::new();
    for (name, bytes) in template.files.iter().filter(|(name, _)| *name != Path::new("lock")) {
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for length in [0, 1, written / 3, written / 2, written.saturating_sub(1)] {
            let file = name.clone();
            let cut = move |path: &Path| {
                let file = fs::File::options().write(true).open(path.join(&file)).unwrap();
                file.set_len(length as u64).unwrap();
            };
            damages.push((format!("{} cut to {length}", name.display()), Box::new(cut)));
        }
        // What no journal behind it could tell of: the oldest one gone as a whole looks like one that was removed
        // because everything in it lies in tables.
        if name == Path::new("fjall/0.jnl") {
            continue;
        }
        let file = name.clone();
        let remove = move |path: &Path| fs::remove_file(path.join(&file)).unwrap();
        damages.push((format!("{} removed", name.display()), Box::new(remove)));
    }
    try_all(template, damages);
}

#[test]
fn a_truncated_file_in_fjall() {
    a_truncated_file("fjall");
}

#[test]
fn a_truncated_file_in_sled() {
    a_truncated_file("sled");
}

/// FAULTS 9: an older copy of the engine's files under the newer watermark.
fn an_older_copy(engine: &'static str) {
    let directory = kit::scratch();
    let path = directory.path().join("store");
    let store = kit::open(engine, &path);
    let namespace = store.namespace(&kit::instance("a"));
    kit::commit(&store, kit::start(&namespace)).unwrap();
    let older = kit::rows(&store).unwrap();
    store.close().unwrap();
    let copy = kit::files(&path.join(engine));
    let store = kit::open(engine, &path);
    let last = kit::commit(&store, kit::step(&namespace, 2, vec![2])).unwrap();
    store.close().unwrap();
    fs::remove_dir_all(path.join(engine)).unwrap();
    put_down(&copy, &path.join(engine));

    for _ in 0..2 {
        match kit::refused(engine, &path) {
            error @ Error::BehindWatermark { expected, found, .. } => {
                assert_eq!((expected, found), (last.sequence, last.sequence - 1));
                assert_eq!(error.code(), "ES0207");
                let text = error.to_string();
                assert!(
                    text.contains(&expected.to_string()) && text.contains(&found.to_string()),
                    "{text}"
                );
                assert!(text.contains("accept the loss"), "{text}");
            }
            other => panic!("{other}"),
        }
    }

    let accepted = OpenOptions::new()
        .accept_loss(true)
        .open(&kit::url(engine, &path))
        .unwrap();
    let check = |header: everstep::storage::record::StoreHeader| {
        let losses: Vec<_> = header
            .accepted_losses
            .iter()
            .map(|loss| (loss.shard, loss.expected, loss.found))
            .collect();
        assert_eq!(losses, [(0, Some(last.sequence), last.sequence - 1)]);
        assert!(header.accepted_losses[0].at_ms > 0);
    };
    check(accepted.header().clone());
    accepted.close().unwrap();
    let again = kit::open(engine, &path);
    check(again.header().clone());
    let header = everstep::storage::key::Key::Store.pack();
    let without = |mut rows: Rows| {
        rows.remove(&header);
        rows
    };
    assert_eq!(without(kit::rows(&again).unwrap()), without(older));
    kit::commit(&again, kit::step(&namespace, 2, vec![3])).unwrap();
    again.close().unwrap();
}

#[test]
fn an_older_copy_in_fjall() {
    an_older_copy("fjall");
}

#[test]
fn an_older_copy_in_sled() {
    an_older_copy("sled");
}

/// FAULTS 9: the same number of commits, but others.
fn another_past(engine: &'static str) {
    let directory = kit::scratch();
    let path = |name: &str| directory.path().join(name);
    for (name, content) in [("one", vec![1]), ("two", vec![2])] {
        let store = kit::open(engine, &path(name));
        let namespace = store.namespace(&kit::instance("a"));
        kit::commit(&store, kit::start(&namespace)).unwrap();
        kit::commit(&store, kit::step(&namespace, 2, content)).unwrap();
        store.close().unwrap();
    }
    fs::copy(path("two").join("watermark"), path("one").join("watermark")).unwrap();
    let error = kit::refused(engine, &path("one"));
    assert!(matches!(error, Error::DifferentPast { sequence: 3, .. }), "{error}");
    assert_eq!(error.code(), "ES0207");
}

/// FAULTS 9: another store's engine, which has made more commits. It was opened without a word: it is ahead of the
/// watermark, as any store may be after a power cut.
fn another_store_that_is_ahead(engine: &'static str) {
    let directory = kit::scratch();
    let path = |name: &str| directory.path().join(name);
    for (name, made_at_ms, steps) in [("one", 1_000, 2), ("two", 2_000, 9)] {
        let options = OpenOptions::new().clock(Arc::new(Stopped(made_at_ms)));
        let store = options.open(&kit::url(engine, &path(name))).unwrap();
        let namespace = store.namespace(&kit::instance("a"));
        kit::commit(&store, kit::start(&namespace)).unwrap();
        for revision in 2..steps {
            kit::commit(&store, kit::step(&namespace, revision, vec![1])).unwrap();
        }
        store.close().unwrap();
    }
    fs::remove_dir_all(path("one").join(engine)).unwrap();
    put_down(&kit::files(&path("two").join(engine)), &path("one").join(engine));
    for _ in 0..2 {
        let error = kit::refused(engine, &path("one"));
        assert!(matches!(error, Error::ForeignWatermark), "{error}");
        assert_eq!(error.code(), "ES0207");
    }
    let accepting = OpenOptions::new().accept_loss(true);
    accepting
        .open(&kit::url(engine, &path("one")))
        .unwrap()
        .close()
        .unwrap();
    let store = kit::open(engine, &path("one"));
    assert_eq!(store.header().accepted_losses.len(), 1);
    store.close().unwrap();

    // A watermark from before it said whose it is vouches for any store that is not behind it.
    let store = kit::open(engine, &path("two"));
    store.close().unwrap();
    let watermark = path("two").join("watermark");
    let mut bytes = fs::read(&watermark).unwrap();
    for slot in bytes.chunks_exact_mut(4096) {
        slot[56..].fill(0);
    }
    fs::write(&watermark, bytes).unwrap();
    kit::open(engine, &path("two")).close().unwrap();
    let said = fs::read(&watermark).unwrap();
    assert_eq!(said[56..64], 2_000_u64.to_le_bytes(), "it says so from now on");
}

/// A clock that stands still.
#[derive(Debug)]
struct Stopped(Millis);

impl Clock for Stopped {
    fn now_ms(&self) -> Millis {
        self.0
    }

    fn wait_until(&self, _: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn another_fjall_store_that_is_ahead() {
    another_store_that_is_ahead("fjall");
}

#[test]
fn another_sled_store_that_is_ahead() {
    another_store_that_is_ahead("sled");
}

#[test]
fn another_past_in_fjall() {
    another_past("fjall");
}

#[test]
fn another_past_in_sled() {
    another_past("sled");
}
