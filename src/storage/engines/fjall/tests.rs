//! What fjall must not do to a store.

use std::path::Path;

use super::*;
use crate::storage::batch::Batch;

const SHARD: Shard = Shard(0);

/// Commits one batch behind `position`.
fn commit(
    engine: &Fjall,
    lease: Lease,
    position: &mut Position,
    fill: impl FnOnce(&mut Batch),
) -> Result<(), CommitError> {
    let mut batch = Batch::new();
    fill(&mut batch);
    let next = Position {
        sequence: position.sequence + 1,
        chain: 7,
    };
    engine.commit(&Group {
        lease,
        expected: *position,
        next,
        batches: &[batch],
    })?;
    *position = next;
    Ok(())
}

/// Found in review: fjall compresses what is large if some crate of the application asks it to, the guard over the
/// journals took that for damage or for a torn write, and the store did not open or lost its last commits. The tests are
/// built with fjall as such an application has it.
#[test]
fn nothing_is_compressed_whatever_fjall_is_built_with() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Fjall::open(directory.path()).unwrap();
    let lease = engine.acquire(SHARD, Owner(1)).unwrap();
    let mut position = lease.position;
    let value = vec![7; 100_000];
    commit(&engine, lease, &mut position, |batch| batch.set(b"large", &value)).unwrap();
    drop(engine);
    assert_eq!(journal::check(directory.path()).unwrap(), None);
    let engine = Fjall::open(directory.path()).unwrap();
    assert_eq!(engine.get(SHARD, b"large").unwrap(), Some(value));
    engine.rows.rotate_memtable_and_wait().unwrap();
    engine.rows.major_compact().unwrap();
    assert!(bytes(directory.path()) > 100_000, "in a table it lies as it is");
    assert_eq!(engine.acquire(SHARD, Owner(1)).unwrap().position, position);
}

/// Bytes of all tables.
fn bytes(directory: &Path) -> u64 {
    tables(directory)
        .iter()
        .map(|table| table.metadata().unwrap().len())
        .sum()
}

/// The files that tables lie in.
fn tables(directory: &Path) -> Vec<PathBuf> {
    let keyspaces = std::fs::read_dir(directory.join("keyspaces")).unwrap();
    let tables = keyspaces.flat_map(|keyspace| std::fs::read_dir(keyspace.unwrap().path().join("tables")).unwrap());
    tables.map(|table| table.unwrap().path()).collect()
}

/// Found in review: one damaged block, and the delete of a range with it was an unknown outcome or damage of the whole
/// store, which stopped it; after each restart again.
#[test]
fn a_range_that_cannot_be_read_is_not_removed_and_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Fjall::open(directory.path()).unwrap();
    let lease = engine.acquire(SHARD, Owner(1)).unwrap();
    let mut position = lease.position;
    let rows = |batch: &mut Batch| {
        for number in 0..10_000_u32 {
            batch.set(
                &[&[200], &number.to_be_bytes()[..]].concat(),
                &number.to_le_bytes().repeat(20),
            );
        }
    };
    commit(&engine, lease, &mut position, rows).unwrap();
    engine.rows.rotate_memtable_and_wait().unwrap();
    drop(engine);
    for table in tables(directory.path()) {
        let mut bytes = std::fs::read(&table).unwrap();
        if bytes.len() > 100_000 {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 64].fill(0xa5);
            std::fs::write(&table, bytes).unwrap();
        }
    }
    let engine = Fjall::open(directory.path()).unwrap();
    let lease = engine.acquire(SHARD, Owner(1)).unwrap();
    let mut position = lease.position;
    let refused = commit(&engine, lease, &mut position, |batch| {
        batch.delete_range(&[200], &[201]);
    });
    assert!(matches!(refused, Err(CommitError::Unreadable(_))), "{refused:?}");
    commit(&engine, lease, &mut position, |batch| batch.set(b"a", b"1")).unwrap();
    assert_eq!(engine.get(SHARD, b"a").unwrap(), Some(b"1".to_vec()));
}
