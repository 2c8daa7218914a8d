//! What lies behind a key: an envelope around a record.
//!
//! ```text
//! offset  bytes
//!      0      1  type of the record
//!      1      1  version of its schema
//!      2      4  bytes of the record, little endian
//!      6      4  hash of the key it belongs to
//!     10      4  checksum over everything but these four bytes
//!     14         the record, in BARE
//! ```
//!
//! BARE alone has no version, ignores trailing bytes and has no idea whether what it reads was ever written. With
//! the envelope a value is right, or the error says in which of five ways it is wrong: a row that was copied to
//! another key is told from a row that was damaged, and a row of a newer release from both.

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes in front of every record.
pub(crate) const ENVELOPE_BYTES: usize = 14;

/// A record with a published, frozen schema.
pub trait Record: Serialize + DeserializeOwned {
    /// The type byte. Never reused.
    const TYPE: u8;
    /// What the record is called in messages.
    const NAME: &'static str;
    /// The version that is written today.
    const VERSION: u8 = 1;

    /// Reads a record of an older version. A record whose version grows says here what became of the fields.
    fn upgrade(version: u8, _record: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::never_was(version))
    }
}

/// Why a value could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The value ends before its envelope or record does.
    #[error("the value has {found} bytes, its envelope promises {expected}")]
    Truncated {
        /// Bytes promised.
        expected: usize,
        /// Bytes there.
        found: usize,
    },
    /// There are bytes behind the end of the record.
    #[error("{count} bytes follow the end of the record")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// The checksum does not fit the bytes.
    #[error("the checksum does not fit: the value was damaged")]
    Damaged,
    /// The value is intact, and belongs to another key.
    #[error("the value belongs to another key")]
    WrongKey,
    /// The value is intact, and is another record.
    #[error("expected a record of type {expected}, found type {found}")]
    WrongType {
        /// Type asked for.
        expected: u8,
        /// Type found.
        found: u8,
    },
    /// The value is intact, and was written by a newer release.
    #[error("the record has schema version {found}, this release knows up to {known}")]
    NewerVersion {
        /// Version found.
        found: u8,
        /// Newest version known.
        known: u8,
    },
    /// The envelope is intact, and the record in it can't be read.
    #[error("the record can't be read: {0}")]
    Malformed(String),
}

impl DecodeError {
    /// A record says that it has a schema which no release ever wrote.
    pub(crate) fn never_was(version: u8) -> Self {
        Self::Malformed(format!("there never was a schema version {version}"))
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "ES0222",
            Self::TrailingBytes { .. } => "ES0223",
            Self::Damaged => "ES0224",
            Self::WrongKey => "ES0225",
            Self::WrongType { .. } => "ES0226",
            Self::NewerVersion { .. } => "ES0227",
            Self::Malformed(_) => "ES0228",
        }
    }
}

/// Appends the envelope with `record` in it to `out`, bound to `key`.
pub fn encode_into<R: Record>(key: &[u8], record: &R, out: &mut Vec<u8>) {
    let key_hash = hash_key(key);
    write(key_hash, record, out);
}

/// The same for a key that lies in `out` itself.
pub(crate) fn encode_behind<R: Record>(key: crate::storage::batch::KeyAt, record: &R, out: &mut Vec<u8>) {
    let key_hash = hash_key(&out[key.start..key.end]);
    write(key_hash, record, out);
}

/// The envelope with `record` in it, bound to `key`.
pub fn encode<R: Record>(key: &[u8], record: &R) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    encode_into(key, record, &mut out);
    out
}

/// Reads the record that `key` holds.
pub fn decode<R: Record>(key: &[u8], value: &[u8]) -> Result<R, DecodeError> {
    let envelope = open(key, value)?;
    if envelope.record_type != R::TYPE {
        return Err(DecodeError::WrongType {
            expected: R::TYPE,
            found: envelope.record_type,
        });
    }
    if envelope.version > R::VERSION {
        return Err(DecodeError::NewerVersion {
            found: envelope.version,
            known: R::VERSION,
        });
    }
    if envelope.version < R::VERSION {
        return R::upgrade(envelope.version, envelope.record);
    }
    read(envelope.record)
}

/// Reads what a schema says from bytes that have to end with it.
pub(crate) fn read<T: DeserializeOwned>(record: &[u8]) -> Result<T, DecodeError> {
    let mut rest = record;
    let read = serde_bare::from_reader(&mut rest).map_err(|error| DecodeError::Malformed(error.to_string()))?;
    if rest.is_empty() {
        Ok(read)
    } else {
        Err(DecodeError::TrailingBytes { count: rest.len() })
    }
}

/// An envelope that was found intact, and its record's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The type byte of the record.
    pub record_type: u8,
    /// The schema version of the record.
    pub version: u8,
    /// The record in BARE.
    pub record: &'a [u8],
}

/// Checks the envelope without reading the record.
pub fn open<'a>(key: &[u8], value: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
    let Some((header, record)) = value.split_at_checked(ENVELOPE_BYTES) else {
        return Err(DecodeError::Truncated {
            expected: ENVELOPE_BYTES,
            found: value.len(),
        });
    };
    let length = number(header, 2) as usize;
    if record.len() < length {
        return Err(DecodeError::Truncated {
            expected: ENVELOPE_BYTES + length,
            found: value.len(),
        });
    }
    if record.len() > length {
        return Err(DecodeError::TrailingBytes {
            count: record.len() - length,
        });
    }
    if number(header, 10) != checksum(&header[..10], record) {
        return Err(DecodeError::Damaged);
    }
    if number(header, 6) != hash_key(key) {
        return Err(DecodeError::WrongKey);
    }
    Ok(Envelope {
        record_type: header[0],
        version: header[1],
        record,
    })
}

