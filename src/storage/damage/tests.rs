//! Accepting a loss that is cut short, at every step of it.
#![cfg(feature = "fjall")]

use super::*;
use crate::ids::InstanceId;
use crate::storage::commit::Commit;
use crate::storage::engines::Fjall;
use crate::storage::key::Local;
use crate::storage::open::OpenOptions;
use crate::storage::record::Name;
use crate::storage::store::Store;

/// The commits of the store that is damaged. The first two journals hold it up to `b` and `d`.
const COMMITS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Where `c` and `f` stand, behind the header of the store.
const FOUND: u64 = 4;
const EXPECTED: u64 = 7;

/// In memory where there is such a place: this is about the order of things, and not about the disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

fn commit(store: &Store, id: &str) {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let mut commit = Commit::new(namespace.shard());
    commit.set(&namespace, &Local::Name(0), &Name(id.into()));
    store.try_submit(commit).unwrap().wait().unwrap();
}

fn is_there(store: &Store, id: &str) -> bool {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let name: Option<Name> = namespace.get(&*snapshot, &Local::Name(0)).unwrap();
    name.is_some()
}

fn open(path: &Path, accept: bool) -> Result<Store> {
    OpenOptions::new().accept_loss(accept).open(&path.display().to_string())
}

fn journal(path: &Path, number: u64) -> PathBuf {
    path.join(format!("fjall/{number}.jnl"))
}

/// A closed store with three journals, the second of which is damaged in its last batch; what the three hold then, and
/// what the second one held before. With nothing behind the damage in its own file, and the third one gone, it looks
/// like a write that was cut short: that is the state in which a crash is most dangerous.
fn damaged(path: &Path) -> (Vec<Vec<u8>>, Vec<u8>) {
    let store = open(path, false).unwrap();
    for id in COMMITS {
        commit(&store, id);
    }
    store.close().unwrap();
    let mut bytes = fs::read(journal(path, 0)).unwrap();
    // What was allocated and never written, by pages: by bytes it would be most of the test's time.
    let written = bytes.chunks(4096).rposition(|page| page != &[0; 4096][..page.len()]);
    bytes.truncate((written.unwrap() + 1) * 4096);
    let ends = bytes.windows(5).enumerate().filter(|(_, it)| it == b"FJL\x03\x01");
    let starts: Vec<_> = ends.map(|(at, _)| at + 4).collect();
    // Before them there are two batches: who holds the store, and its header.
    let ([.., c, d, e, _], 7) = (starts.as_slice(), starts.len()) else {
        panic!("{starts:?}");
    };
    let end = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let mut parts = vec![bytes[..*c].to_vec(), bytes[*c..*e].to_vec(), bytes[*e..end].to_vec()];
    let sound = parts[1].clone();
    parts[1][*d - *c + 20] ^= 1;
    for (number, part) in (0..).zip(&parts) {
        fs::write(journal(path, number), part).unwrap();
    }
    (parts, sound)
}

/// Begins to accept the loss, and is killed when so many steps of it are done.
fn accept_and_die(path: &Path, steps: usize) {
    let refused = Fjall::open_knowing(&path.join("fjall"), &[EXPECTED]).unwrap_err();
    let Refused::Damaged(damage) = refused else {
        panic!("{refused}");
    };
    damage.set_aside(path).unwrap();
    assert!(finish_some(path, steps).unwrap());
}

/// Accepts the loss, and looks at what is left and at what is kept.
fn accept_and_look(path: &Path, parts: &[Vec<u8>], case: &str) {
    let store = open(path, true).unwrap_or_else(|error| panic!("{case}: {error}"));
    let losses = &store.header().accepted_losses;
    let noted: Vec<_> = losses.iter().map(|loss| (loss.expected, loss.found)).collect();
    assert_eq!(noted, [(Some(EXPECTED), FOUND)], "{case}");
    for id in COMMITS {
        assert_eq!(is_there(&store, id), id < "d", "{case}: {id}");
    }
    commit(&store, "g");
    store.close().unwrap();
    let kept = |name: &str| path.join("damaged/1").join(name);
    assert_eq!(fs::read(kept("1.jnl")).unwrap(), parts[1], "{case}");
    assert_eq!(fs::read(kept("2.jnl")).unwrap(), parts[2], "{case}");
    let left: Vec<_> = fs::read_dir(path.join("damaged")).unwrap().collect();
    assert_eq!(left.len(), 1, "{case}: {left:?}");

    let store = open(path, false).unwrap();
    assert!(is_there(&store, "c") && is_there(&store, "g"), "{case}");
    assert_eq!(store.header().accepted_losses.len(), 1, "{case}");
    store.close().unwrap();
}

