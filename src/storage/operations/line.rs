//! The lines of an export. The format stands in `docs/export.md`.

use serde::{Deserialize, Serialize};

use crate::ids::{InstanceId, InvalidId, Shard};
use crate::location::{Location, Segment};
use crate::storage::key::{Arrival, Key, Local, Meta};
use crate::storage::value::Envelope;

/// The version of the file format.
pub(super) const EXPORT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) everstep_export: u32,
    pub(super) format: u32,
    pub(super) scope: Scope,
    pub(super) shards: u16,
}

/// What an export holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    Store,
    Instance(Owner),
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trailer {
    pub(super) everstep_export_end: u32,
    pub(super) instances: u64,
    pub(super) rows: u64,
    pub(super) hash: String,
}

/// A line in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowLine {
    pub(super) key: RowKey,
    pub(super) record: String,
    #[serde(rename = "type")]
    pub(super) record_type: u8,
    pub(super) schema: u8,
    pub(super) bare: String,
}

impl RowLine {
    pub(super) fn new(key: RowKey, record: &str, envelope: &Envelope<'_>) -> Self {
        Self {
            key,
            record: record.to_owned(),
            record_type: envelope.record_type,
            schema: envelope.version,
            bare: hex(envelope.record),
        }
    }
}

/// Any line behind the first.
#[derive(Debug)]
pub(super) enum Line {
    Row(RowLine),
    Trailer(Trailer),
}

/// Whose rows they are. Ids that the runtime itself has given are among them, and no caller could give them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Owner(pub(super) InstanceId);

impl TryFrom<String> for Owner {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        InstanceId::internal(text).map(Self)
    }
}

impl From<Owner> for String {
    fn from(Owner(instance): Owner) -> Self {
        instance.into()
    }
}

/// A key without its shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum RowKey {
    Name {
        instance: Owner,
        index: u32,
    },
    History {
        instance: Owner,
        location: Vec<Part>,
    },
    Inbox {
        instance: Owner,
        epoch: u64,
        number: u64,
    },
    Meta {
        instance: Owner,
        fact: Fact,
    },
    Attempts {
        instance: Owner,
        entry: u64,
    },
    Alarm {
        instance: Owner,
        at_ms: u64,
    },
    Index {
        instance: Owner,
        created_at_ms: u64,
    },
    Dedup {
        instance: Owner,
        message: String,
    },
    Runnable {
        instance: Owner,
    },
    Emitted {
        instance: Owner,
        number: u64,
    },
    Published {
        instance: Owner,
        name: String,
    },
    Answer {
        instance: Owner,
        message: String,
    },
    Outbox {
        instance: Owner,
        revision: u64,
        index: u32,
    },
    Dead {
        at_ms: u64,
        message: String,
    },
    Tombstone {
        instance: Owner,
    },
    Gate {
        gate: String,
        epoch: u64,
        number: u64,
        instance: Owner,
    },
}

/// A part of a location: a name, or a name and an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Part {
    Name(u32),
    Iteration(u32, u64),
}

/// The facts about an instance, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fact {
    State,
    Output,
    Failure,
    Origin,
    Input,
    Hold,
    Flow,
}

impl RowKey {
    /// The words for a key; none if an export has no such row, or it names an instance with an impossible id.
    pub(super) fn of(key: &Key<'_>) -> Option<Self> {
        let id = |id: &str| InstanceId::internal(id).ok().map(Owner);
        Some(match key {
            Key::Store | Key::Position(_) | Key::Placed(..) => return None,
            Key::Instance(_, instance, local) => Self::of_local(id(instance)?, local),
            Key::Alarm(_, at_ms, instance) => Self::Alarm {
                instance: id(instance)?,
                at_ms: *at_ms,
            },
            Key::Index(_, created_at_ms, instance) => Self::Index {
                instance: id(instance)?,
                created_at_ms: *created_at_ms,
            },
            Key::Dedup(_, instance, message) => Self::Dedup {
                instance: id(instance)?,
                message: message.clone().into_owned(),
            },
            Key::Runnable(_, instance) => Self::Runnable {
                instance: id(instance)?,
            },
            Key::Outbox(_, instance, revision, index) => Self::Outbox {
                instance: id(instance)?,
                revision: *revision,
                index: *index,
            },
            Key::Dead(_, at_ms, message) => Self::Dead {
                at_ms: *at_ms,
                message: message.clone().into_owned(),
            },
            Key::Tombstone(_, instance) => Self::Tombstone {
                instance: id(instance)?,
            },
            Key::Gate(_, gate, Arrival { epoch, number }, instance) => Self::Gate {
                gate: gate.clone().into_owned(),
                epoch: *epoch,
                number: *number,
                instance: id(instance)?,
            },
        })
    }

