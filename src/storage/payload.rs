//! What users store: input, output, messages, state.
//!
//! Payloads are CBOR, which describes itself, so that tools can show them without the types. Between CBOR and the
//! disk stands a [`Codec`], which may compress or encrypt; what it writes carries the id of the key it used, so that
//! keys can rotate and old payloads stay readable.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Names the key (or method) that a codec used. Zero is plain CBOR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyId(pub u32);

impl KeyId {
    /// Plain CBOR: what the identity codec writes, and every codec must read.
    pub const PLAIN: Self = Self(0);
}

/// A user's value as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The key that the codec used.
    pub key_id: KeyId,
    /// The bytes that the codec made of the CBOR.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

impl Payload {
    /// The payload of what has nothing to say but that it is there.
    pub fn nothing() -> Self {
        const NULL: u8 = 0xf6;
        Self {
            key_id: KeyId::PLAIN,
            bytes: vec![NULL],
        }
    }
}

/// Why a payload could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The value can't be written as CBOR.
    #[error("the value can't be written as CBOR: {0}")]
    Encode(String),
    /// The CBOR is not a value of the type asked for.
    #[error("the stored CBOR is not of the type asked for: {0}")]
    Decode(String),
    /// No codec knows this key.
    #[error("no key has the id {}", .0.0)]
    KeyUnknown(KeyId),
    /// The codec refused: the bytes were tampered with, or the key is wrong.
    #[error("the codec refused: {0}")]
    Codec(String),
}

impl PayloadError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Encode(_) => "ES0241",
            Self::Decode(_) => "ES0242",
            Self::KeyUnknown(_) => "ES0243",
            Self::Codec(_) => "ES0244",
        }
    }
}

/// Stands between CBOR and the disk.
pub trait Codec: Debug + Send + Sync + 'static {
    /// Makes of `plain` what is stored, with the id of the key that was used. That of plain CBOR, zero, is only for what
    /// is left as it is.
    fn encode(&self, plain: Vec<u8>) -> Result<Payload, PayloadError>;

    /// Makes CBOR of what was stored with `key_id`. An id it does not know is [`PayloadError::KeyUnknown`].
    fn decode(&self, key_id: KeyId, stored: &[u8]) -> Result<Vec<u8>, PayloadError>;
}

/// The codec of a store: writes and reads with it, and reads plain CBOR always.
#[derive(Debug, Clone, Default)]
pub struct Codecs {
    codec: Option<Arc<dyn Codec>>,
}

impl Codecs {
    /// Plain CBOR.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Through `codec`.
    pub fn through(codec: Arc<dyn Codec>) -> Self {
        Self { codec: Some(codec) }
    }

    /// A user's value as it will be stored.
    pub fn pack<T: Serialize + ?Sized>(&self, value: &T) -> Result<Payload, PayloadError> {
        let Some(codec) = &self.codec else {
            let (key_id, bytes) = (KeyId::PLAIN, to_cbor(value)?);
            return Ok(Payload { key_id, bytes });
        };
        let payload = codec.encode(to_cbor(value)?)?;
        // What says that it is plain is read without the codec, so it has to be.
        if payload.key_id == KeyId::PLAIN && payload.bytes != to_cbor(value)? {
            let reason = "it wrote something else than plain CBOR under the id of plain CBOR, which is zero";
            return Err(PayloadError::Codec(reason.into()));
        }
        Ok(payload)
    }

    /// The user's value that was stored.
    pub fn unpack<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T, PayloadError> {
        from_cbor(&self.cbor(payload)?)
    }

    /// The CBOR of what was stored. Two payloads may differ and say the same: a codec that encrypts never writes the
    /// same bytes twice.
    pub fn cbor<'a>(&self, payload: &'a Payload) -> Result<Cow<'a, [u8]>, PayloadError> {
        match (&self.codec, payload.key_id) {
            (_, KeyId::PLAIN) => Ok(Cow::Borrowed(&payload.bytes)),
            (Some(codec), key_id) => codec.decode(key_id, &payload.bytes).map(Cow::Owned),
            (None, key_id) => Err(PayloadError::KeyUnknown(key_id)),
        }
    }
}

