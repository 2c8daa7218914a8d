//! Synced bytes stay, the others are kept, lost or torn.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use everstep_power_loss::{Dirs, Report};

use crate::harness::{Role, Stage, sync_dir, synced};

pub(crate) const ROLES: &[Role] = &[
    ("append", append),
    ("overlap", overlap),
    ("truncate", truncate),
    ("copy", copy),
    ("preallocate", preallocate),
];

fn append(root: &Path) {
    let mut file = synced(&root.join("log"), &[b'a'; 3000]);
    file.write_all(&[b'b'; 3000]).expect("write");
}

#[test]
fn an_unsynced_append_is_sometimes_kept_sometimes_torn_sometimes_lost() {
    let stage = Stage::after("append");
    let mut total = Report::default();
    let mut lengths = std::collections::BTreeSet::new();
    stage.cuts(Dirs::Lenient, 50, |seed, report, out| {
        let bytes = fs::read(out.join("log")).expect("the log");
        assert_eq!(bytes[..3000], [b'a'; 3000], "seed {seed}");
        assert!(
            bytes[3000..].iter().all(|&byte| byte == b'b' || byte == 0),
            "seed {seed}"
        );
        assert_eq!(bytes.len() == 3000, report.undone == 1, "seed {seed}");
        let whole = bytes[3000..] == [b'b'; 3000];
        assert_eq!(whole, report.kept == 1, "seed {seed}");
        total.kept += report.kept;
        total.torn += report.torn;
        total.undone += report.undone;
        lengths.insert(bytes.len());
    });
    assert!(total.kept > 0 && total.torn > 0 && total.undone > 0, "{total:?}");
    assert!(lengths.len() > 3, "{lengths:?}");
}

#[test]
fn the_same_seed_cuts_the_same_way() {
    let stage = Stage::after("append");
    let mut seen = Vec::new();
    for round in 0..2 {
        stage.cuts(Dirs::Lenient, 20, |seed, report, out| {
            let result = (report, fs::read(out.join("log")).expect("the log"));
            if round == 0 {
                seen.push(result);
            } else {
                assert_eq!(seen[seed as usize], result, "seed {seed}");
            }
        });
    }
}

/// Unsynced, synced, unsynced, all over each other, through two descriptors.
fn overlap(root: &Path) {
    let file = synced(&root.join("page"), &[b'a'; 8192]);
    file.write_all_at(&[b'x'; 4096], 0).expect("write");
    let twin = fs::OpenOptions::new()
        .write(true)
        .open(root.join("page"))
        .expect("open");
    twin.write_all_at(&[b'c'; 2048], 1024).expect("write");
    file.write_all_at(&[b'a'; 1024], 0).expect("write");
    file.write_all_at(&[b'a'; 1024], 3072).expect("write");
    twin.sync_data().expect("sync");
    file.write_all_at(&[b'd'; 4000], 1000).expect("write");
    twin.write_all_at(&[b'e'; 1024], 2048).expect("write");
}

#[test]
fn lost_overwrites_bring_back_the_synced_bytes() {
    let stage = Stage::after("overlap");
    let mut durable = [b'a'; 8192];
    durable[1024..3072].fill(b'c');
    let mut restored = 0;
    stage.cuts(Dirs::Lenient, 60, |seed, report, out| {
        let bytes = fs::read(out.join("page")).expect("the page");
        assert_eq!(bytes.len(), 8192, "seed {seed}");
        for (at, (&byte, &synced)) in bytes.iter().zip(&durable).enumerate() {
            let new = (byte == b'd' && (1000..5000).contains(&at)) || (byte == b'e' && (2048..3072).contains(&at));
            assert!(byte == synced || new, "seed {seed}, byte {at} is {byte}");
        }
        if report.undone == 2 {
            assert_eq!(bytes, durable, "seed {seed}");
            restored += 1;
        }
    });
    assert!(restored > 0);
}

fn truncate(root: &Path) {
    let mut file = synced(&root.join("log"), &[b'a'; 5000]);
    sync_dir(root);
    file.set_len(700).expect("shrink");
    file.seek(SeekFrom::Start(900)).expect("seek");
    file.write_all(b"end").expect("write");
    drop(synced(&root.join("other"), b"kept"));
    drop(fs::File::create(root.join("other")).expect("truncate"));
}

#[test]
fn a_lost_truncation_brings_back_the_tail() {
    let stage = Stage::after("truncate");
    let (mut lengths, mut others) = (std::collections::BTreeSet::new(), [0, 0]);
    stage.cuts(Dirs::Strict, 60, |seed, _, out| {
        let bytes = fs::read(out.join("log")).expect("the log");
        let old = bytes.iter().filter(|&&byte| byte == b'a').count();
        let whole = [(700, 700), (903, 700), (5000, 4997), (5000, 5000)];
        assert!(
            whole.contains(&(bytes.len(), old)),
            "seed {seed}: {old} of {}",
            bytes.len()
        );
        lengths.insert(bytes.len());
        assert!(!out.join("other").exists(), "its directory was not synced");
    });
    assert_eq!(Vec::from_iter(lengths), [700, 903, 5000]);
    stage.cuts(Dirs::Lenient, 60, |_, _, out| {
        others[usize::from(fs::read(out.join("other")).expect("the other").is_empty())] += 1;
    });
    assert!(others[0] > 0 && others[1] > 0, "{others:?}");
}

fn copy(root: &Path) {
    drop(synced(&root.join("from"), &[b'a'; 100_000]));
    fs::copy(root.join("from"), root.join("to")).expect("copy");
    sync_dir(root);
}

#[test]
fn a_copied_file_is_as_unsynced_as_a_written_one() {
    let stage = Stage::after("copy");
    assert_eq!(fs::read(stage.root().join("to")).expect("the copy"), [b'a'; 100_000]);
    let mut incomplete = 0;
    stage.cuts(Dirs::Strict, 30, |_, _, out| {
        assert_eq!(fs::read(out.join("from")).expect("the source"), [b'a'; 100_000]);
        incomplete += usize::from(fs::read(out.join("to")).expect("the copy") != [b'a'; 100_000]);
    });
    assert!(incomplete > 0);
}

/// As journals do it: a long file of zeros, filled through a write-only handle.
fn preallocate(root: &Path) {
    let file = fs::File::create_new(root.join("journal")).expect("create");
    file.set_len(1 << 20).expect("extend");
    file.sync_all().expect("sync");
    file.write_all_at(&[b'a'; 2000], 0).expect("write");
    file.sync_data().expect("sync");
    file.write_all_at(&[b'b'; 2000], 2000).expect("write");
}

#[test]
fn a_preallocated_file_keeps_its_length() {
    let stage = Stage::after("preallocate");
    stage.cuts(Dirs::Lenient, 30, |seed, _, out| {
        let bytes = fs::read(out.join("journal")).expect("the journal");
        assert_eq!(bytes.len(), 1 << 20, "seed {seed}");
        assert_eq!(bytes[..2000], [b'a'; 2000], "seed {seed}");
        assert!(bytes[4000..].iter().all(|&byte| byte == 0), "seed {seed}");
    });
}
