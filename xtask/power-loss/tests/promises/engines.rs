//! The engines that this is for.

use std::path::Path;

use everstep_power_loss::Dirs;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use crate::harness::{Role, Stage, say, sync_dir};

pub(crate) const ROLES: &[Role] = &[
    ("fjall", fjall_commits),
    ("fjall unsynced", fjall_unsynced),
    ("sled flush", sled_flush),
    ("sled sync", sled_sync),
];

fn value(key: u64) -> Vec<u8> {
    key.to_be_bytes().repeat(200)
}

fn fjall_commits(root: &Path) {
    let database = Database::builder(root).open().expect("open");
    let items = database
        .keyspace("items", KeyspaceCreateOptions::default)
        .expect("keyspace");
    // fjall 3.1 syncs a new keyspace's folder but not the folder that holds it:
    // in strict mode the whole keyspace would vanish.
    sync_dir(&root.join("keyspaces"));
    for key in 0_u64.. {
        items.insert(key.to_be_bytes(), value(key)).expect("insert");
        database.persist(PersistMode::SyncData).expect("persist");
        say(&format!("key {key}"));
    }
}

fn fjall_unsynced(root: &Path) {
    let database = Database::builder(root).open().expect("open");
    let items = database
        .keyspace("items", KeyspaceCreateOptions::default)
        .expect("keyspace");
    items.insert("key", "value").expect("insert");
    database.persist(PersistMode::Buffer).expect("persist");
    std::mem::forget((database, items));
}

fn fjall_read(out: &Path) -> (Database, fjall::Keyspace) {
    let database = Database::builder(out).open().expect("open after the cut");
    let items = database
        .keyspace("items", KeyspaceCreateOptions::default)
        .expect("keyspace");
    (database, items)
}

#[test]
fn fjall_keeps_what_it_persisted() {
    let stage = Stage::new();
    let last = stage.play("fjall", 150, "key ").len() as u64;
    for dirs in [Dirs::Lenient, Dirs::Strict] {
        stage.cuts(dirs, 6, |seed, _, out| {
            let (_database, items) = fjall_read(out);
            for key in 0..last {
                let found = items.get(key.to_be_bytes()).expect("get");
                let kept = found.as_deref() == Some(value(key).as_slice());
                assert!(kept, "{dirs:?}, seed {seed}, key {key}");
            }
        });
    }
}

#[test]
fn fjall_may_lose_what_it_only_buffered() {
    let stage = Stage::after("fjall unsynced");
    let mut lost = 0;
    stage.cuts(Dirs::Lenient, 12, |_, _, out| {
        let (_database, items) = fjall_read(out);
        lost += usize::from(items.get("key").expect("get").is_none());
    });
    assert!(0 < lost && lost < 12, "{lost} of 12");
}

fn sled_flush(root: &Path) {
    let database = sled::open(root.join("db")).expect("open");
    database.insert("key", "value").expect("insert");
    database.flush().expect("flush");
    std::mem::forget(database);
}

fn sled_sync(root: &Path) {
    sled_flush(root);
    for name in ["db/db", "db/conf"] {
        std::fs::File::open(root.join(name))
            .and_then(|file| file.sync_all())
            .expect("sync");
    }
}

fn sled_losses(role: &str) -> usize {
    let stage = Stage::after(role);
    let mut lost = 0;
    stage.cuts(Dirs::Lenient, 20, |_, _, out| {
        let path = out.join("db");
        let found = std::panic::catch_unwind(|| sled::open(path).and_then(|db| db.get("key")));
        lost += usize::from(!matches!(found, Ok(Ok(Some(value))) if value == b"value"));
    });
    lost
}

/// On Linux sled flushes with `sync_file_range`, which makes nothing durable.
#[test]
fn sync_file_range_alone_is_no_sync() {
    let lost = sled_losses("sled flush");
    assert!(lost > 0);
}

#[test]
fn sled_with_a_real_sync_keeps_its_value() {
    assert_eq!(sled_losses("sled sync"), 0);
}
