//! Values whose type the caller does not know: what comes over a wire, with a name beside it.
//!
//! At the door such a value is read as the type that the workflow expects, and stored as that type writes itself. So
//! what lies in the store is what a caller with types would have put there, and what can't be read is not stored.

use std::fmt;

use cbor4ii::core::utils::SliceReader;
use cbor4ii::serde::Deserializer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::message::Message;
use crate::storage::payload::{Codecs, Payload, PayloadError};

/// A value without its type.
///
/// ```
/// use everstep::Untyped;
///
/// let amount: Untyped = serde_json::json!({ "amount": 20 }).into();
/// assert_eq!(amount, Untyped::Json(serde_json::json!({ "amount": 20 })));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Untyped {
    /// A value of JSON.
    Json(serde_json::Value),
    /// A value of CBOR, as bytes: just one, and nothing behind it.
    Cbor(Vec<u8>),
}

impl From<serde_json::Value> for Untyped {
    fn from(value: serde_json::Value) -> Self {
        Self::Json(value)
    }
}

impl Untyped {
    /// The value as this type, written as it writes itself. What can't be read says why.
    pub(crate) fn pack_as<T: DeserializeOwned + Serialize>(
        &self,
        codecs: &Codecs,
    ) -> Result<Result<Payload, PayloadError>, String> {
        let value: T = match self {
            Self::Json(value) => T::deserialize(value).map_err(|error| error.to_string())?,
            Self::Cbor(bytes) => from_cbor(bytes)?,
        };
        Ok(codecs.pack(&value))
    }
}

fn from_cbor<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = Deserializer::new(SliceReader::new(bytes));
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    let mut rest = reader.into_inner();
    let Ok(left) = cbor4ii::core::dec::Read::fill(&mut rest, 1);
    if left.as_ref().is_empty() {
        Ok(value)
    } else {
        Err("something follows the value".into())
    }
}

/// Reads a value as a type that is known here, and makes of it what is stored.
type Pack = fn(&Untyped, &Codecs) -> Result<Result<Payload, PayloadError>, String>;

/// A message that a workflow accepts, for senders that know only its name. [`#[workflow(accepts(..))]`](macro@crate::workflow)
/// lists them; by hand it looks like this:
///
/// ```
/// use everstep::{Accepted, Accepts, Ctx, Message, Result, Workflow, ok};
///
/// #[derive(Message, serde::Serialize, serde::Deserialize)]
/// struct Approval { by: String }
///
/// struct Payment;
/// impl Accepts<Approval> for Payment {}
/// impl Workflow for Payment {
///     const NAME: &'static str = "payment";
///     type Input = u32;
///     type Output = String;
///     fn accepted() -> Vec<Accepted> {
///         vec![Accepted::message::<Self, Approval>()]
///     }
///     async fn run(ctx: Ctx<Self>, amount: u32) -> Result<String> {
///         ok(ctx.receive::<Approval>().await?.by)
///     }
/// }
/// assert_eq!(Payment::accepted()[0].name(), "Approval");
/// ```
#[derive(Clone, Copy)]
pub struct Accepted {
    name: &'static str,
    pack: Pack,
}

impl Accepted {
    /// A message that this workflow accepts.
    pub fn message<W: crate::engine::Accepts<M>, M: Message>() -> Self {
        Self {
            name: M::NAME,
            pack: |value, codecs| value.pack_as::<M>(codecs),
        }
    }

    /// The name by which it is sent.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A value as such a message, as it will be stored.
    pub(crate) fn pack(&self, value: &Untyped, codecs: &Codecs) -> Result<Result<Payload, PayloadError>, String> {
        (self.pack)(value, codecs)
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accepted").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn packed<T: DeserializeOwned + Serialize>(value: impl Into<Untyped>) -> Result<Vec<u8>, String> {
        let packed = value.into().pack_as::<T>(&Codecs::plain())?;
        Ok(packed.map_err(|error| error.to_string())?.bytes)
    }

    /// Keys of a JSON object are text; in the store they are what the type says they are.
    #[test]
    fn a_value_is_stored_as_its_type_writes_itself() {
        let expected = Codecs::plain().pack(&BTreeMap::from([(7_u32, "x")])).unwrap().bytes;
        let json = serde_json::json!({ "7": "x" });
        assert_eq!(packed::<BTreeMap<u32, String>>(json).unwrap(), expected);
        let cbor = Untyped::Cbor(expected.clone());
        assert_eq!(packed::<BTreeMap<u32, String>>(cbor).unwrap(), expected);
    }

    #[test]
    fn what_is_no_such_value_is_refused() {
        assert!(packed::<u32>(serde_json::json!("twenty")).is_err());
        assert!(packed::<u32>(Untyped::Cbor(vec![])).is_err());
        assert!(packed::<u32>(Untyped::Cbor(vec![0x63, b'a'])).is_err());
        assert!(packed::<u32>(Untyped::Cbor(vec![0x01, 0x02])).is_err(), "two values");
        assert!(packed::<u32>(Untyped::Cbor(vec![0x01])).is_ok());
    }
}
