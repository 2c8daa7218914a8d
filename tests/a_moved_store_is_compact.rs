//! What was deleted takes no space in a store that is moved: an export and an import compact it.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use everstep::InstanceId;
use everstep::storage::key::{Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{Published, State};
use everstep::storage::{Commit, OpenOptions};
use stores::{Plan, export};

/// Bytes that all files below a directory take on the disk: a journal may have a length that is not written yet.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            folder if folder.is_dir() => bytes_below(&entry.path()),
            file => file.blocks() * 512,
        })
        .sum()
}

/// FAULTS 69: most instances are deleted, and the store is moved into a new one: that has what is left, and takes the space
/// that this needs, whatever the engine made of what is gone.
#[test]
fn a_store_that_is_moved_leaves_the_space_of_what_was_deleted() {
    const INSTANCES: u32 = 240;
    const KEPT: u32 = 24;

    for engine in ["fjall", "sled"] {
        let directory = tempfile::tempdir().unwrap();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        let url = |path: &Path| format!("{engine}:{}", path.display());
        let store = OpenOptions::new().open(&url(&before)).unwrap();
        // What can be made smaller by packing would say nothing.
        let mut random = 7_u64;
        let mut noise = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_le_bytes()
        };
        let mut large = || (0..8 * 1024).flat_map(|_| noise()).collect::<Vec<u8>>();
        for number in 0..INSTANCES {
            Plan::new(&format!("i{number}")).make(&store);
            let namespace = store.namespace(&InstanceId::new(format!("i{number}")).unwrap());
            let mut commit = Commit::new(namespace.shard());
            let published = Published(Payload {
                key_id: KeyId::PLAIN,
                bytes: large(),
            });
            commit.set(&namespace, &Local::Published("large".into()), &published);
            store.try_submit(commit).unwrap().wait().unwrap();
        }
        for number in KEPT..INSTANCES {
            let namespace = store.namespace(&InstanceId::new(format!("i{number}")).unwrap());
            let snapshot = store.snapshot(namespace.shard()).unwrap();
            let state: State = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap();
            let origin = namespace.get(&*snapshot, &Local::Meta(Meta::Origin)).unwrap().unwrap();
            let mut commit = Commit::new(namespace.shard());
            commit.purge(&namespace, &origin, &state);
            store.try_submit(commit).unwrap().wait().unwrap();
        }
        let file = export(&store);
        let (moved, imported) = OpenOptions::new().import(&url(&after), &mut file.as_slice()).unwrap();
        assert_eq!(imported.instances, u64::from(KEPT));
        assert_eq!(export(&moved), file);
        store.close().unwrap();
        moved.close().unwrap();
        let (before, after) = (bytes_below(&before), bytes_below(&after));
        let large = u64::from(INSTANCES) * 64 * 1024;
        assert!(before >= large, "{engine}: {before} of {large}");
        assert!(after < before / 2, "{engine}: {after} of {before} bytes are left");
    }
}
