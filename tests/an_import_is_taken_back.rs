//! The import of one instance that fails, however and wherever, costs nothing but that instance: the store opens as it
//! was without it. The import of a whole store that fails leaves nothing that opens.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::sync::Arc;

use everstep::storage::engine::Engine;
use everstep::storage::{Error, OpenOptions, Store};
use stores::{Mortal, Plan, Reachable, export, url};

fn exported(plan: &Plan) -> Vec<u8> {
    let source = Reachable::new(1);
    let store = source.open();
    plan.make(&store);
    let mut file = Vec::new();
    store.export_instance(&plan.id(), &mut file).unwrap();
    file
}

/// An instance whose import takes several slices.
fn large() -> Vec<u8> {
    exported(&Plan {
        payload: vec![7; 1_050_000],
        entries: 2,
        messages: 0,
        ..Plan::new("b")
    })
}

/// One with all kinds of rows, for many tries.
fn small() -> Vec<u8> {
    exported(&Plan::new("b"))
}

/// A store that holds others, and what it holds.
fn holds_others() -> (Reachable, Vec<u8>) {
    let target = Reachable::new(2);
    let store = target.open();
    for id in ["a", "aa", "b b", "c"] {
        Plan::new(id).make(&store);
    }
    let before = export(&store);
    (target, before)
}

fn imported(target: &Reachable, file: &[u8]) -> Result<Store, Error> {
    let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
    let imported = target.options.import_engine(engine, &mut &file[..]);
    imported.map(|(store, _)| store)
}

#[track_caller]
fn is_as_before(store: &Store, before: &[u8], when: &str) {
    assert!(export(store) == before, "{when}");
    assert_eq!(store.header().importing, None, "{when}");
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{when}: {report}");
}

/// Instance `b` was imported from a file that had been cut on its way. The import failed, rightly; from then on the
/// store with all the others was refused as unfinished, by open, by a second import, and with every loss accepted.
#[test]
fn a_bad_file_does_not_cost_the_others() {
    let file = small();
    let (target, before) = holds_others();
    let ends: Vec<_> = (0..file.len()).filter(|at| file[*at] == b'\n').collect();
    let cuts = ends.iter().flat_map(|end| [end - 1, *end, end + 1]).chain([0, 1]);
    let mut bad: Vec<_> = cuts
        .filter(|cut| *cut < file.len() - 1)
        .map(|cut| (format!("cut at {cut}"), file[..cut].to_vec()))
        .collect();
    for at in (0..file.len()).step_by(29) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        bad.push((format!("changed at {at}"), changed));
    }
    for (when, bad) in bad {
        let error = imported(&target, &bad).unwrap_err();
        assert_eq!(error.code(), "ES0231", "{when}: {error}");
        // At once, and not only by the next open: nothing is left to be done.
        let bytes = target.value(&everstep::storage::key::Key::Store);
        is_as_before(&target.open(), &before, &when);
        let after = target.value(&everstep::storage::key::Key::Store);
        assert_eq!(bytes, after, "{when}: it was taken back before");
    }
    let store = imported(&target, &file).unwrap();
    assert_eq!(store.verify().unwrap().instances, 5);
}

/// A bad file whose first slices were durable already when the bad line came.
#[test]
fn what_was_durable_already_is_taken_back() {
    let file = large();
    let (target, before) = holds_others();
    let engine = Mortal::new(&target.engine, u32::MAX, u32::MAX);
    let cut = &file[..file.len() - 10];
    let spent = || u32::MAX - engine.commits.load(std::sync::atomic::Ordering::SeqCst);
    let error = target.options.import_engine(engine.clone(), &mut &*cut).unwrap_err();
    assert_eq!(error.code(), "ES0231", "{error}");
    assert!(spent() > 5, "there were slices before the end: {}", spent());
    is_as_before(&target.open(), &before, "cut");
}

