//! Values in pieces, so that no page of sled's leaves the log.
//!
//! A row's value begins with one byte that says how it is kept:
//!
//! ```text
//! 00 value             the value itself
//! 01 length            the value lies in chunks; four bytes, big endian, say how long it is
//! ```
//!
//! # The sizes
//!
//! Sled puts a page that is larger than a quarter of a segment into a blob file, which it does not sync. A leaf page
//! is split when it has more than 16 rows, however large they are, and a merge can bring it to 20; an index page when
//! it has more than 256 keys. At sled's own segment of 512 KiB already rows of 8 KB in a row make blobs, and so do
//! long keys. With segments of 16 MiB, the largest it takes, and pieces of 64 KiB no page comes near the limit; the
//! assertions below do the sum. The larger segments cost nothing that could be measured: 1.2 ms a group of 16 commits
//! with either, 13 MB more disk at 60 MB, 0.06 s more to open.

use super::layout;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::storage::engine::ReadError;

/// Bytes of a segment of sled's log. Part of the format: sled refuses to open a store with another.
pub(super) const SEGMENT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of a value that are kept in one row.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

const PAGE_BYTES_MAX: usize = SEGMENT_BYTES / 4 - 1024;
const KEY_BYTES_ESCAPED_MAX: usize = 2 * KEY_BYTES_MAX + 8;
const _: () = assert!(20 * (CHUNK_BYTES + KEY_BYTES_ESCAPED_MAX + 64) < PAGE_BYTES_MAX);
const _: () = assert!(260 * (KEY_BYTES_MAX + 64) < PAGE_BYTES_MAX);
const _: () = assert!(VALUE_BYTES_MAX < u32::MAX as usize);

const PLAIN: u8 = 0;
const CHUNKED: u8 = 1;

/// How a value is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept<'a> {
    /// In the row.
    Plain(&'a [u8]),
    /// In so many bytes of chunks.
    Chunked(u32),
}

impl<'a> Kept<'a> {
    /// Reads the value of a row.
    pub(super) fn parse(row: &'a [u8]) -> Result<Self, ReadError> {
        match row.split_first() {
            Some((&PLAIN, value)) => Ok(Self::Plain(value)),
            Some((&CHUNKED, &[a, b, c, d])) => Ok(Self::Chunked(u32::from_be_bytes([a, b, c, d]))),
            _ => Err(ReadError::Corrupt("a row does not say how its value is kept".into())),
        }
    }

    /// How many chunks there are.
    pub(super) fn chunks(&self) -> u32 {
        match self {
            Self::Plain(_) => 0,
            Self::Chunked(length) => length.div_ceil(CHUNK_BYTES as u32),
        }
    }
}

/// Puts a key with its value into a batch. Gives the number of chunks.
pub(super) fn insert(batch: &mut ::sled::Batch, key: &[u8], value: &[u8]) -> u32 {
    if value.len() <= CHUNK_BYTES {
        batch.insert(layout::row(key), [&[PLAIN], value].concat());
        return 0;
    }
    let length = u32::try_from(value.len()).expect("a value is bounded far below 4 GiB");
    let mut row = vec![CHUNKED];
    row.extend_from_slice(&length.to_be_bytes());
    batch.insert(layout::row(key), row);
    let mut count = 0;
    for chunk in value.chunks(CHUNK_BYTES) {
        batch.insert(layout::chunk(key, count), chunk);
        count += 1;
    }
    count
}

/// Puts a chunked value together. `get` reads from the tree.
pub(super) fn collect(
    key: &[u8],
    kept: &Kept<'_>,
    mut get: impl FnMut(&[u8]) -> Result<Option<::sled::IVec>, ReadError>,
) -> Result<Vec<u8>, ReadError> {
    let length = match kept {
        Kept::Plain(value) => return Ok(value.to_vec()),
        Kept::Chunked(length) => *length as usize,
    };
    let count = kept.chunks();
    let mut value = Vec::with_capacity(length.min(VALUE_BYTES_MAX));
    for number in 0..count {
        let chunk = get(&layout::chunk(key, number))?;
        let Some(chunk) = chunk else {
            return Err(broken(key, &format!("chunk {number} of {count} is missing")));
        };
        value.extend_from_slice(&chunk);
    }
    if value.len() != length {
        return Err(broken(
            key,
            &format!("its chunks hold {} bytes instead of {length}", value.len()),
        ));
    }
    Ok(value)
}

fn broken(key: &[u8], what: &str) -> ReadError {
    ReadError::Corrupt(format!("the value of the key {key:02x?}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(Kept::parse(b"\x00").unwrap(), Kept::Plain(b""));
        assert_eq!(Kept::parse(b"\x00ab").unwrap(), Kept::Plain(b"ab"));
        assert_eq!(Kept::parse(b"\x01\x00\x01\x00\x01").unwrap(), Kept::Chunked(65_537));
        assert_eq!(Kept::Chunked(65_536).chunks(), 1);
        assert_eq!(Kept::Chunked(65_537).chunks(), 2);
    }

    #[test]
    fn a_row_that_says_nothing_is_corrupt() {
        for row in [
            b"".as_slice(),
            b"\x02",
            b"\x01\x00\x00\x00",
            b"\x01\x00\x00\x00\x00\x00",
        ] {
            assert!(matches!(Kept::parse(row), Err(ReadError::Corrupt(_))), "{row:?}");
        }
    }
}
