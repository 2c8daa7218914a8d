//! Where things lie: every key of the store, packed as a foundationdb tuple.
//!
//! ```text
//! ("store",)                                        the store header
//! (shard, 0)                                        how far the shard has got, and who holds it
//! (shard, 1, instance, 1, index)                    a name of the instance's registry   ┐
//! (shard, 1, instance, 2, segment, segment, ...)    an entry of its history             │ the namespace
//! (shard, 1, instance, 3, epoch, number)            a message in its inbox              │ of one instance
//! (shard, 1, instance, 4, field)                    a fact about the instance           │
//! (shard, 1, instance, 5, entry)                    the attempts at an entry            ┘
//! (shard, 2, wake at ms, instance)                  an alarm
//! (shard, 3, created at ms, instance)               a row of the listing index
//! (shard, 4, instance, message id)                  a message that was seen (dedup)
//! (shard, 5, instance)                              an instance to run after a restart
//! ```
//!
//! A segment is an integer (a name) or a nested tuple `(name, iteration)`. Tuples are packed flat, so the packed
//! form of a prefix is a prefix of the packed form, and an id is a complete element that ends where it ends: no id
//! can reach into the space of another.
//!
//! Only keys that were packed here are unpacked, and only after a check of length and nesting: the tuple format allows
//! nesting that would overflow the stack.

use std::borrow::Cow;

use foundationdb_tuple::{Element, TupleDepth, TuplePack, VersionstampOffset, pack_into, unpack};

use crate::clock::Millis;
use crate::ids::Shard;
use crate::limits::KEY_BYTES_MAX;
use crate::location::{Location, Segment};

const POSITION: u16 = 0;
const NAMESPACE: u16 = 1;
const ALARM: u16 = 2;
const INDEX: u16 = 3;
const DEDUP: u16 = 4;
const RUNNABLE: u16 = 5;

const NAMES: u16 = 1;
const HISTORY: u16 = 2;
const INBOX: u16 = 3;
const META: u16 = 4;
const ATTEMPTS: u16 = 5;

const STORE: &str = "store";

/// A key of the store, one variant for each family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key<'a> {
    /// The store header.
    Store,
    /// How far a shard has got, and who holds it.
    Position(Shard),
    /// A row in the namespace of an instance.
    Instance(Shard, Cow<'a, str>, Local<'a>),
    /// The alarm of an instance.
    Alarm(Shard, Millis, Cow<'a, str>),
    /// The listing row of an instance, by creation time.
    Index(Shard, Millis, Cow<'a, str>),
    /// A message id that an instance has seen.
    Dedup(Shard, Cow<'a, str>, Cow<'a, str>),
    /// An instance that has to run after a restart.
    Runnable(Shard, Cow<'a, str>),
}

/// A key inside the namespace of one instance. It has no instance in it, and so can't name another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local<'a> {
    /// A name in the registry.
    Name(u32),
    /// An entry of the history.
    History(Cow<'a, Location>),
    /// A message in the inbox.
    Inbox(Arrival),
    /// A fact about the instance.
    Meta(Meta),
    /// The attempts at an entry.
    Attempts(u64),
}

/// The place of a message in the inbox. Grows with every message of a shard, also across restarts, because every
/// restart begins a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arrival {
    /// The epoch under which the message was accepted.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
}

/// The facts about an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meta {
    /// What changes: status, revision, alarm.
    State = 1,
    /// What it returned.
    Output = 2,
    /// Why it failed.
    Failure = 3,
    /// What was settled when it began: type, version, times.
    Origin = 4,
    /// What it was started with.
    Input = 5,
}

impl Meta {
    const ALL: [Self; 5] = [Self::State, Self::Output, Self::Failure, Self::Origin, Self::Input];
}

/// These bytes are not a key of this store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a key of this store: {0}")]
pub struct InvalidKey(pub(crate) String);

impl Key<'_> {
    /// Appends the packed key to `out`.
    pub fn pack_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Store => put(&(STORE,), out),
            Self::Position(shard) => put(&(shard.0, POSITION), out),
            Self::Instance(shard, instance, local) => {
                put(&(shard.0, NAMESPACE, instance.as_ref()), out);
                local.pack_into(out);
            }
            Self::Alarm(shard, at, instance) => put(&(shard.0, ALARM, at, instance.as_ref()), out),
            Self::Index(shard, at, instance) => put(&(shard.0, INDEX, at, instance.as_ref()), out),
            Self::Dedup(shard, instance, message) => {
                put(&(shard.0, DEDUP, instance.as_ref(), message.as_ref()), out);
            }
            Self::Runnable(shard, instance) => put(&(shard.0, RUNNABLE, instance.as_ref()), out),
        }
    }

    /// The packed key.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.pack_into(&mut out);
        out
    }

    /// Reads a packed key back. Bytes that no key packs to are an error, whatever they are.
    pub fn unpack(bytes: &[u8]) -> Result<Key<'static>, InvalidKey> {
        let elements = elements(bytes)?;
        let key = match elements.as_slice() {
            [Element::String(word)] if word == STORE => Key::Store,
            [shard, Element::Int(family), rest @ ..] => in_shard(shard_of(shard)?, *family, rest)?,
            _ => return Err(InvalidKey("no family has this shape".into())),
        };
        // One key has one spelling: without this, bytes that decode to the same tuple would pass for a key that
        // nobody packed.
        if key.pack() == bytes {
            Ok(key)
        } else {
            Err(InvalidKey("not in canonical form".into()))
        }
    }
}