/// The envelope around a record that is already in BARE, bound to `key`.
pub(crate) fn seal(key: &[u8], envelope: &Envelope<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_BYTES + envelope.record.len());
    out.extend_from_slice(&[envelope.record_type, envelope.version, 0, 0, 0, 0]);
    out.extend_from_slice(&hash_key(key).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(envelope.record);
    finish(0, &mut out);
    out
}

fn write<R: Record>(key_hash: u32, record: &R, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[R::TYPE, R::VERSION, 0, 0, 0, 0]);
    out.extend_from_slice(&key_hash.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    serde_bare::to_writer(&mut *out, record).expect("a record has only types that BARE can write, into memory");
    finish(start, out);
}

/// Fills in the length and the checksum of an envelope that begins at `start` and ends with `out`.
fn finish(start: usize, out: &mut [u8]) {
    let body = start + ENVELOPE_BYTES;
    let length = u32::try_from(out.len() - body).expect("a value is bounded far below 4 GiB");
    out[start + 2..start + 6].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(&out[start..start + 10], &out[body..]);
    out[start + 10..body].copy_from_slice(&checksum.to_le_bytes());
}

fn hash_key(key: &[u8]) -> u32 {
    fold(xxh3_64(key))
}

fn checksum(header: &[u8], record: &[u8]) -> u32 {
    fold(xxh3_64_with_seed(record, xxh3_64(header)))
}

fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

fn number(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample(u16, String);

    impl Record for Sample {
        const TYPE: u8 = 200;
        const NAME: &'static str = "sample";
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Newer(u16, String);

    impl Record for Newer {
        const TYPE: u8 = 200;
        const NAME: &'static str = "sample";
        const VERSION: u8 = 2;
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Other(u16);

    impl Record for Other {
        const TYPE: u8 = 201;
        const NAME: &'static str = "other";
    }

    fn sample() -> Sample {
        Sample(7, "seven".into())
    }

    #[test]
    fn golden_bytes() {
        let bytes = encode(b"key", &sample());
        assert_eq!(
            bytes,
            [
                200, 1, 8, 0, 0, 0, 128, 104, 187, 27, 85, 138, 70, 114, 7, 0, 5, b's', b'e', b'v', b'e', b'n'
            ]
        );
        assert_eq!(decode::<Sample>(b"key", &bytes).unwrap(), sample());
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        let good = encode(b"key", &sample());
        assert_eq!(decode::<Sample>(b"other", &good), Err(DecodeError::WrongKey));
        assert_eq!(
            decode::<Other>(b"key", &good),
            Err(DecodeError::WrongType {
                expected: 201,
                found: 200
            })
        );
        let newer = encode(b"key", &Newer(7, "seven".into()));
        assert_eq!(
            decode::<Sample>(b"key", &newer),
            Err(DecodeError::NewerVersion { found: 2, known: 1 })
        );
        let trailing = [good.as_slice(), &[0]].concat();
        assert_eq!(
            decode::<Sample>(b"key", &trailing),
            Err(DecodeError::TrailingBytes { count: 1 })
        );
        let short = decode::<Sample>(b"key", &good[..good.len() - 1]);
        assert_eq!(
            short,
            Err(DecodeError::Truncated {
                expected: 22,
                found: 21
            })
        );
        assert_eq!(
            decode::<Sample>(b"key", &[]),
            Err(DecodeError::Truncated { expected: 14, found: 0 })
        );
    }

    #[test]
    fn an_older_version_is_upgraded_or_refused() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Grown(u16, String, bool);
        impl Record for Grown {
            const TYPE: u8 = 200;
            const NAME: &'static str = "sample";
            const VERSION: u8 = 2;

            fn upgrade(_: u8, record: &[u8]) -> Result<Self, DecodeError> {
                let Sample(number, text) =
                    serde_bare::from_slice(record).map_err(|error| DecodeError::Malformed(error.to_string()))?;
                Ok(Self(number, text, true))
            }
        }
        let old = encode(b"key", &sample());
        assert_eq!(decode::<Grown>(b"key", &old), Ok(Grown(7, "seven".into(), true)));
        let without_a_way = decode::<Newer>(b"key", &old);
        assert!(without_a_way.is_err_and(|error| error.code() == "ES0228"));
    }

    #[test]
    fn a_longer_record_than_the_schema_is_refused() {
        #[derive(Serialize, Deserialize)]
        struct Longer(u16, String, u8);
        impl Record for Longer {
            const TYPE: u8 = 200;
            const NAME: &'static str = "sample";
        }
        let bytes = encode(b"key", &Longer(7, "seven".into(), 1));
        assert_eq!(
            decode::<Sample>(b"key", &bytes),
            Err(DecodeError::TrailingBytes { count: 1 })
        );
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = encode(b"key", &sample());
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode::<Sample>(b"key", &bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn a_record_in_bare_gets_the_same_envelope() {
        let good = encode(b"key", &sample());
        let envelope = open(b"key", &good).unwrap();
        assert_eq!(seal(b"key", &envelope), good);
        assert_eq!(decode::<Sample>(b"other", &seal(b"other", &envelope)), Ok(sample()));
    }

    proptest! {
        /// FAULTS 77, 78.
        #[test]
        fn any_bytes_give_a_record_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(decode::<Sample>(b"key", &bytes).is_err());
        }
    }
}