/// FAULTS 8: whoever accepts a loss may be killed at any step of it. Nothing was accepted by half: what is left is
/// refused until the loss is accepted to its end, is what was before the damage, and nothing that was there is gone.
#[test]
fn an_acceptance_that_is_cut_short_goes_on() {
    for steps in 0..=2 {
        for look_first in [false, true] {
            let case = format!("killed after {steps} steps, opened first: {look_first}");
            let directory = scratch();
            let (parts, _) = damaged(directory.path());
            accept_and_die(directory.path(), steps);
            if look_first {
                match open(directory.path(), false).map(drop).unwrap_err() {
                    Error::BehindWatermark { expected, found, .. } => {
                        assert_eq!((expected, found), (EXPECTED, FOUND), "{case}");
                    }
                    other => panic!("{case}: {other}"),
                }
            }
            accept_and_look(directory.path(), &parts, &case);
        }
    }
}

/// FAULTS 8: killed while the copies are made, nothing has changed.
#[test]
fn copies_that_are_cut_short_are_made_anew() {
    let directory = scratch();
    let path = directory.path();
    let (parts, _) = damaged(path);
    let new = path.join("damaged/new");
    fs::create_dir_all(&new).unwrap();
    fs::write(new.join("1.jnl"), &parts[1][..10]).unwrap();
    fs::write(new.join(CUT), "4").unwrap();
    match open(path, false).map(drop).unwrap_err() {
        error @ Error::DamagedLog { .. } => {
            assert_eq!(error.code(), "ES0236");
            let text = error.to_string();
            for word in ["fjall/1.jnl", "up to 4", "commit 7", "backup", "accept the loss"] {
                assert!(text.contains(word), "{text}");
            }
        }
        other => panic!("{other}"),
    }
    for (number, part) in (0..).zip(&parts) {
        assert_eq!(fs::read(journal(path, number)).unwrap(), *part);
    }
    accept_and_look(path, &parts, "killed while copying");
}

/// FAULTS 8: killed when the header says so already, and what was set aside has no name of its own yet. It is set aside
/// once, and the next loss is kept beside it.
#[test]
fn what_was_set_aside_keeps_its_name() {
    let directory = scratch();
    let path = directory.path();
    let (parts, _) = damaged(path);
    open(path, true).unwrap().close().unwrap();
    fs::rename(path.join("damaged/1"), path.join("damaged/pending")).unwrap();
    let store = open(path, false).unwrap();
    assert!(is_there(&store, "c") && !is_there(&store, "d"));
    commit(&store, "g");
    store.close().unwrap();
    assert_eq!(fs::read(path.join("damaged/1/1.jnl")).unwrap(), parts[1]);

    let bytes = fs::read(journal(path, 1)).unwrap();
    let at = parts[1].len() / 4;
    let mut worse = bytes.clone();
    worse[at] ^= 1;
    fs::write(journal(path, 1), &worse).unwrap();
    assert_eq!(open(path, false).map(drop).unwrap_err().code(), "ES0236");
    open(path, true).unwrap().close().unwrap();
    assert_eq!(fs::read(path.join("damaged/1/1.jnl")).unwrap(), parts[1]);
    assert_eq!(fs::read(path.join("damaged/2/1.jnl")).unwrap(), worse);
}

/// Somebody accepts a loss, is cut short, finds a backup, and puts it there: a sound journal, and behind it one that is
/// the same as the one that was about to be removed.
#[test]
fn what_somebody_put_there_meanwhile_is_left_alone() {
    for steps in [0, 1] {
        let directory = scratch();
        let path = directory.path();
        let (parts, sound) = damaged(path);
        accept_and_die(path, steps);
        fs::write(journal(path, 1), &sound).unwrap();
        fs::write(journal(path, 2), &parts[2]).unwrap();
        let store = open(path, false).unwrap();
        assert!(COMMITS.iter().all(|id| is_there(&store, id)));
        store.close().unwrap();
    }
}

/// Found in review: somebody made room by removing what had been set aside, and the store did not open any more, although its
/// log was sound by then.
#[test]
fn what_was_set_aside_can_be_removed_when_the_log_is_cut() {
    let directory = scratch();
    let (path, pending) = (directory.path(), directory.path().join("damaged/pending"));
    damaged(path);
    accept_and_die(path, usize::MAX);
    for name in ["1.jnl", "2.jnl"] {
        fs::remove_file(pending.join(name)).unwrap();
    }
    let store = open(path, true).unwrap();
    assert!(is_there(&store, "c") && !is_there(&store, "d"));
    store.close().unwrap();
    open(path, false).unwrap().close().unwrap();

    // Without the plan nobody knows what was to be done, and what to do is said.
    fs::create_dir(&pending).unwrap();
    let refused = open(path, false).map(drop).unwrap_err().to_string();
    assert!(refused.contains("move the directory out of the store"), "{refused}");
    fs::remove_dir(&pending).unwrap();
    open(path, false).unwrap().close().unwrap();
}
