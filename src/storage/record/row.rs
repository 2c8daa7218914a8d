//! Records that lie beside the namespaces.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::ids::MessageId;
use crate::storage::key::Arrival;
use crate::storage::payload::Payload;
use crate::storage::record::{Flow, Message, Origin, State, Status};
use crate::storage::value::Record;

/// An alarm. Everything that it says is in its key; the revision tells a stale one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The revision of the instance that armed it.
    pub revision: u64,
}

impl Record for Alarm {
    const TYPE: u8 = 12;
    const NAME: &'static str = "alarm";
}

/// What a listing shows of an instance without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRow {
    /// The type name of the workflow.
    pub workflow: String,
    /// Where the instance is in its life.
    pub status: Status,
    /// When that last changed.
    pub updated_at_ms: Millis,
    /// Who started it, if another instance did.
    pub parent: Option<String>,
    /// What people call it.
    pub tags: Vec<(String, String)>,
}

impl IndexRow {
    /// The row of an instance with this origin, in this state.
    pub(crate) fn of(origin: &Origin, state: &State) -> Self {
        Self {
            workflow: origin.workflow.clone(),
            status: state.status,
            updated_at_ms: state.updated_at_ms,
            parent: origin.parent.as_ref().map(|parent| parent.instance.clone()),
            tags: origin.tags.clone(),
        }
    }

    /// Whether this is the row of an instance with this origin, in this state.
    ///
    /// While an instance lives, its row is written only when its status changes, so the time in it may be that of an
    /// earlier commit, and is not compared. After the end nothing is written any more: from there on the time has to be
    /// right, and retention goes by it.
    pub(crate) fn is_of(&self, origin: &Origin, state: &State) -> bool {
        let mut right = Self::of(origin, state);
        if !state.status.is_terminal() {
            right.updated_at_ms = self.updated_at_ms;
        }
        *self == right
    }
}

impl Record for IndexRow {
    const TYPE: u8 = 13;
    const NAME: &'static str = "index row";
}

/// A message id that was seen, or that is waited for no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The epoch under which the message was accepted.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
}

impl Seen {
    /// No such message was accepted, and none is any more. Epochs are counted from one.
    pub const TOO_LATE: Self = Self { epoch: 0, number: 0 };

    /// Where the message was put.
    pub fn arrival(&self) -> Arrival {
        Arrival {
            epoch: self.epoch,
            number: self.number,
        }
    }
}

impl From<Arrival> for Seen {
    fn from(arrival: Arrival) -> Self {
        Self {
            epoch: arrival.epoch,
            number: arrival.number,
        }
    }
}

impl Record for Seen {
    const TYPE: u8 = 14;
    const NAME: &'static str = "seen message";
}

/// An instance that has to run after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runnable {
    /// The type name of its workflow: what this process does not know, it need not open.
    pub workflow: String,
    /// Activations since the instance last got anywhere: what ends a crash loop.
    pub activations: u32,
}

impl Runnable {
    /// An instance of this workflow, activated so often without getting anywhere.
    pub fn new(workflow: impl Into<String>, activations: u32) -> Self {
        let workflow = workflow.into();
        Self { workflow, activations }
    }
}

impl Record for Runnable {
    const TYPE: u8 = 15;
    const NAME: &'static str = "runnable";
}

/// Something for another instance, until it has got there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Whom it is for.
    pub to: String,
    /// What it is.
    pub parcel: Parcel,
}

impl Record for Outgoing {
    const TYPE: u8 = 20;
    const NAME: &'static str = "outgoing";
}

/// What goes from one instance to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parcel {
    /// A message. If it can't be delivered it is dropped, or kept as a dead letter.
    Message {
        /// The message.
        message: Message,
        /// Whether it is kept.
        dead_letter: bool,
    },
    /// The start of a child.
    Start {
        /// What is settled when it begins.
        origin: Origin,
        /// What it is started with.
        input: Payload,
    },
    /// The end of children that nobody waits for any more: for the first of them, and the others.
    Close {
        /// Why.
        reason: String,
        /// Which ones.
        children: Vec<Closing>,
    },
    /// The sender comes to a gate.
    Enter {
        /// The key of the gate.
        key: String,
        /// How many may run at once when this one is among them.
        limit: u32,
        /// Its place, if it has one already.
        place: Option<Arrival>,
    },
    /// The sender leaves a gate.
    Leave {
        /// The key of the gate.
        key: String,
        /// Its place, if it is known.
        place: Option<Arrival>,
    },
    /// The start of a child that is let in in a way of its own.
    StartWith {
        /// What is settled when it begins.
        origin: Origin,
        /// What it is started with.
        input: Payload,
        /// How it is let in. It has not come to its gate yet.
        flow: Flow,
    },
}

impl Parcel {
    /// The start of a child that is let in like this.
    pub(crate) fn start(origin: Origin, input: Payload, flow: Flow) -> Self {
        if flow == Flow::default() {
            return Self::Start { origin, input };
        }
        Self::StartWith { origin, input, flow }
    }

    /// Who is started, if somebody is.
    pub(crate) fn starts(&self) -> Option<&Origin> {
        match self {
            Self::Start { origin, .. } | Self::StartWith { origin, .. } => Some(origin),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn starts_mut(&mut self) -> Option<&mut Origin> {
        match self {
            Self::Start { origin, .. } | Self::StartWith { origin, .. } => Some(origin),
            _ => None,
        }
    }
}

/// A child that is told to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// Its id.
    pub instance: String,
    /// The id of the message that asks it to; none if it is ended at once.
    pub asks: Option<MessageId>,
}

/// A message that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Whom it was for.
    pub to: String,
    /// Why it could not be delivered.
    pub reason: String,
    /// The message.
    pub message: Message,
}

impl Record for DeadLetter {
    const TYPE: u8 = 21;
    const NAME: &'static str = "dead letter";
}

/// What is left of an instance that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// When it was deleted.
    pub deleted_at_ms: Millis,
}

impl Record for Tombstone {
    const TYPE: u8 = 22;
    const NAME: &'static str = "tombstone";
}