#[cfg(feature = "testing")]
impl Codecs {
    /// The same value, as anybody can read it; one that can't be read stays as it is.
    pub(crate) fn plainly(&self, payload: Payload) -> Payload {
        match self.cbor(&payload) {
            Ok(Cow::Owned(bytes)) => Payload {
                key_id: KeyId::PLAIN,
                bytes,
            },
            Ok(Cow::Borrowed(_)) | Err(_) => payload,
        }
    }
}

fn to_cbor<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, PayloadError> {
    cbor4ii::serde::to_vec(Vec::with_capacity(128), &value).map_err(|error| PayloadError::Encode(error.to_string()))
}

fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, PayloadError> {
    cbor4ii::serde::from_slice(bytes).map_err(|error| PayloadError::Decode(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A codec with two keys, so that rotation shows: it writes with the newer and reads both.
    #[derive(Debug)]
    struct Xor;

    impl Codec for Xor {
        fn encode(&self, plain: Vec<u8>) -> Result<Payload, PayloadError> {
            Ok(Payload {
                key_id: KeyId(2),
                bytes: plain.iter().map(|byte| byte ^ 2).collect(),
            })
        }

        fn decode(&self, key_id: KeyId, stored: &[u8]) -> Result<Vec<u8>, PayloadError> {
            match key_id {
                KeyId(key @ (1 | 2)) => Ok(stored.iter().map(|byte| byte ^ key as u8).collect()),
                unknown => Err(PayloadError::KeyUnknown(unknown)),
            }
        }
    }

    #[test]
    fn plain_payloads_are_cbor() {
        let payload = Codecs::plain().pack(&(1_u8, "two")).unwrap();
        assert_eq!(payload.bytes, [0x82, 0x01, 0x63, b't', b'w', b'o']);
        assert_eq!(
            Codecs::plain().unpack::<(u8, String)>(&payload).unwrap(),
            (1, "two".into())
        );
    }

    /// FAULTS 92.
    #[test]
    fn old_keys_stay_readable_and_unknown_ones_are_named() {
        let codecs = Codecs::through(Arc::new(Xor));
        let payload = codecs.pack("secret").unwrap();
        assert_eq!(payload.key_id, KeyId(2));
        assert_eq!(codecs.unpack::<String>(&payload).unwrap(), "secret");
        let plain = Codecs::plain().pack("secret").unwrap();
        assert_eq!(
            codecs.unpack::<String>(&plain).unwrap(),
            "secret",
            "what was stored before encryption"
        );
        let old = Payload {
            key_id: KeyId(1),
            bytes: plain.bytes.iter().map(|byte| byte ^ 1).collect(),
        };
        assert_eq!(
            codecs.unpack::<String>(&old).unwrap(),
            "secret",
            "the key before this one"
        );
        let unknown = Payload {
            key_id: KeyId(9),
            ..payload.clone()
        };
        assert_eq!(
            codecs.unpack::<String>(&unknown),
            Err(PayloadError::KeyUnknown(KeyId(9)))
        );
        assert_eq!(
            Codecs::plain().unpack::<String>(&payload),
            Err(PayloadError::KeyUnknown(KeyId(2)))
        );
    }

    /// Found in review: what such a codec wrote could never be read.
    #[test]
    fn what_is_said_to_be_plain_has_to_be() {
        #[derive(Debug)]
        struct Zero(u8);

        impl Codec for Zero {
            fn encode(&self, mut plain: Vec<u8>) -> Result<Payload, PayloadError> {
                plain.iter_mut().for_each(|byte| *byte ^= self.0);
                let key_id = KeyId::PLAIN;
                Ok(Payload { key_id, bytes: plain })
            }

            fn decode(&self, key_id: KeyId, _: &[u8]) -> Result<Vec<u8>, PayloadError> {
                Err(PayloadError::KeyUnknown(key_id))
            }
        }

        let codecs = Codecs::through(Arc::new(Zero(0)));
        let payload = codecs.pack("open").unwrap();
        assert_eq!(codecs.unpack::<String>(&payload).unwrap(), "open");
        let error = Codecs::through(Arc::new(Zero(1))).pack("secret").unwrap_err();
        assert_eq!(error.code(), "ES0244", "{error}");
    }

    #[test]
    fn another_type_is_an_error() {
        let payload = Codecs::plain().pack("text").unwrap();
        let decoded = Codecs::plain().unpack::<u32>(&payload);
        assert!(decoded.is_err_and(|error| error.code() == "ES0242"));
    }
}
