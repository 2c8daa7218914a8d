//! Reading what lies beside the namespaces: alarms, the runnable set, the index.

use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::ids::{InstanceId, Shard};
use crate::limits::PAGE_ROWS_MAX;
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::record::{Alarm, Runnable};
use crate::storage::store::Store;
use crate::storage::value::{self, Record};

/// A part of a listing, and where the next one begins.
#[derive(Debug)]
pub struct Page<T> {
    /// What was found, in order.
    pub rows: Vec<T>,
    /// Behind the last row; none if there is nothing more.
    pub next: Option<Cursor>,
}

/// A place in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Vec<u8>);

impl Store {
    /// The next alarms of a shard, earliest first, at most [`PAGE_ROWS_MAX`] of them.
    pub fn alarms(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(Millis, InstanceId, Alarm)>> {
        page(
            &*self.snapshot(shard)?,
            key::alarms(shard),
            after,
            |key, alarm| match key {
                Key::Alarm(_, at, instance) => Some((at, instance_id(&instance)?, alarm)),
                _ => None,
            },
        )
    }

    /// The instances of a shard that have to run after a restart, at most [`PAGE_ROWS_MAX`] of them.
    pub fn runnable(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(InstanceId, Runnable)>> {
        page(
            &*self.snapshot(shard)?,
            key::runnable(shard),
            after,
            |key, runnable| match key {
                Key::Runnable(_, instance) => Some((instance_id(&instance)?, runnable)),
                _ => None,
            },
        )
    }
}

/// Reads one page of a range. `shape` turns a key of the right family and its record into a row.
fn page<R: Record, T>(
    snapshot: &dyn Snapshot,
    (start, end): (Vec<u8>, Vec<u8>),
    after: Option<&Cursor>,
    shape: impl Fn(Key<'static>, R) -> Option<T>,
) -> Result<Page<T>> {
    let start = after.map_or(start, |Cursor(key)| key.clone());
    let scan = Scan {
        start: &start,
        end: &end,
        direction: Direction::Forward,
        limit: PAGE_ROWS_MAX,
    };
    let mut rows = Vec::new();
    let mut last = Vec::new();
    let mut outcome = Ok(());
    snapshot.scan(&scan, &mut |key, value| {
        let row = Key::unpack(key).map_err(Error::from).and_then(|found| {
            let record = value::decode(key, value).map_err(|source| Error::Decode {
                key: key::describe(key),
                source,
            })?;
            let lost = || Error::Corrupt(format!("{} does not belong where it lies", key::describe(key)));
            shape(found, record).ok_or_else(lost)
        });
        match row {
            Ok(row) => rows.push(row),
            Err(error) => outcome = Err(error),
        }
        last.clear();
        last.extend_from_slice(key);
        if outcome.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    outcome?;
    // The smallest key behind the last one that was read.
    let next = (rows.len() == PAGE_ROWS_MAX).then(|| {
        last.push(0);
        Cursor(last)
    });
    Ok(Page { rows, next })
}

fn instance_id(text: &str) -> Option<InstanceId> {
    InstanceId::new(text).ok()
}
