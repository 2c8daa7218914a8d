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