/// The process is killed at every commit of an import, and the next one at every commit of taking that back.
#[test]
fn killed_anywhere_the_store_opens_without_the_instance() {
    for (file, slices) in [(small(), 1), (large(), 3)] {
        for commits in 0.. {
            let (target, before) = holds_others();
            let mortal = Mortal::new(&target.engine, commits, u32::MAX);
            if target.options.import_engine(mortal, &mut &file[..]).is_ok() {
                assert_eq!(commits, 1 + slices + 1, "the mark, the slices, the end of the mark");
                break;
            }
            let opened = (0..).find_map(|again| {
                let mortal = Mortal::new(&target.engine, again, u32::MAX);
                target.options.open_engine(mortal).ok().map(|store| (again, store))
            });
            let (again, store) = opened.unwrap();
            is_as_before(&store, &before, &format!("{commits}, {again}"));
            assert_eq!(commits > 0, again > 0, "there was something to take back");
            drop(store);
            // Nobody is in the way of the next try.
            let store = imported(&target, &small()).unwrap();
            let report = store.verify().unwrap();
            assert!(report.is_clean() && report.instances == 5, "{report}");
        }
    }
}

/// Taking back what a bad file left fails too: the error is that of the file, and the next open does the rest.
#[test]
fn the_engine_may_die_while_it_is_taken_back() {
    let file = large();
    let cut = &file[..file.len() - 10];
    let mut died = 0;
    for commits in 0.. {
        let (target, before) = holds_others();
        let mortal = Mortal::new(&target.engine, commits, u32::MAX);
        let error = target.options.import_engine(mortal.clone(), &mut &*cut).unwrap_err();
        let done = mortal.commits.load(std::sync::atomic::Ordering::SeqCst) > 0;
        died += u32::from(error.code() == "ES0231" && !done);
        is_as_before(&target.open(), &before, &format!("{commits}"));
        if done {
            break;
        }
    }
    assert!(died > 1, "it died on the way back");
}

/// Another instance, or a whole store, can be imported after one that was cut short.
#[test]
fn another_import_is_not_refused() {
    let file = large();
    let cut_short = |target: &Reachable| {
        let mortal = Mortal::new(&target.engine, 3, u32::MAX);
        target.options.import_engine(mortal, &mut &file[..]).unwrap_err();
    };
    let source = Reachable::new(1);
    let store = source.open();
    Plan::new("d").make(&store);
    let (whole, mut other) = (export(&store), Vec::new());
    store.export_instance(&Plan::new("d").id(), &mut other).unwrap();

    let (target, _) = holds_others();
    cut_short(&target);
    assert_eq!(imported(&target, &other).unwrap().verify().unwrap().instances, 5);
    cut_short(&target);
    assert_eq!(imported(&target, &whole).unwrap_err().code(), "ES0234");
    assert_eq!(target.open().verify().unwrap().instances, 5);

    let empty = Reachable::new(1);
    drop(empty.open());
    cut_short(&empty);
    assert_eq!(imported(&empty, &whole).unwrap().verify().unwrap().instances, 1);
}

/// Half of a store stays refused: whoever accepts losses accepts those of a store that was whole.
#[test]
fn half_of_a_store_stays_refused() {
    let (source, _) = holds_others();
    let file = export(&source.open());
    let target = Reachable::new(2);
    assert_eq!(
        imported(&target, &file[..file.len() - 10]).unwrap_err().code(),
        "ES0231"
    );
    for accept in [false, true] {
        let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
        let options = OpenOptions::new().accept_loss(accept);
        assert_eq!(options.open_engine(engine).unwrap_err().code(), "ES0232");
    }
    assert_eq!(
        imported(&target, &small()).unwrap_err().code(),
        "ES0232",
        "nor one instance into it"
    );
    assert!(export(&imported(&target, &file).unwrap()) == file);
}

/// The same in a directory, where the watermark goes along.
#[test]
#[cfg(all(feature = "fjall", feature = "sled"))]
fn a_bad_file_does_not_cost_a_directory() {
    let file = small();
    for engine in ["fjall", "sled"] {
        let directory = tempfile::tempdir().unwrap();
        let path = format!("{engine}:{}", url(directory.path(), "data"));
        let store = OpenOptions::new().open(&path).unwrap();
        Plan::new("a").make(&store);
        let before = export(&store);
        store.close().unwrap();
        let error = OpenOptions::new()
            .import(&path, &mut &file[..file.len() / 2])
            .unwrap_err();
        assert_eq!(error.code(), "ES0231", "{error}");
        let report = OpenOptions::new().verify(&path).unwrap();
        assert!(report.is_clean(), "{report}");
        is_as_before(&OpenOptions::new().open(&path).unwrap(), &before, engine);
        OpenOptions::new().import(&path, &mut &file[..]).unwrap();
    }
}
