//! The names of things: instances, messages, shards.
//!
//! Each is parsed once, at the door, and trusted from then on. An id is a complete element of every key it
//! occurs in, so no id can reach into the key space of another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// The text is empty.
    #[error("an id must not be empty")]
    Empty,
    /// The text is longer than an id may be.
    #[error("an id has at most {max} bytes, this one has {length}")]
    TooLong {
        /// Bytes of the text.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A character that an id must not contain: control and formatting characters, `/` and `\`.
    #[error("the character {character:?} at byte {at} is not allowed in an id")]
    Character {
        /// The offending character.
        character: char,
        /// Its byte offset.
        at: usize,
    },
    /// The text begins with `__`, which is kept for the runtime itself.
    #[error("ids that begin with `__` are reserved")]
    Reserved,
}

impl InvalidId {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "ES0101"
    }
}

/// What ids and the names of workflows begin with that the runtime itself gives.
pub(crate) const RESERVED: &str = "__";

/// The accepted set: 1 to 200 bytes of UTF-8, no control or invisible formatting characters, no slash or
/// backslash, not beginning with `__`.
fn check(text: &str) -> Result<(), InvalidId> {
    check_shape(text)?;
    if text.starts_with(RESERVED) {
        return Err(InvalidId::Reserved);
    }
    Ok(())
}

/// The same, for ids that the runtime itself may have given.
fn check_shape(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    if text.len() > limits::ID_BYTES_MAX {
        return Err(InvalidId::TooLong {
            length: text.len(),
            max: limits::ID_BYTES_MAX,
        });
    }
    for (at, character) in text.char_indices() {
        if character.is_control() || is_invisible(character) || character == '/' || character == '\\' {
            return Err(InvalidId::Character { character, at });
        }
    }
    Ok(())
}

/// Characters that print as nothing, or that change how their neighbours print: two ids that look alike must be
/// alike.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Parses an id: 1 to 200 bytes, printable, no `/` or `\`, not beginning with `__`.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

id! {
    /// Names one instance of a workflow; the same id is the same instance.
    ///
    /// ```
    /// use everstep::InstanceId;
    /// assert!(InstanceId::new("order-123").is_ok());
    /// assert!(InstanceId::new("../etc").is_err());
    /// ```
    InstanceId
}

impl InstanceId {
    /// An id that is stored, or that the runtime itself gives: it may begin with `__`.
    pub(crate) fn internal(text: impl Into<String>) -> Result<Self, InvalidId> {
        let text = text.into();
        check_shape(&text)?;
        Ok(Self(text))
    }

    /// Whether the runtime itself gave it, to something that it is made of: a schedule, a topic, a batch.
    pub(crate) fn is_own(&self) -> bool {
        self.0.starts_with(RESERVED)
    }
}

id! {
    /// Names one message to an instance; a second one with the same id is a duplicate.
    MessageId
}

/// Names one shard: a group of namespaces with one writer, one committer, one alarm list and one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard(pub u16);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 75.
    #[test]
    fn refuses_what_faults_75_lists() {
        let long = "a".repeat(201);
        let huge = "a".repeat(1 << 20);
        for bad in [
            "",
            &long,
            &huge,
            "../..",
            "a\0b",
            "a\nb",
            "\u{202e}gpj",
            "a/b",
            "a\\b",
            "__system",
            "a\u{7f}",
        ] {
            assert!(InstanceId::new(bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn accepts_free_text_up_to_the_limit() {
        let longest = "a".repeat(200);
        for good in [
            "a",
            "order-123",
            "größe 7",
            "日本語",
            "a:b;c=d",
            "_x",
            "{id}%s",
            &longest,
        ] {
            assert_eq!(InstanceId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn deserialising_parses_too() {
        let decoded: Result<InstanceId, _> = serde_json::from_str("\"a/b\"");
        assert!(decoded.is_err());
    }
}
