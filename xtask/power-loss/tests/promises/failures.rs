//! A sync that fails, below a whole store.

use std::collections::BTreeSet;
use std::path::Path;

use everstep::InstanceId;
use everstep::storage::key::Local;
use everstep::storage::record::Name;
use everstep::storage::{Commit, Error, Health, OpenOptions, Store};
use everstep_power_loss::Dirs;

use crate::harness::{Role, Stage, say};

pub(crate) const ROLES: &[Role] = &[
    ("store on fjall", |root| commit_until_it_fails("fjall", root)),
    ("store on sled", |root| commit_until_it_fails("sled", root)),
];

/// Commits that a child makes if nothing fails.
const COMMITS: u64 = 3;

fn url(engine: &str, root: &Path) -> String {
    format!("{engine}:{}", root.join("store").display())
}

fn instance(number: u64) -> InstanceId {
    InstanceId::new(format!("i{number}")).expect("an id")
}

fn commit(store: &Store, number: u64) -> Result<(), Error> {
    let namespace = store.namespace(&instance(number));
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name(number.to_string()));
    store.try_submit(commit)?.wait().map(drop)
}

fn is_there(store: &Store, number: u64) -> bool {
    let namespace = store.namespace(&instance(number));
    let snapshot = store.snapshot(namespace.shard()).expect("a snapshot");
    let name: Option<Name> = namespace.get(&*snapshot, &Local::Name(0)).expect("a row");
    name.is_some()
}

/// Says in one line what was acknowledged, what the first failure was, what came behind it, and how the store is.
fn commit_until_it_fails(engine: &str, root: &Path) {
    let store = match OpenOptions::new().open(&url(engine, root)) {
        Ok(store) => store,
        Err(error) => return say(&format!("store 0 {} closed closed", error.code())),
    };
    let (mut acknowledged, mut failure) = (0, None);
    while acknowledged < COMMITS && failure.is_none() {
        match commit(&store, acknowledged) {
            Ok(()) => acknowledged += 1,
            Err(error) => failure = Some(error.code()),
        }
    }
    // Only one sync fails: what comes from here on would work, if somebody tried.
    let more = if failure.is_some() { 3 } else { 0 };
    let behind: Vec<_> = (COMMITS..COMMITS + more)
        .map(|number| commit(&store, number).map_or_else(|error| error.code(), |()| "acknowledged"))
        .collect();
    let health = match store.health() {
        Health::Failed(error) => error.code(),
        _ => "good",
    };
    let failure = failure.unwrap_or("none");
    say(&format!("store {acknowledged} {failure} {} {health}", behind.join(",")));
    std::mem::forget(store);
}

/// FAULTS 6: whichever sync of the log fails, the commit that needed it is not acknowledged and not said to be undone,
/// nothing behind it is acknowledged, and the next process, power cut or not, has everything that was.
///
/// Of the log alone: what else an engine syncs, it may do without and go on.
fn every_failing_sync(engine: &str, log: &str) {
    let (mut opening, mut unknown) = (0, BTreeSet::new());
    for number in 1.. {
        let mut stage = Stage::new();
        stage.rig = stage.rig.clone().fail_sync(number, log);
        let said = stage.play(&format!("store on {engine}"), 1, "store ");
        let words: Vec<_> = said[0].split(' ').collect();
        let &[_, acknowledged, failure, behind, health] = words.as_slice() else {
            panic!("sync {number}: {said:?}");
        };
        let acknowledged: u64 = acknowledged.parse().expect("a number");
        match (failure, health) {
            (_, "closed") => opening += 1,
            ("ES0218", "ES0211") => {
                unknown.insert(acknowledged);
                assert_eq!(behind, "ES0211,ES0211,ES0211", "sync {number}: {said:?}");
            }
            ("none", "good") => {
                assert_eq!(acknowledged, COMMITS, "sync {number}: {said:?}");
                break;
            }
            _ => panic!("sync {number}: {said:?}"),
        }
        for dirs in [Dirs::Lenient, Dirs::Strict] {
            stage.cuts(dirs, 2, |seed, _, out| {
                recovers(engine, out, acknowledged, &format!("{number} {dirs:?} {seed}"));
            });
        }
        recovers(engine, &stage.root(), acknowledged, &format!("{number}, no cut"));
    }
    assert!(opening > 0, "a sync failed while the store was made");
    assert!(unknown.into_iter().eq(0..COMMITS), "a sync failed under each commit");
}

#[track_caller]
fn recovers(engine: &str, root: &Path, acknowledged: u64, context: &str) {
    let store = match OpenOptions::new().open(&url(engine, root)) {
        Ok(store) => store,
        Err(error) => panic!("{context}: {} {error}", error.code()),
    };
    for number in 0..acknowledged {
        assert!(is_there(&store, number), "{context}: {number} of {acknowledged}");
    }
    // The one whose outcome was unknown may be there; nothing behind it was written.
    for number in acknowledged + 1..COMMITS + 3 {
        assert!(!is_there(&store, number), "{context}: {number} was refused");
    }
    commit(&store, COMMITS + 3).expect("it works again");
    store.close().expect("it is whole");
}

#[test]
fn a_failing_sync_of_fjall_costs_nothing_that_was_acknowledged() {
    every_failing_sync("fjall", "/fjall/0.jnl");
}

#[test]
fn a_failing_sync_of_sled_costs_nothing_that_was_acknowledged() {
    every_failing_sync("sled", "/tree/db");
}
