//! The target for values.
//!
//! An input is a recipe: which record, which version, which key, and then bytes. The bytes are read three times.
//!
//! - As a value. Hardly any passes for one; none may do harm.
//! - As a record in an envelope that is right, so that what reads records sees every kind of bytes, not only those
//!   that somebody wrote. What is read is written again, and has to come back.
//! - As a record in an envelope that is right, and then bent in one place: that has to be noticed.
//!
//! What is right is decided by a second implementation of the envelope, which is here and follows `docs/FORMAT.md`.

use everstep::storage::record::{
    Alarm, Answer, AtGate, Attempts, DeadLetter, Emitted, Entry, Failure, Flow, Held, Hold, IndexRow, Input as Started,
    Message, Name, Origin, Outgoing, Output, Published, Runnable, Seen, State, StoreHeader, Tombstone,
};
use everstep::storage::value::{self, DecodeError, Record};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::input::Input;
use crate::memory::bounded;

/// Bytes in front of a record.
pub const ENVELOPE_BYTES: usize = 14;

type Read = fn(&[u8], &[u8]) -> Result<(), DecodeError>;

/// Every record: its type byte, its newest version, and the function that reads it.
const RECORDS: [(u8, u8, Read); 24] = [
    reads::<Held>(),
    reads::<StoreHeader>(),
    reads::<Name>(),
    reads::<Entry>(),
    reads::<Message>(),
    reads::<State>(),
    reads::<Output>(),
    reads::<Failure>(),
    reads::<Origin>(),
    reads::<Started>(),
    reads::<Attempts>(),
    reads::<Alarm>(),
    reads::<IndexRow>(),
    reads::<Seen>(),
    reads::<Runnable>(),
    reads::<Emitted>(),
    reads::<Published>(),
    reads::<Answer>(),
    reads::<Hold>(),
    reads::<Outgoing>(),
    reads::<DeadLetter>(),
    reads::<Tombstone>(),
    reads::<Flow>(),
    reads::<AtGate>(),
];

/// The input that makes [`check`] read `record` as a record of this type and version, and bend its first byte.
pub(crate) fn recipe(record_type: u8, version: u8, key: &[u8], record: &[u8]) -> Vec<u8> {
    let index = RECORDS.iter().position(|(known, ..)| *known == record_type);
    let index = index.and_then(|index| u8::try_from(index).ok()).unwrap_or_default();
    let length = u8::try_from(key.len()).expect("the key of a seed is short");
    let first_of_the_record = ENVELOPE_BYTES as u8;
    [&[index, version, first_of_the_record, 1, length], key, record].concat()
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let known = RECORDS[usize::from(input.byte()) % RECORDS.len()];
    let version = input.byte();
    let bend = (input.byte(), input.byte());
    let key = input.bytes();
    let bytes = input.rest();
    arbitrary(key, bytes);
    let sealed = seal(known.0, version, key, bytes);
    intact(known, version, key, &sealed);
    bent(key, sealed, bend);
}

/// Bytes as they come.
fn arbitrary(key: &[u8], bytes: &[u8]) {
    let opened = bounded(bytes.len(), || value::open(key, bytes).map(drop));
    assert_eq!(opened.is_ok(), is_sealed(key, bytes));
    for (record_type, _, read) in RECORDS {
        let outcome = read(key, bytes);
        assert!(
            opened.is_ok() || outcome == opened,
            "a record of type {record_type} in an envelope that is wrong"
        );
    }
}

/// An envelope without a mistake, around bytes that are a record or not.
fn intact((record_type, newest, read): (u8, u8, Read), version: u8, key: &[u8], sealed: &[u8]) {
    let opened = value::open(key, sealed).expect("the envelope is right");
    assert_eq!((opened.record_type, opened.version), (record_type, version));
    assert_eq!(opened.record, &sealed[ENVELOPE_BYTES..]);
    let outcome = read(key, sealed);
    match outcome {
        Ok(()) | Err(DecodeError::Malformed(_) | DecodeError::TrailingBytes { .. }) => assert!(version <= newest),
        Err(DecodeError::NewerVersion { found, known }) => {
            assert!(found == version && known == newest && version > newest);
        }
        Err(error) => panic!("an envelope that is right: {error}"),
    }
    for (other, _, read) in RECORDS {
        if other != record_type {
            let expected = DecodeError::WrongType {
                expected: other,
                found: record_type,
            };
            assert_eq!(read(key, sealed), Err(expected));
        }
    }
}

/// An envelope with one byte changed, or of another key.
fn bent(key: &[u8], mut sealed: Vec<u8>, (place, change): (u8, u8)) {
    let other = [key, &[change]].concat();
    let belongs = value::open(&other, &sealed).map(drop);
    assert!(
        belongs == Err(DecodeError::WrongKey) || hash_key(&other) == hash_key(key),
        "{belongs:?}"
    );
    let at = usize::from(place) % sealed.len();
    sealed[at] ^= change;
    assert_eq!(
        value::open(key, &sealed).is_ok(),
        is_sealed(key, &sealed),
        "byte {at} changed by {change:02x}"
    );
}

/// Whether the envelope is what [`seal`] makes. Two records may have the same checksum, and a fuzzer that tries for
/// long enough meets them, so a changed byte alone does not tell that an envelope is wrong.
fn is_sealed(key: &[u8], value: &[u8]) -> bool {
    value
        .split_at_checked(ENVELOPE_BYTES)
        .is_some_and(|(header, record)| seal(header[0], header[1], key, record) == value)
}

/// An envelope as `docs/FORMAT.md` draws it, made without the code that is tested here.
pub fn seal(record_type: u8, version: u8, key: &[u8], record: &[u8]) -> Vec<u8> {
    let length = u32::try_from(record.len()).expect("an input is far below 4 GiB");
    let mut out = vec![record_type, version];
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&hash_key(key).to_le_bytes());
    let checksum = fold(xxh3_64_with_seed(record, xxh3_64(&out)));
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(record);
    out
}

fn hash_key(key: &[u8]) -> u32 {
    fold(xxh3_64(key))
}

fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

const fn reads<R: Record + PartialEq + std::fmt::Debug>() -> (u8, u8, Read) {
    (R::TYPE, R::VERSION, read::<R>)
}

/// Reads a record, and if it can be read, writes it and reads it again.
fn read<R: Record + PartialEq + std::fmt::Debug>(key: &[u8], bytes: &[u8]) -> Result<(), DecodeError> {
    let record: R = bounded(bytes.len(), || value::decode(key, bytes))?;
    let encoded = value::encode(key, &record);
    // What an older version did not know takes its place.
    let is_older = bytes.get(1).is_some_and(|version| *version < R::VERSION);
    assert!(
        is_older || encoded.len() <= bytes.len(),
        "{record:?} was read from less than it takes"
    );
    assert_eq!(value::decode::<R>(key, &encoded).as_ref(), Ok(&record));
    Ok(())
}
