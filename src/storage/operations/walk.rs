//! Reading through a store: every row of a range in order, a page at a time.
//!
//! A page is copied out of the engine before anyone looks at it, so that a row can be compared with other rows while
//! the walk goes on, whatever the engine allows inside of a scan.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::ids::Shard;
use crate::storage::engine::{Direction, ReadError, Scan, Snapshot};
use crate::storage::key::{self, Key};
use crate::storage::value::{self, Record};

/// Rows of a page. Also ended by [`PAGE_BYTES`].
const PAGE_ROWS: usize = 512;

/// Bytes after which a page ends.
const PAGE_BYTES: usize = 1024 * 1024;

/// A row as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Row {
    pub(super) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The rows of a range.
pub(super) struct Walk<'a> {
    snapshot: &'a dyn Snapshot,
    start: Vec<u8>,
    end: Vec<u8>,
    page: VecDeque<Row>,
    ended: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(snapshot: &'a dyn Snapshot, (start, end): (Vec<u8>, Vec<u8>)) -> Self {
        Self {
            snapshot,
            start,
            end,
            page: VecDeque::new(),
            ended: false,
        }
    }

    /// The next row, or none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Row>, ReadError> {
        if self.page.is_empty() && !self.ended {
            self.turn()?;
        }
        Ok(self.page.pop_front())
    }

    /// Reads the next page. A page that the engine could not read to its end is given as far as it goes; what is
    /// wrong shows when the walk gets there.
    fn turn(&mut self) -> Result<(), ReadError> {
        let scan = Scan {
            start: &self.start,
            end: &self.end,
            direction: Direction::Forward,
            limit: PAGE_ROWS,
        };
        let (page, mut bytes) = (&mut self.page, 0);
        let scanned = self.snapshot.scan(&scan, &mut |key, value| {
            bytes += key.len() + value.len();
            page.push_back(Row {
                key: key.to_vec(),
                value: value.to_vec(),
            });
            if bytes < PAGE_BYTES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let Some(last) = self.page.back() else {
            self.ended = true;
            return scanned;
        };
        self.start.clone_from(&last.key);
        self.start.push(0);
        Ok(())
    }
}

/// The instances of a shard that have any row, in the order of their ids.
pub(super) struct Instances<'a> {
    snapshot: &'a dyn Snapshot,
    start: Vec<u8>,
    end: Vec<u8>,
    /// The first key on the way that can't be read.
    passed_over: Option<Vec<u8>>,
}

impl<'a> Instances<'a> {
    pub(super) fn new(snapshot: &'a dyn Snapshot, shard: Shard) -> Self {
        let (start, end) = key::namespaces(shard);
        Self {
            snapshot,
            start,
            end,
            passed_over: None,
        }
    }

    /// The next id as it stands in the key, which need not be a valid one. Keys that can't be read are passed over:
    /// `verify` names them, and whoever must not leave anything out asks for them.
    pub(super) fn next(&mut self) -> Result<Option<String>, ReadError> {
        while let Some(key) = first_key(self.snapshot, &self.start, &self.end)? {
            if let Ok(Key::Instance(shard, instance, _)) = Key::unpack(&key) {
                self.start = key::below(&key::namespace(shard, &instance)).1;
                return Ok(Some(instance.into_owned()));
            }
            self.start.clone_from(&key);
            self.start.push(0);
            self.passed_over.get_or_insert(key);
        }
        Ok(None)
    }

    /// The first key that was passed over so far.
    pub(super) fn passed_over(&self) -> Option<&[u8]> {
        self.passed_over.as_deref()
    }
}

/// The first key of a range.
pub(super) fn first_key(snapshot: &dyn Snapshot, start: &[u8], end: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
    let scan = Scan {
        start,
        end,
        direction: Direction::Forward,
        limit: 1,
    };
    let mut first = None;
    snapshot.scan(&scan, &mut |key, _| {
        first = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// What a look at one row shows.
#[derive(Debug)]
pub(super) enum Look<R> {
    Missing,
    /// There is a row, and it can't be read. The walk reports it where it lies.
    Unreadable,
    Found(R),
}

/// Looks at one row. That it can't be read is not an error here.
pub(super) fn look<R: Record>(snapshot: &dyn Snapshot, key: &Key<'_>) -> Result<Look<R>, ReadError> {
    let bytes = key.pack();
    match snapshot.get(&bytes) {
        Ok(None) => Ok(Look::Missing),
        Ok(Some(value)) => Ok(value::decode(&bytes, &value).map_or(Look::Unreadable, Look::Found)),
        Err(ReadError::Corrupt(_)) => Ok(Look::Unreadable),
        Err(error) => Err(error),
    }
}
