//! The rows in sled's tree: reading them, and turning changes into one batch.

use std::io;
use std::ops::Range;

use super::chunk::{self, Kept};
use super::layout;
use crate::storage::engine::{Direction, ReadError, Scan};
use crate::storage::engines::net::Net;
use crate::storage::engines::preimage::{Page, Tree};

/// A page of a scan ends behind this many bytes, so that a scan over large values does not hold many of them.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Sled's one tree.
pub(super) struct Rows {
    db: ::sled::Db,
}

impl Rows {
    pub(super) fn new(db: ::sled::Db) -> Self {
        Self { db }
    }

    #[cfg(test)]
    pub(super) fn db(&self) -> &::sled::Db {
        &self.db
    }

    /// How many values lie in chunks. Reads the chunks and nothing else.
    pub(super) fn count_chunked(&self) -> Result<u64, ReadError> {
        let (start, end) = layout::CHUNKS;
        let mut count = 0;
        for place in self.db.range(start..end).keys() {
            count += u64::from(layout::is_first_chunk(&place.map_err(read_error)?));
        }
        Ok(count)
    }

    /// The keys of a range.
    pub(super) fn keys(&self, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
        let places = self.db.range(places(start, end)).keys();
        places.map(|place| layout::key(&place.map_err(read_error)?)).collect()
    }

    /// All changes as one batch, and how many values lie in chunks when it is applied; before it were `chunked`.
    pub(super) fn batch(&self, net: &Net<'_>, chunked: u64) -> Result<(::sled::Batch, u64), ReadError> {
        let mut batch = ::sled::Batch::default();
        let mut after = chunked;
        for (key, value) in net.changes() {
            let old = if chunked > 0 { self.chunks(key)? } else { 0 };
            let new = match value {
                Some(value) => chunk::insert(&mut batch, key, value),
                None => {
                    batch.remove(layout::row(key));
                    0
                }
            };
            (new..old).for_each(|number| batch.remove(layout::chunk(key, number)));
            after = (after + u64::from(new > 0)).saturating_sub(u64::from(old > 0));
        }
        Ok((batch, after))
    }

    pub(super) fn apply(&self, batch: ::sled::Batch) -> Result<(), ::sled::Error> {
        self.db.apply_batch(batch)
    }

    /// Hands everything to the kernel. Not durable yet.
    pub(super) fn flush(&self) -> Result<(), ::sled::Error> {
        self.db.flush().map(|_| ())
    }

    /// In how many chunks the value of a key lies.
    fn chunks(&self, key: &[u8]) -> Result<u32, ReadError> {
        let row = self.lookup(&layout::row(key))?;
        row.map_or(Ok(0), |row| Ok(Kept::parse(&row)?.chunks()))
    }

    fn lookup(&self, place: &[u8]) -> Result<Option<::sled::IVec>, ReadError> {
        self.db.get(place).map_err(read_error)
    }

    fn value(&self, key: &[u8], row: &[u8]) -> Result<Vec<u8>, ReadError> {
        chunk::collect(key, &Kept::parse(row)?, |place| self.lookup(place))
    }

    fn fill(&self, rows: impl Iterator<Item = Found>, limit: usize) -> Result<Page, ReadError> {
        let mut page = Page::default();
        let mut bytes = 0;
        for found in rows {
            let (place, row) = found.map_err(read_error)?;
            let key = layout::key(&place)?;
            let value = self.value(&key, &row);
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            page.rows.push((key, value));
            if page.rows.len() == limit || bytes >= PAGE_BYTES_MAX {
                page.more = true;
                break;
            }
        }
        Ok(page)
    }
}

type Found = Result<(::sled::IVec, ::sled::IVec), ::sled::Error>;

impl Tree for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let row = self.lookup(&layout::row(key))?;
        row.map(|row| self.value(key, &row)).transpose()
    }

    fn page(&self, scan: &Scan<'_>) -> Result<Page, ReadError> {
        let rows = self.db.range(places(scan.start, scan.end));
        match scan.direction {
            Direction::Forward => self.fill(rows, scan.limit),
            Direction::Backward => self.fill(rows.rev(), scan.limit),
        }
    }
}

/// Where the rows of a range lie. Rows keep the order of their keys.
fn places(start: &[u8], end: &[u8]) -> Range<Vec<u8>> {
    layout::row(start)..layout::row(end)
}

/// What an error of sled's means to a reader.
pub(super) fn read_error(error: ::sled::Error) -> ReadError {
    match error {
        ::sled::Error::Io(error) => ReadError::Unavailable(error),
        ::sled::Error::Unsupported(what) => ReadError::Unavailable(io::Error::new(io::ErrorKind::Unsupported, what)),
        ::sled::Error::Corruption { at, .. } => {
            ReadError::Corrupt(at.map_or("sled found damage in its files".into(), |at| {
                format!("sled found damage at {at:?}")
            }))
        }
        ::sled::Error::ReportableBug(what) => ReadError::Corrupt(format!("sled contradicts itself: {what}")),
        ::sled::Error::CollectionNotFound(tree) => ReadError::Corrupt(format!("sled lost its tree {tree:02x?}")),
    }
}