impl Local<'_> {
    /// Appends the packed key, relative to the namespace, to `out`.
    pub fn pack_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name(index) => put(&(NAMES, index), out),
            Self::History(location) => put(&History(location), out),
            Self::Inbox(arrival) => put(&(INBOX, arrival.epoch, arrival.number), out),
            Self::Meta(field) => put(&(META, *field as u16), out),
            Self::Attempts(entry) => put(&(ATTEMPTS, entry), out),
        }
    }
}

/// The prefix of one namespace: everything of the instance begins with it, and nothing else does.
pub(crate) fn namespace(shard: Shard, instance: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(instance.len() + 8);
    put(&(shard.0, NAMESPACE, instance), &mut out);
    out
}

/// The prefix of every dedup row of one instance.
pub(crate) fn dedup_of(shard: Shard, instance: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(instance.len() + 8);
    put(&(shard.0, DEDUP, instance), &mut out);
    out
}

/// Appends the prefix of the name registry, relative to a namespace.
pub(crate) fn names_into(out: &mut Vec<u8>) {
    put(&(NAMES,), out);
}

/// Appends the prefix of the inbox, relative to a namespace.
pub(crate) fn inbox_into(out: &mut Vec<u8>) {
    put(&(INBOX,), out);
}

/// Appends the prefix of the facts, relative to a namespace.
pub(crate) fn meta_into(out: &mut Vec<u8>) {
    put(&(META,), out);
}

/// Appends the prefix of the attempts, relative to a namespace.
pub(crate) fn attempts_into(out: &mut Vec<u8>) {
    put(&(ATTEMPTS,), out);
}

/// A key for people: what it names if it can be read, its bytes if not.
pub(crate) fn describe(bytes: &[u8]) -> String {
    match Key::unpack(bytes) {
        Ok(key) => format!("{key:?}"),
        Err(_) => format!("{bytes:02x?}"),
    }
}

/// The range of everything below `prefix`, the bare prefix included.
///
/// It ends at `prefix ff` and not at the next prefix: no element begins with ff, but a text that ends in NUL goes on
/// with it (`00` is escaped as `00 ff`), and such a text is another text and not below this one.
pub(crate) fn below(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut end = Vec::with_capacity(prefix.len() + 1);
    end.extend_from_slice(prefix);
    end.push(0xff);
    (prefix.to_vec(), end)
}

/// The range of all namespaces of a shard.
pub(crate) fn namespaces(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, NAMESPACE)
}

/// The range of all alarms of a shard, earliest first.
pub(crate) fn alarms(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, ALARM)
}

/// The range of the listing index of a shard, oldest first.
pub(crate) fn index(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, INDEX)
}

/// The range of the instances to run after a restart.
pub(crate) fn runnable(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, RUNNABLE)
}

/// The part of all possible keys that a shard of a store with `shards` shards answers for, cut at its families: each
/// pair of neighbours is a range. The parts of all shards leave no gap, so what lies where no key belongs is read too.
pub(crate) fn territory(shard: Shard, shards: u16) -> Vec<Vec<u8>> {
    let prefix = |shard: u16| {
        let mut prefix = Vec::with_capacity(4);
        put(&(shard,), &mut prefix);
        prefix
    };
    let mut cuts = vec![if shard.0 == 0 { Vec::new() } else { prefix(shard.0) }];
    cuts.extend([NAMESPACE, ALARM, INDEX, DEDUP, RUNNABLE].map(|number| family(shard, number).0));
    cuts.push(if shard.0 + 1 < shards {
        prefix(shard.0 + 1)
    } else {
        vec![0xff; KEY_BYTES_MAX]
    });
    cuts
}

fn family(shard: Shard, family: u16) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = Vec::with_capacity(8);
    put(&(shard.0, family), &mut prefix);
    below(&prefix)
}

fn put<T: TuplePack>(tuple: &T, out: &mut Vec<u8>) {
    // What comes back is the place of a versionstamp, and there is none in our keys.
    let VersionstampOffset::None { .. } = pack_into(tuple, out) else {
        unreachable!("no key holds a versionstamp");
    };
}

/// A history key packed without building the tuple first.
struct History<'a>(&'a Location);

impl TuplePack for History<'_> {
    fn pack<W: std::io::Write>(&self, w: &mut W, depth: TupleDepth) -> std::io::Result<VersionstampOffset> {
        let element = depth.increment();
        let mut offset = HISTORY.pack(w, element)?;
        for segment in self.0.segments() {
            offset += match *segment {
                Segment::Name(name) => name.pack(w, element)?,
                Segment::Iteration { name, number } => (name, number).pack(w, element)?,
            };
        }
        Ok(offset)
    }
}

/// Unpacks into elements, after checks that keep the unpacking itself harmless.
fn elements(bytes: &[u8]) -> Result<Vec<Element<'_>>, InvalidKey> {
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

fn in_shard(shard: Shard, family: i64, rest: &[Element<'_>]) -> Result<Key<'static>, InvalidKey> {
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

fn shard_of(element: &Element<'_>) -> Result<Shard, InvalidKey> {
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

#[cfg(test)]
mod tests;
