//! Every row that a store must hold, byte for byte, whatever it lies beside.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everstep::storage::Store;
use everstep::storage::engine::{Direction, Scan};
use everstep::storage::key::Key;
use everstep::storage::value::{self, Record};

/// How many rows a failure names.
const NAMED_MAX: usize = 10;

/// Behind every key.
const END: [u8; 16] = [0xff; 16];

/// The rows that a store must hold beside its header and its positions, which move with every start. Nothing else may be
/// in it.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Expected {
    /// One row more.
    pub(crate) fn add(&mut self, key: &Key<'_>, record: &impl Record) {
        let key = key.pack();
        let value = value::encode(&key, record);
        self.rows.insert(key, value);
    }

    /// Says what is wrong with the rows of a store, if anything is.
    pub(crate) fn compare(mut self, store: &Store) -> Result<(), String> {
        let mut wrong = Vec::new();
        for shard in store.shards() {
            let snapshot = store.snapshot(shard).map_err(|error| error.to_string())?;
            let scan = Scan {
                start: &[],
                end: &END,
                direction: Direction::Forward,
                limit: usize::MAX,
            };
            let scanned = snapshot.scan(&scan, &mut |key, value| {
                let found = Key::unpack(key);
                if !matches!(found, Ok(Key::Store | Key::Position(_))) {
                    match self.rows.remove(key) {
                        Some(expected) if expected == value => {}
                        Some(_) => wrong.push(format!("{found:?} holds something else")),
                        None => wrong.push(format!("{found:?} should not be there")),
                    }
                }
                ControlFlow::Continue(())
            });
            scanned.map_err(|error| error.to_string())?;
        }
        let missing = self.rows.keys();
        wrong.extend(missing.map(|key| format!("{:?} is missing", Key::unpack(key))));
        if wrong.is_empty() {
            return Ok(());
        }
        let (all, named) = (wrong.len(), wrong.len().min(NAMED_MAX));
        Err(format!("{all} rows are wrong: {}", wrong[..named].join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everstep::storage::OpenOptions;
    use everstep::storage::batch::Batch;
    use everstep::storage::engine::{Engine, Group, Owner, Position};
    use everstep::storage::engines::Memory;

    use super::super::workload::Writer;
    use super::*;

    /// Behind so many a message, an alarm and something on its way are there at once.
    const REVISIONS: u64 = 21;

    /// A kill was judged by the rows of the namespaces alone, so nobody would have noticed that others were lost.
    #[test]
    fn every_family_is_compared() {
        let engine = Arc::new(Memory::new());
        let open = || OpenOptions::new().open_engine(Arc::clone(&engine) as Arc<dyn Engine>);
        let mut writer = Writer::new(1);
        let mut expected = Expected::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("it is made");
        let store = open().expect("it opens");
        let namespace = writer.namespace(&store);
        for _ in 0..REVISIONS {
            let commit = writer.commit(&namespace);
            runtime.block_on(store.commit(commit)).expect("it is done");
        }
        writer.expect(&store, &mut expected);
        store.close().expect("it closes");
        let families: std::collections::BTreeSet<_> = expected.rows.keys().map(|key| key[1..3].to_vec()).collect();
        assert_eq!(
            families.len(),
            6,
            "namespace, alarm, listing, duplicate, runnable, on its way"
        );
        let compare = || {
            let rows = expected.rows.clone();
            Expected { rows }.compare(&open().expect("it opens"))
        };
        assert_eq!(compare(), Ok(()));
        for (key, value) in &expected.rows {
            let change = |value: Option<&[u8]>| {
                let mut batch = Batch::new();
                match value {
                    Some(value) => batch.set(key, value),
                    None => batch.delete(key),
                }
                write(&engine, batch);
            };
            change(None);
            assert!(compare().is_err(), "{:?} is lost", Key::unpack(key));
            change(Some(b"something else"));
            assert!(compare().is_err(), "{:?} is changed", Key::unpack(key));
            change(Some(value));
        }
    }

    fn write(engine: &Memory, batch: Batch) {
        let shard = everstep::Shard(0);
        let lease = engine.acquire(shard, Owner(9)).expect("it is free");
        let (sequence, chain) = (lease.position.sequence + 1, 1);
        let group = Group {
            lease,
            expected: lease.position,
            next: Position { sequence, chain },
            batches: &[batch],
        };
        engine.commit(&group).expect("it is done");
    }
}
