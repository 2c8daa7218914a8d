//! Directory entries in both modes.

use std::{collections::BTreeSet, fs, io::Write, path::Path};

use everstep_power_loss::Dirs;

use crate::harness::{Role, Stage, sync_dir, synced};

pub(crate) const ROLES: &[Role] = &[
    ("replace", replace),
    ("replace and sync", replace_and_sync),
    ("rename unsynced content", rename_unsynced_content),
    ("remove", remove),
    ("folders", folders),
    ("fail", fail),
];

/// The usual dance, without its last step.
fn replace(root: &Path) {
    drop(synced(&root.join("current"), b"old"));
    drop(synced(&root.join("next"), b"new"));
    sync_dir(root);
    fs::rename(root.join("next"), root.join("current")).expect("rename");
}

fn replace_and_sync(root: &Path) {
    replace(root);
    sync_dir(root);
}

fn contents(stage: &Stage, dirs: Dirs, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    let mut seen = BTreeSet::new();
    stage.cuts(dirs, 40, |_, _, out| {
        seen.insert(fs::read(out.join(name)).ok());
    });
    seen
}

fn some(content: &[u8]) -> Option<Vec<u8>> {
    Some(content.to_vec())
}

#[test]
fn a_rename_without_a_sync_may_be_lost_and_then_both_files_are_back() {
    let stage = Stage::after("replace");
    let lenient = contents(&stage, Dirs::Lenient, "current");
    assert_eq!(lenient, BTreeSet::from([some(b"old"), some(b"new")]));
    assert_eq!(
        contents(&stage, Dirs::Lenient, "next"),
        BTreeSet::from([None, some(b"new")])
    );
    assert_eq!(
        contents(&stage, Dirs::Strict, "current"),
        BTreeSet::from([some(b"old")])
    );
    assert_eq!(contents(&stage, Dirs::Strict, "next"), BTreeSet::from([some(b"new")]));
}

#[test]
fn a_rename_with_a_sync_of_the_directory_stays() {
    let stage = Stage::after("replace and sync");
    for dirs in [Dirs::Lenient, Dirs::Strict] {
        assert_eq!(contents(&stage, dirs, "current"), BTreeSet::from([some(b"new")]));
        assert_eq!(contents(&stage, dirs, "next"), BTreeSet::from([None]));
    }
}

fn rename_unsynced_content(root: &Path) {
    fs::File::create(root.join("next"))
        .and_then(|mut file| file.write_all(b"new"))
        .expect("write");
    fs::rename(root.join("next"), root.join("current")).expect("rename");
    sync_dir(root);
}

#[test]
fn a_durable_name_may_belong_to_an_empty_file() {
    let stage = Stage::after("rename unsynced content");
    for dirs in [Dirs::Lenient, Dirs::Strict] {
        assert_eq!(
            contents(&stage, dirs, "current"),
            BTreeSet::from([some(b""), some(b"new")])
        );
    }
}

fn remove(root: &Path) {
    fs::create_dir(root.join("folder")).expect("create");
    drop(synced(&root.join("folder/file"), b"content"));
    sync_dir(&root.join("folder"));
    sync_dir(root);
    fs::remove_dir_all(root.join("folder")).expect("remove");
}

#[test]
fn an_unsynced_removal_may_be_lost() {
    let stage = Stage::after("remove");
    assert!(!stage.root().join("folder").exists());
    let lenient = contents(&stage, Dirs::Lenient, "folder/file");
    assert_eq!(lenient, BTreeSet::from([None, some(b"content")]));
    assert_eq!(
        contents(&stage, Dirs::Strict, "folder/file"),
        BTreeSet::from([some(b"content")])
    );
}

/// A synced file in a folder that was renamed, in a root that was not synced.
fn folders(root: &Path) {
    fs::create_dir(root.join("a")).expect("create");
    sync_dir(root);
    fs::rename(root.join("a"), root.join("b")).expect("rename");
    drop(synced(&root.join("b/file"), b"content"));
    sync_dir(&root.join("b"));
    fs::hard_link(root.join("b/file"), root.join("twin")).expect("link");
}

#[test]
fn a_lost_rename_of_a_folder_moves_its_files_back() {
    let stage = Stage::after("folders");
    assert_eq!(
        contents(&stage, Dirs::Lenient, "b/file"),
        BTreeSet::from([some(b"content")])
    );
    assert_eq!(
        contents(&stage, Dirs::Strict, "a/file"),
        BTreeSet::from([some(b"content")])
    );
    assert_eq!(contents(&stage, Dirs::Strict, "b/file"), BTreeSet::from([None]));
    assert_eq!(contents(&stage, Dirs::Strict, "twin"), BTreeSet::from([None]));
    let twins = contents(&stage, Dirs::Lenient, "twin");
    assert_eq!(twins, BTreeSet::from([None, some(b"content")]));
}

/// The kernel turns this down only after the shim has announced it.
fn fail(root: &Path) {
    fs::create_dir(root.join("a")).expect("create");
    fs::rename(root.join("a"), root.join("a/b")).expect_err("a folder in itself");
    drop(synced(&root.join("file"), b"content"));
    sync_dir(root);
}

#[test]
fn a_call_that_failed_changes_nothing() {
    let stage = Stage::after("fail");
    for dirs in [Dirs::Lenient, Dirs::Strict] {
        stage.cuts(dirs, 5, |_, _, out| {
            assert!(out.join("a").is_dir() && !out.join("a/b").exists());
        });
    }
}
