//! Reading packed keys back, whatever bytes they are.
//!
//! Only keys that were packed by [`Key`] come out. The tuple format allows nesting that would overflow the stack, so
//! length and nesting are checked before anything is unpacked.

use std::borrow::Cow;

use foundationdb_tuple::{Element, unpack};

use super::{
    ALARM, ANSWERS, ATTEMPTS, Arrival, DEAD, DEDUP, EMITTED, GATE, HISTORY, INBOX, INDEX, InvalidKey, Key, Local, META,
    Meta, NAMES, NAMESPACE, OUTBOX, PLACED, POSITION, PUBLISHED, RUNNABLE, TOMBSTONE,
};
use crate::ids::Shard;
use crate::limits::KEY_BYTES_MAX;
use crate::location::{Location, Segment};

/// Unpacks into elements, after checks that keep the unpacking itself harmless.
pub(super) fn elements(bytes: &[u8]) -> Result<Vec<Element<'_>>, InvalidKey> {
    if bytes.len() > KEY_BYTES_MAX {
        return Err(InvalidKey(format!("{} bytes are too long", bytes.len())));
    }
    check_nesting(bytes)?;
    unpack::<Vec<Element<'_>>>(bytes).map_err(|error| InvalidKey(error.to_string()))
}

/// Refuses elements that no key has, and tuples inside of tuples inside of the key: the unpacking recurses into each,
/// and a few hundred of them are more than the stack of a thread holds. Counting the opening bytes would not do,
/// because they are also bytes of numbers.
fn check_nesting(bytes: &[u8]) -> Result<(), InvalidKey> {
    const CLOSE: u8 = 0x00;
    const TEXT: u8 = 0x02;
    const OPEN: u8 = 0x05;
    const ZERO: u8 = 0x14;
    const LONGEST: u8 = ZERO + 8;
    let (mut nested, mut rest) = (false, bytes);
    while let [code, after @ ..] = rest {
        let skipped = match *code {
            TEXT => text_bytes(after),
            OPEN if !nested => {
                nested = true;
                0
            }
            CLOSE if nested => {
                nested = false;
                0
            }
            number @ ZERO..=LONGEST => usize::from(number - ZERO),
            OPEN => return Err(InvalidKey("too deeply nested".into())),
            other => return Err(InvalidKey(format!("no key has an element of type {other:02x}"))),
        };
        rest = after.get(skipped..).unwrap_or_default();
    }
    Ok(())
}

/// Bytes up to the end of a text, the end included: a 00 that is not escaped.
fn text_bytes(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (0x00, Some(0xff)) => at += 2,
            (0x00, _) => return at + 1,
            _ => at += 1,
        }
    }
    at
}

pub(super) fn in_shard(shard: Shard, family: i64, rest: &[Element<'_>]) -> Result<Key<'static>, InvalidKey> {
    let family = u16::try_from(family).map_err(|_| InvalidKey(format!("unknown family {family}")))?;
    Ok(match (family, rest) {
        (POSITION, []) => Key::Position(shard),
        (NAMESPACE, [Element::String(instance), Element::Int(kind), rest @ ..]) => {
            Key::Instance(shard, owned(instance), local(*kind, rest)?)
        }
        (ALARM, [at, Element::String(instance)]) => Key::Alarm(shard, unsigned(at)?, owned(instance)),
        (INDEX, [at, Element::String(instance)]) => Key::Index(shard, unsigned(at)?, owned(instance)),
        (DEDUP, [Element::String(instance), Element::String(message)]) => {
            Key::Dedup(shard, owned(instance), owned(message))
        }
        (RUNNABLE, [Element::String(instance)]) => Key::Runnable(shard, owned(instance)),
        (OUTBOX, [Element::String(instance), revision, index]) => {
            Key::Outbox(shard, owned(instance), unsigned(revision)?, small(index)?)
        }
        (DEAD, [at, Element::String(message)]) => Key::Dead(shard, unsigned(at)?, owned(message)),
        (TOMBSTONE, [Element::String(instance)]) => Key::Tombstone(shard, owned(instance)),
        (GATE, [Element::String(gate), epoch, number, Element::String(instance)]) => {
            let place = Arrival {
                epoch: unsigned(epoch)?,
                number: unsigned(number)?,
            };
            Key::Gate(shard, owned(gate), place, owned(instance))
        }
        (PLACED, [Element::String(gate), Element::String(instance)]) => {
            Key::Placed(shard, owned(gate), owned(instance))
        }
        _ => return Err(InvalidKey(format!("family {family} has another shape"))),
    })
}

fn local(kind: i64, rest: &[Element<'_>]) -> Result<Local<'static>, InvalidKey> {
    let kind = u16::try_from(kind).map_err(|_| InvalidKey(format!("unknown kind of row {kind}")))?;
    Ok(match (kind, rest) {
        (NAMES, [index]) => Local::Name(small(index)?),
        (HISTORY, segments) => Local::History(Cow::Owned(location(segments)?)),
        (INBOX, [epoch, number]) => Local::Inbox(Arrival {
            epoch: unsigned(epoch)?,
            number: unsigned(number)?,
        }),
        (META, [Element::Int(field)]) => Local::Meta(meta(*field)?),
        (ATTEMPTS, [entry]) => Local::Attempts(unsigned(entry)?),
        (EMITTED, [number]) => Local::Emitted(unsigned(number)?),
        (PUBLISHED, [Element::String(name)]) => Local::Published(owned(name)),
        (ANSWERS, [Element::String(message)]) => Local::Answer(owned(message)),
        _ => return Err(InvalidKey(format!("a row of kind {kind} has another shape"))),
    })
}

fn meta(field: i64) -> Result<Meta, InvalidKey> {
    let known = Meta::ALL.into_iter().find(|known| *known as i64 == field);
    known.ok_or_else(|| InvalidKey(format!("unknown fact {field}")))
}

fn location(segments: &[Element<'_>]) -> Result<Location, InvalidKey> {
    let parsed: Result<Vec<Segment>, InvalidKey> = segments
        .iter()
        .map(|segment| match segment {
            Element::Tuple(parts) => match parts.as_slice() {
                [name, number] => Ok(Segment::Iteration {
                    name: small(name)?,
                    number: unsigned(number)?,
                }),
                _ => Err(InvalidKey("an iteration is a pair".into())),
            },
            name => Ok(Segment::Name(small(name)?)),
        })
        .collect();
    Location::try_from(parsed?).map_err(|error| InvalidKey(error.to_string()))
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

pub(super) fn shard_of(element: &Element<'_>) -> Result<Shard, InvalidKey> {
    let number = unsigned(element)?;
    u16::try_from(number)
        .map(Shard)
        .map_err(|_| InvalidKey(format!("no shard has the number {number}")))
}

fn small(element: &Element<'_>) -> Result<u32, InvalidKey> {
    u32::try_from(unsigned(element)?).map_err(|_| InvalidKey("a name index is too large".into()))
}

fn unsigned(element: &Element<'_>) -> Result<u64, InvalidKey> {
    let Element::Int(number) = element else {
        return Err(InvalidKey("a number was expected".into()));
    };
    u64::try_from(*number).map_err(|_| InvalidKey("a negative number".into()))
}
