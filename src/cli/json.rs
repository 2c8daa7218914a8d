//! Payloads as JSON. They are CBOR, which can say a little more: byte strings become hexadecimal text, and keys of maps
//! that are no text become text.

use std::fmt::{self, Write as _};

use everstep::storage::Store;
use everstep::storage::payload::Payload;
use serde::de::{Deserialize, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};

/// What a payload says. One that can't be read says why: a listing must not fail over it.
pub(crate) fn payload(store: &Store, payload: &Payload) -> Value {
    match store.codecs().unpack::<Shown>(payload) {
        Ok(Shown(value)) => value,
        Err(error) => json!({"unreadable": error.to_string(), "bytes": payload.bytes.len()}),
    }
}

struct Shown(Value);

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shower).map(Self)
    }
}

struct Shower;

impl<'de> Visitor<'de> for Shower {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON has no infinities.
        Ok(Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        let mut text = String::with_capacity(value.len() * 2);
        for byte in value {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text.into())
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(serde::de::Error::custom("a tag that this program does not know"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut shown = Vec::new();
        while let Some(Shown(item)) = items.next_element()? {
            shown.push(item);
        }
        Ok(Value::Array(shown))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut shown = Map::new();
        while let Some((Shown(key), Shown(value))) = entries.next_entry()? {
            let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            shown.insert(key, value);
        }
        Ok(Value::Object(shown))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everstep::storage::OpenOptions;
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    enum Choice {
        Unit,
        Pair(u8, String),
    }

    #[test]
    fn whatever_cbor_says_is_shown() {
        let store = OpenOptions::new().open("memory:").unwrap();
        let show = |value: &dyn erased::Packed| payload(&store, &value.pack(&store));
        assert_eq!(show(&(1, "two", None::<u8>, ())), json!([1, "two", null, []]));
        assert_eq!(show(&BTreeMap::from([(1, true)])), json!({"1": true}));
        assert_eq!(
            show(&[Choice::Unit, Choice::Pair(1, "x".into())]),
            json!(["Unit", {"Pair": [1, "x"]}])
        );
        assert_eq!(show(&-1.5), json!(-1.5));
        assert_eq!(show(&u64::MAX), json!(u64::MAX));
        let bytes = Payload {
            key_id: everstep::storage::payload::KeyId::PLAIN,
            bytes: vec![0x42, 0xab, 0x01],
        };
        assert_eq!(payload(&store, &bytes), json!("ab01"));
        let broken = Payload {
            bytes: vec![0x82, 0x01],
            ..bytes
        };
        assert_eq!(payload(&store, &broken)["bytes"], 2);
    }

    mod erased {
        use super::*;

        pub(super) trait Packed {
            fn pack(&self, store: &Store) -> Payload;
        }

        impl<T: Serialize> Packed for T {
            fn pack(&self, store: &Store) -> Payload {
                store.codecs().pack(self).unwrap()
            }
        }
    }
}
