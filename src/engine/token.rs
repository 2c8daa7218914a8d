//! The token of a promise: what the outside world needs to decide it, and nothing that could be guessed.

use std::fmt;
use std::str::FromStr;

use crate::ids::{InstanceId, InvalidId, MessageId};
use crate::storage::payload::Payload;
use crate::storage::record::{Content, Decided, Failure, FailureKind, Message, Reach, Secret};

/// The token of a promise. Whoever has it can decide the promise, once.
///
/// As text it is the id of the instance, the run, the entry, and a digest that only the store can make: nobody who has other
/// tokens can make this one.
///
/// ```
/// use everstep::PromiseToken;
///
/// let digits = "0123456789abcdef".repeat(4);
/// let token: PromiseToken = format!("order-1.1.7.{digits}").parse()?;
/// assert_eq!(token.instance().as_str(), "order-1");
/// assert!("order-1".parse::<PromiseToken>().is_err());
/// # Ok::<(), everstep::InvalidToken>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PromiseToken {
    instance: InstanceId,
    run: u32,
    entry: u64,
    /// Compared in a time that does not tell how much of it is right.
    digest: blake3::Hash,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// It is not made like a token.
    #[error("this is not the token of a promise: it has four parts, separated by full stops, and ends with 64 digits")]
    Shape,
    /// It names something that can't be an instance.
    #[error("the token names no instance: {0}")]
    Instance(#[from] InvalidId),
    /// It was not made by this instance.
    #[error(
        "no promise of instance `{0}` has this token; use the text that `token()` gave, whole, and note that an \
         instance that was deleted and started again has other tokens"
    )]
    Unknown(InstanceId),
}

impl InvalidToken {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "ES0106"
    }
}

impl PromiseToken {
    /// The token of an entry of an instance that was started with this secret.
    pub(crate) fn new(instance: InstanceId, secret: Secret, run: u32, entry: u64) -> Self {
        let digest = digest(&instance, secret, run, entry);
        Self {
            instance,
            run,
            entry,
            digest,
        }
    }

    /// The instance whose promise it is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Whether the instance, started with this secret, gave it out.
    pub(crate) fn verify(&self, secret: Secret) -> Result<(), InvalidToken> {
        if digest(&self.instance, secret, self.run, self.entry) == self.digest {
            Ok(())
        } else {
            Err(InvalidToken::Unknown(self.instance.clone()))
        }
    }

    /// The id of the message that decides the promise. Whoever reads it in a store or in an export does not have the
    /// token.
    pub(crate) fn decision(&self) -> MessageId {
        let digest = blake3::hash(self.digest.as_bytes());
        MessageId::new(format!("promise-{digest}")).expect("hexadecimal digits are an id")
    }

    /// The message that decides the promise. Its id follows from the token: a second decision is a duplicate of the
    /// first, whatever it says, and the store says so.
    pub(crate) fn settle(&self, decided: Decided, sent_at_ms: u64) -> Message {
        Message {
            id: self.decision(),
            sent_at_ms,
            from: None,
            content: Content::Settled {
                run: self.run,
                entry: self.entry,
                decided,
                reach: Reach::Waiting,
            },
        }
    }
}

/// How a promise is kept.
pub(crate) fn resolved(payload: Payload) -> Decided {
    Decided::Completed(payload)
}

/// How a promise is broken.
pub(crate) fn rejected(reason: &str) -> Decided {
    Decided::Failed(Failure::new(FailureKind::Rejected, reason))
}

fn digest(instance: &InstanceId, secret: Secret, run: u32, entry: u64) -> blake3::Hash {
    secret.digest(&format!("promise {run} {entry} {instance}"))
}

impl fmt::Display for PromiseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instance,
            run,
            entry,
            digest,
        } = self;
        write!(f, "{instance}.{run}.{entry}.{digest}")
    }
}

impl fmt::Debug for PromiseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who can read a log should not be able to decide a promise.
        write!(f, "PromiseToken({}.{}.{})", self.instance, self.run, self.entry)
    }
}

impl FromStr for PromiseToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        // From behind: an id may have full stops too.
        let mut parts = text.rsplitn(4, '.');
        let mut part = || parts.next().ok_or(InvalidToken::Shape);
        let (digest, entry, run, instance) = (part()?, part()?, part()?, part()?);
        let shape = |_| InvalidToken::Shape;
        let token = Self {
            instance: InstanceId::new(instance)?,
            run: run.parse().map_err(shape)?,
            entry: entry.parse().map_err(shape)?,
            digest: blake3::Hash::from_hex(digest).map_err(|_| InvalidToken::Shape)?,
        };
        // One token has one spelling.
        if token.to_string() == text {
            Ok(token)
        } else {
            Err(InvalidToken::Shape)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(instance: &str, secret: u64, run: u32, entry: u64) -> PromiseToken {
        PromiseToken::new(InstanceId::new(instance).unwrap(), secret.into(), run, entry)
    }

    #[test]
    fn a_token_comes_back_from_its_text() {
        for instance in ["order-1", "a.b.1.2", "größe 7"] {
            let token = token(instance, 7, 2, 9);
            let read: PromiseToken = token.to_string().parse().unwrap();
            assert_eq!(read, token);
            read.verify(7.into()).unwrap();
        }
    }

    #[test]
    fn whatever_was_not_given_out_is_refused() {
        let good = token("order-1", 7, 2, 9);
        assert!(good.verify(8.into()).is_err(), "another life of the same id");
        for bent in [
            PromiseToken { run: 3, ..good.clone() },
            PromiseToken {
                entry: 8,
                ..good.clone()
            },
            PromiseToken {
                digest: one_off(&good.digest),
                ..good.clone()
            },
            PromiseToken {
                instance: InstanceId::new("order-2").unwrap(),
                ..good.clone()
            },
        ] {
            assert!(matches!(bent.verify(7.into()), Err(InvalidToken::Unknown(_))), "{bent}");
        }
        let text = good.to_string();
        for not in [
            "",
            "order-1",
            "1.2.3",
            &text.to_uppercase(),
            &format!("{text}0"),
            &text[..text.len() - 1],
        ] {
            assert!(not.parse::<PromiseToken>().is_err(), "{not}");
        }
    }

    /// The digest with its last bit turned.
    fn one_off(digest: &blake3::Hash) -> blake3::Hash {
        let mut bytes = *digest.as_bytes();
        bytes[31] ^= 1;
        bytes.into()
    }

    #[test]
    fn a_log_does_not_give_it_away() {
        let token = token("order-1", 7, 2, 9);
        let digits = token.digest.to_string();
        assert!(!format!("{token:?}").contains(&digits));
        assert!(
            !token.decision().as_str().contains(&digits),
            "nor does a row of the store"
        );
    }
}
