//! Where things lie in sled's one tree.
//!
//! ```text
//! 00 key'              a row: see `chunk` for its value
//! 01 key' number       a chunk of the row's value, numbered from 0 with four bytes, big endian
//! ```
//!
//! `key'` is the key with a 00 behind every ff. That keeps the order of keys, and the prefixes: at the first
//! difference between two keys the same bytes are compared as before. It is there because sled 0.34.7 crosses from
//! one page to the one before it by guessing a key between the two, "the page's first key less one, then ff ff ff
//! ff". Where a page begins behind that guess the scan goes to and fro a million times and panics. With the escape no
//! two ff stand side by side, and the guess is always right.

use crate::storage::engine::ReadError;

const ROW: u8 = 0;
const CHUNK: u8 = 1;

/// All chunks lie between these two.
pub(super) const CHUNKS: (&[u8], &[u8]) = (&[CHUNK], &[CHUNK + 1]);

/// Bytes of a chunk's number.
const NUMBER_BYTES: usize = 4;

/// Where the row of a key lies. In the order of the keys.
pub(super) fn row(key: &[u8]) -> Vec<u8> {
    place(ROW, key)
}

/// Where a chunk of a key's value lies.
pub(super) fn chunk(key: &[u8], number: u32) -> Vec<u8> {
    let mut place = place(CHUNK, key);
    place.extend_from_slice(&number.to_be_bytes());
    place
}

/// Whether this is where the first chunk of a value lies.
pub(super) fn is_first_chunk(place: &[u8]) -> bool {
    place.ends_with(&[0; NUMBER_BYTES])
}

/// The key whose row lies here.
pub(super) fn key(place: &[u8]) -> Result<Vec<u8>, ReadError> {
    let Some((&ROW, escaped)) = place.split_first() else {
        return Err(damaged(place));
    };
    let mut key = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        key.push(*byte);
        if *byte == 0xff && bytes.next() != Some(&0) {
            return Err(damaged(place));
        }
    }
    Ok(key)
}

fn place(kind: u8, key: &[u8]) -> Vec<u8> {
    let mut place = Vec::with_capacity(1 + key.len() + NUMBER_BYTES);
    place.push(kind);
    for byte in key {
        place.push(*byte);
        if *byte == 0xff {
            place.push(0);
        }
    }
    place
}

fn damaged(place: &[u8]) -> ReadError {
    ReadError::Corrupt(format!("a row lies where no key can lead: {place:02x?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(row(b""), [0]);
        assert_eq!(row(b"a\xff\xffb"), *b"\x00a\xff\x00\xff\x00b");
        assert_eq!(chunk(b"a\xff", 258), *b"\x01a\xff\x00\x00\x00\x01\x02");
        assert!(is_first_chunk(&chunk(b"a", 0)) && !is_first_chunk(&chunk(b"a", 1)));
    }

    #[test]
    fn what_no_key_leads_to_is_corrupt() {
        for place in [b"".as_slice(), b"\x01a", b"\x00\xff", b"\x00\xff\x01"] {
            assert!(matches!(key(place), Err(ReadError::Corrupt(_))), "{place:?}");
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 0x7f, 0xfe, 0xff]), 0..6)
    }

    proptest! {
        #[test]
        fn places_keep_the_order_and_lead_back(one in bytes(), other in bytes()) {
            prop_assert_eq!(one.cmp(&other), row(&one).cmp(&row(&other)));
            prop_assert_eq!(key(&row(&one)).unwrap(), one.clone());
            prop_assert!(!row(&one).windows(2).any(|pair| pair == [0xff, 0xff]));
            prop_assert!(one == other || chunk(&one, 0) != chunk(&other, 0));
        }
    }
}
