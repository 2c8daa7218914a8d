//! Where things lie: every key of the store, packed as a foundationdb tuple.
//!
//! ```text
//! ("store",)                                        the store header
//! (shard, 0)                                        how far the shard has got, and who holds it
//! (shard, 1, instance, 1, index)                    a name of the instance's registry   ┐
//! (shard, 1, instance, 2, segment, segment, ...)    an entry of its history             │ the namespace
//! (shard, 1, instance, 3, epoch, number)            a message in its inbox              │ of one instance
//! (shard, 1, instance, 4, field)                    a fact about the instance           │
//! (shard, 1, instance, 5, entry)                    the attempts at an entry            │
//! (shard, 1, instance, 6, number)                   something that it emitted           │
//! (shard, 1, instance, 7, name)                     something that it published         │
//! (shard, 1, instance, 8, message id)               its answer to a question            ┘
//! (shard, 2, wake at ms, instance)                  an alarm
//! (shard, 3, created at ms, instance)               a row of the listing index
//! (shard, 4, instance, message id)                  a message that was seen (dedup)
//! (shard, 5, instance)                              an instance to run after a restart
//! (shard, 6, instance, revision, index)             something on its way to another instance
//! (shard, 7, failed at ms, message id)              a message that could not be delivered
//! (shard, 8, instance)                              what is left of an instance that was deleted
//! (shard, 14, key, epoch, number, instance)         the place of an instance at a gate
//! (shard, 15, key, instance)                        which place that is, for an instance of another shard
//! ```
//!
//! A segment is an integer (a name) or a nested tuple `(name, iteration)`. Tuples are packed flat, so the packed
//! form of a prefix is a prefix of the packed form, and an id is a complete element that ends where it ends: no id
//! can reach into the space of another.
//!
//! `range` has the prefixes and ranges of the families, `unpack` the way back from bytes.

mod range;
mod unpack;

use std::borrow::Cow;

use foundationdb_tuple::{Element, TupleDepth, TuplePack, VersionstampOffset, pack_into};
use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::ids::Shard;
use crate::location::{Location, Segment};

pub(crate) use range::{
    alarms, answers_into, attempts_into, below, dead, dedup_of, emitted_into, gate, gates, inbox_into, index,
    meta_into, names_into, namespace, namespaces, outbox, outbox_of, published_into, runnable, territory, tombstones,
};
use unpack::{elements, in_shard, shard_of};

const POSITION: u16 = 0;
const NAMESPACE: u16 = 1;
const ALARM: u16 = 2;
const INDEX: u16 = 3;
const DEDUP: u16 = 4;
const RUNNABLE: u16 = 5;
const OUTBOX: u16 = 6;
const DEAD: u16 = 7;
const TOMBSTONE: u16 = 8;
const GATE: u16 = 14;
const PLACED: u16 = 15;

const NAMES: u16 = 1;
const HISTORY: u16 = 2;
const INBOX: u16 = 3;
const META: u16 = 4;
const ATTEMPTS: u16 = 5;
const EMITTED: u16 = 6;
const PUBLISHED: u16 = 7;
const ANSWERS: u16 = 8;

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
    /// Something on its way to another instance: who sends it, in which commit, and its number there.
    Outbox(Shard, Cow<'a, str>, u64, u32),
    /// A message that could not be delivered, by time and id.
    Dead(Shard, Millis, Cow<'a, str>),
    /// What is left of an instance that was deleted.
    Tombstone(Shard, Cow<'a, str>),
    /// The place of an instance at a gate: the key of the gate, where it stands, and whose place it is.
    Gate(Shard, Cow<'a, str>, Arrival, Cow<'a, str>),
    /// Which place an instance of another shard has at a gate: the key of the gate, and whose place it is.
    Placed(Shard, Cow<'a, str>, Cow<'a, str>),
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
    /// Something that the code emitted, by number.
    Emitted(u64),
    /// Something that the code published, by name.
    Published(Cow<'a, str>),
    /// The answer to a question, by the id of the message.
    Answer(Cow<'a, str>),
}

/// The place of a message in the inbox. Grows with every message of a shard, also across restarts, because every
/// restart begins a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arrival {
    /// The epoch under which the message was accepted.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
}

impl Arrival {
    /// Behind every message that went back to its inbox: those lie in an epoch before the first.
    pub(crate) const GIVEN_BACK_LAST: Self = Self {
        epoch: 0,
        number: u64::MAX,
    };
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
    /// Why it does not go on.
    Hold = 6,
    /// How it is let in.
    Flow = 7,
}

impl Meta {
    const ALL: [Self; 7] = [
        Self::State,
        Self::Output,
        Self::Failure,
        Self::Origin,
        Self::Input,
        Self::Hold,
        Self::Flow,
    ];
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
            Self::Outbox(shard, instance, revision, index) => {
                put(&(shard.0, OUTBOX, instance.as_ref(), revision, index), out);
            }
            Self::Dead(shard, at, message) => put(&(shard.0, DEAD, at, message.as_ref()), out),
            Self::Tombstone(shard, instance) => put(&(shard.0, TOMBSTONE, instance.as_ref()), out),
            Self::Gate(shard, gate, at, instance) => {
                let (epoch, number) = (at.epoch, at.number);
                put(&(shard.0, GATE, gate.as_ref(), epoch, number, instance.as_ref()), out);
            }
            Self::Placed(shard, gate, instance) => {
                put(&(shard.0, PLACED, gate.as_ref(), instance.as_ref()), out);
            }
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
            Self::Emitted(number) => put(&(EMITTED, number), out),
            Self::Published(name) => put(&(PUBLISHED, name.as_ref()), out),
            Self::Answer(message) => put(&(ANSWERS, message.as_ref()), out),
        }
    }
}

/// A key for people: what it names if it can be read, its bytes if not.
pub(crate) fn describe(bytes: &[u8]) -> String {
    match Key::unpack(bytes) {
        Ok(key) => format!("{key:?}"),
        Err(_) => format!("{bytes:02x?}"),
    }
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

#[cfg(test)]
mod tests;
