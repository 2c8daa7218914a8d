//! `verify` of a store that nobody has open changes no row, makes nothing, and says what is not there. FAULTS 9, 11.
#![cfg(all(feature = "fjall", feature = "sled"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use everstep::Shard;
use everstep::storage::{Fault, OpenOptions, Report};
use stores::{Plan, Reachable, export};

const ENGINES: [&str; 2] = ["fjall", "sled"];

fn url(engine: &str, directory: &Path) -> String {
    format!("{engine}:{}", directory.join("data").display())
}

/// A closed store with one instance.
fn made(engine: &str, directory: &Path) -> String {
    let url = url(engine, directory);
    let open = OpenOptions::new().open(&url).unwrap();
    Plan::new("good").make(&open);
    open.close().unwrap();
    url
}

/// Every file below a directory with what is in it, and every directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            found.insert(path, Vec::new());
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

#[track_caller]
fn faults(report: &Report, expected: &[Fault]) {
    assert_eq!(report.faults.keys().copied().collect::<Vec<_>>(), expected, "{report}");
}

#[test]
fn an_open_store_is_as_it_was() {
    let store = Reachable::new(1);
    let open = store.open();
    Plan::new("good").make(&open);
    let (before, sequence) = (export(&open), store.sequence(Shard(0)));
    open.verify().unwrap();
    assert_eq!(export(&open), before);
    assert_eq!(store.sequence(Shard(0)), sequence);
}

/// FAULTS 9 and 71: a store that would not open is still read, and nobody takes it over.
#[test]
fn a_closed_store_is_as_it_was_to_the_byte() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let url = made(engine, directory.path());
        let open = OpenOptions::new().open(&url).unwrap();
        assert_eq!(OpenOptions::new().verify(&url).unwrap_err().code(), "ES0205");
        open.close().unwrap();
        // What the engine may do to its own files when it opens, it has done by the second time.
        let own = directory.path().join("data").join(engine);
        for its_own_too in [false, true] {
            let look = || {
                let mut found = files(directory.path());
                found.retain(|path, _| its_own_too || !path.starts_with(&own));
                found
            };
            let before = look();
            faults(&OpenOptions::new().verify(&url).unwrap(), &[]);
            let after = look();
            assert!(before.keys().eq(after.keys()), "{engine}: {:?}", after.keys());
            for (path, bytes) in &before {
                assert!(after[path] == *bytes, "{}", path.display());
            }
        }
        fs::remove_file(directory.path().join("data/watermark")).unwrap();
        faults(&OpenOptions::new().verify(&url).unwrap(), &[Fault::NoWatermark]);
    }
}

#[test]
fn nothing_is_made_where_nothing_was() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let error = OpenOptions::new().verify(&url(engine, directory.path())).unwrap_err();
        assert_eq!(error.code(), "ES0203", "{error}");
        assert_eq!(files(directory.path()), BTreeMap::new());
    }
}

/// Found in review: the folder of sled was there and its tree was not. `verify`, and opening too, made an empty one in
/// its place.
#[test]
fn an_engine_that_is_gone_is_damage_and_is_not_made_anew() {
    // What of the engine is gone, and what an open says of it.
    let gone: [(&str, &str, &str); 5] = [
        ("sled", "sled/tree", "ES0207"),
        ("sled", "sled", "ES0207"),
        ("fjall", "fjall", "ES0207"),
        ("fjall", "fjall/*", "ES0207"),
        ("fjall", "fjall/version", "ES0209"),
    ];
    for (engine, what, code) in gone {
        let directory = tempfile::tempdir().unwrap();
        let url = made(engine, directory.path());
        let path = directory.path().join("data").join(what.trim_end_matches("/*"));
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        if what.ends_with('*') {
            fs::create_dir(&path).unwrap();
        }
        let before = files(directory.path());
        let report = OpenOptions::new().verify(&url).unwrap();
        faults(&report, &[Fault::EngineDamaged, Fault::BehindWatermark]);
        assert!(files(directory.path()) == before, "{what}: nothing was made");
        let error = OpenOptions::new().open(&url).unwrap_err();
        assert_eq!(error.code(), code, "{what}: {error}");
        let names = |files: BTreeMap<PathBuf, Vec<u8>>| files.into_keys().collect::<Vec<_>>();
        assert_eq!(
            names(files(directory.path())),
            names(before),
            "{what}: nothing was made"
        );
    }
}
