//! What is not simulated ends the child, with words.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
};

use crate::harness::{Role, Stage, synced};

pub(crate) const ROLES: &[Role] = &[
    ("open for synchronous writes", open_synchronous),
    ("rename out", rename_out),
    ("second process", second_process),
];

fn open_synchronous(root: &Path) {
    const O_DSYNC: i32 = 0o10_000;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).custom_flags(O_DSYNC);
    drop(file.open(root.join("file")));
}

#[test]
fn synchronous_files_are_refused() {
    let words = Stage::new().play_forbidden("open for synchronous writes");
    assert!(words.contains("power loss shim: O_TMPFILE, O_DSYNC"), "{words}");
}

fn rename_out(root: &Path) {
    drop(synced(&root.join("file"), b"content"));
    drop(fs::rename(root.join("file"), root.with_extension("outside")));
}

#[test]
fn renames_across_the_edge_are_refused() {
    let words = Stage::new().play_forbidden("rename out");
    assert!(words.contains("power loss shim: a rename across"), "{words}");
}

fn second_process(root: &Path) {
    drop(synced(&root.join("file"), b"content"));
    let mut shell = Command::new("sh");
    let status = shell.arg("-c").arg("echo > second").current_dir(root).status();
    assert!(status.expect("a shell").success(), "the second process was stopped");
}

#[test]
fn a_second_process_is_refused() {
    let stage = Stage::new();
    let words = stage.play_forbidden("second process");
    assert!(words.contains("power loss shim: a second process"), "{words}");
    assert!(!stage.root().join("second").exists());
}
