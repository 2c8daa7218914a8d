//! Reading the listing index: every instance of a shard, by the time at which it was started.

use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::ids::Shard;
use crate::limits::PAGE_ROWS_MAX;
use crate::storage::engine::{Direction, Scan};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::record::IndexRow;
use crate::storage::store::Store;
use crate::storage::value;

/// A row of the index, with what its key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) created_at_ms: Millis,
    pub(crate) instance: String,
    pub(crate) row: IndexRow,
}

/// Which rows to read: a range of times, and behind which row to begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexRange {
    pub(crate) from_ms: Millis,
    pub(crate) before_ms: Option<Millis>,
    pub(crate) newest_first: bool,
    /// The row that was read last.
    pub(crate) after: Option<(Millis, String)>,
}

impl Store {
    /// The next rows of a shard, at most [`PAGE_ROWS_MAX`] of them.
    ///
    /// Where a row lies never changes while its instance lives, so a reader that goes on behind the last row that it saw
    /// meets everyone who was there all the time, once.
    pub(crate) fn indexed(&self, shard: Shard, range: &IndexRange) -> Result<Vec<Indexed>> {
        let at = |at: Millis, instance: &str| Key::Index(shard, at, instance.into()).pack();
        let (_, mut end) = key::index(shard);
        let mut start = at(range.from_ms, "");
        if let Some(before) = range.before_ms {
            end = at(before, "");
        }
        match &range.after {
            Some((time, instance)) if range.newest_first => end = end.min(at(*time, instance)),
            Some((time, instance)) => {
                let mut behind = at(*time, instance);
                behind.push(0);
                start = start.max(behind);
            }
            None => {}
        }
        let direction = if range.newest_first {
            Direction::Backward
        } else {
            Direction::Forward
        };
        let scan = Scan {
            start: &start,
            end: &end,
            direction,
            limit: PAGE_ROWS_MAX,
        };
        let (mut rows, mut outcome) = (Vec::new(), Ok(()));
        if start >= end {
            return Ok(rows);
        }
        self.snapshot(shard)?.scan(&scan, &mut |key, value| {
            outcome = row(key, value).map(|row| rows.push(row));
            match outcome {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        outcome.map(|()| rows)
    }
}

fn row(key: &[u8], value: &[u8]) -> Result<Indexed> {
    let Key::Index(_, created_at_ms, instance) = Key::unpack(key)? else {
        let what = key::describe(key);
        return Err(Error::Corrupt(format!("{what} does not belong where it lies")));
    };
    let row = value::decode(key, value).map_err(|source| Error::Decode {
        key: key::describe(key),
        source,
    })?;
    Ok(Indexed {
        created_at_ms,
        instance: instance.into_owned(),
        row,
    })
}