    fn of_local(instance: Owner, local: &Local<'_>) -> Self {
        match local {
            Local::Name(index) => Self::Name {
                instance,
                index: *index,
            },
            Local::History(location) => Self::History {
                instance,
                location: location.segments().iter().map(|segment| (*segment).into()).collect(),
            },
            Local::Inbox(Arrival { epoch, number }) => Self::Inbox {
                instance,
                epoch: *epoch,
                number: *number,
            },
            Local::Meta(fact) => Self::Meta {
                instance,
                fact: (*fact).into(),
            },
            Local::Attempts(entry) => Self::Attempts {
                instance,
                entry: *entry,
            },
            Local::Emitted(number) => Self::Emitted {
                instance,
                number: *number,
            },
            Local::Published(name) => Self::Published {
                instance,
                name: name.clone().into_owned(),
            },
            Local::Answer(message) => Self::Answer {
                instance,
                message: message.clone().into_owned(),
            },
        }
    }

    /// Whose row it is; none if it is the store's own, whoever is named in it.
    pub(super) fn instance(&self) -> Option<&InstanceId> {
        let Owner(instance) = match self {
            Self::Name { instance, .. }
            | Self::History { instance, .. }
            | Self::Inbox { instance, .. }
            | Self::Meta { instance, .. }
            | Self::Attempts { instance, .. }
            | Self::Alarm { instance, .. }
            | Self::Index { instance, .. }
            | Self::Dedup { instance, .. }
            | Self::Emitted { instance, .. }
            | Self::Published { instance, .. }
            | Self::Answer { instance, .. }
            | Self::Outbox { instance, .. }
            | Self::Runnable { instance } => instance,
            Self::Dead { .. } | Self::Tombstone { .. } | Self::Gate { .. } => return None,
        };
        Some(instance)
    }

    /// The key in a shard; none if the location is deeper than any can be.
    pub(super) fn in_shard(&self, shard: Shard) -> Option<Key<'_>> {
        let instance = || self.instance().map_or("", InstanceId::as_str).into();
        let local = |local| Key::Instance(shard, instance(), local);
        Some(match self {
            Self::Name { index, .. } => local(Local::Name(*index)),
            Self::History { location, .. } => {
                let segments: Vec<Segment> = location.iter().map(|part| (*part).into()).collect();
                let location = Location::try_from(segments).ok()?;
                local(Local::History(std::borrow::Cow::Owned(location)))
            }
            Self::Inbox { epoch, number, .. } => local(Local::Inbox(Arrival {
                epoch: *epoch,
                number: *number,
            })),
            Self::Meta { fact, .. } => local(Local::Meta((*fact).into())),
            Self::Attempts { entry, .. } => local(Local::Attempts(*entry)),
            Self::Alarm { at_ms, .. } => Key::Alarm(shard, *at_ms, instance()),
            Self::Index { created_at_ms, .. } => Key::Index(shard, *created_at_ms, instance()),
            Self::Dedup { message, .. } => Key::Dedup(shard, instance(), message.as_str().into()),
            Self::Runnable { .. } => Key::Runnable(shard, instance()),
            Self::Emitted { number, .. } => local(Local::Emitted(*number)),
            Self::Published { name, .. } => local(Local::Published(name.as_str().into())),
            Self::Answer { message, .. } => local(Local::Answer(message.as_str().into())),
            Self::Outbox { revision, index, .. } => Key::Outbox(shard, instance(), *revision, *index),
            Self::Dead { at_ms, message } => Key::Dead(shard, *at_ms, message.as_str().into()),
            Self::Tombstone {
                instance: Owner(instance),
            } => Key::Tombstone(shard, instance.as_str().into()),
            Self::Gate {
                gate,
                epoch,
                number,
                instance: Owner(instance),
            } => {
                let place = Arrival {
                    epoch: *epoch,
                    number: *number,
                };
                Key::Gate(shard, gate.as_str().into(), place, instance.as_str().into())
            }
        })
    }
}

impl From<Segment> for Part {
    fn from(segment: Segment) -> Self {
        match segment {
            Segment::Name(name) => Self::Name(name),
            Segment::Iteration { name, number } => Self::Iteration(name, number),
        }
    }
}

impl From<Part> for Segment {
    fn from(part: Part) -> Self {
        match part {
            Part::Name(name) => Self::Name(name),
            Part::Iteration(name, number) => Self::Iteration { name, number },
        }
    }
}

impl From<Meta> for Fact {
    fn from(meta: Meta) -> Self {
        match meta {
            Meta::State => Self::State,
            Meta::Output => Self::Output,
            Meta::Failure => Self::Failure,
            Meta::Origin => Self::Origin,
            Meta::Input => Self::Input,
            Meta::Hold => Self::Hold,
            Meta::Flow => Self::Flow,
        }
    }
}

impl From<Fact> for Meta {
    fn from(fact: Fact) -> Self {
        match fact {
            Fact::State => Self::State,
            Fact::Output => Self::Output,
            Fact::Failure => Self::Failure,
            Fact::Origin => Self::Origin,
            Fact::Input => Self::Input,
            Fact::Hold => Self::Hold,
            Fact::Flow => Self::Flow,
        }
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes that lower-case hexadecimal stands for; none if it is anything else.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect()
}
