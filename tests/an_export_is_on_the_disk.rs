//! What the `export` command has written is on the disk when it succeeds, and is for nobody else to read.
#![cfg(all(feature = "fjall", feature = "cli"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod stores;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use everstep::storage::OpenOptions;
use stores::{Plan, export, url};

/// An export was written with whatever rights the umask left, so everyone on the machine could read what the store
/// keeps to its owner.
#[test]
fn an_export_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = url(directory.path(), "data");
    let store = OpenOptions::new().open(&path).unwrap();
    Plan::new("a").make(&store);
    let expected = export(&store);
    store.close().unwrap();
    // With a directory in the name of the file, and without.
    for out in [url(directory.path(), "one.ndjson"), "two.ndjson".to_owned()] {
        let run = || {
            Command::new("sh")
                .current_dir(directory.path())
                .args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_everstep")])
                .args(["export", &path, "--out", &out])
                .output()
                .unwrap()
        };
        let done = run();
        assert!(done.status.success(), "{done:?}");
        let file = directory.path().join(&out);
        assert!(std::fs::read(&file).unwrap() == expected);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!run().status.success(), "what is there is not overwritten");
        assert!(std::fs::read(&file).unwrap() == expected);
    }
}
