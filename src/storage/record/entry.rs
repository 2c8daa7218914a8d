//! Records of an instance's history and inbox.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::ids::{InstanceId, MessageId};
use crate::storage::payload::Payload;
use crate::storage::record::Failure;
use crate::storage::value::{self, DecodeError, Record};

/// A name in the registry of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name(pub String);

impl Record for Name {
    const TYPE: u8 = 3;
    const NAME: &'static str = "name";
}

/// One recorded operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number among the entries of the instance.
    pub id: u64,
    /// Its place in the order in which completions were committed, and when that was; none while it is not complete,
    /// and for entries that nothing waits for.
    pub completed: Option<Completed>,
    /// What it is.
    pub kind: EntryKind,
    /// The attempt that did it, of a step or an undoing that completed. Those that failed are among its [`Attempts`].
    pub ran: Option<Ran>,
}

impl Record for Entry {
    const TYPE: u8 = 4;
    const NAME: &'static str = "entry";
    const VERSION: u8 = 2;

    /// Version 1 did not know which attempt it was, nor how long that took.
    fn upgrade(version: u8, record: &[u8]) -> Result<Self, DecodeError> {
        if version != 1 {
            return Err(DecodeError::never_was(version));
        }
        let First { id, completed, kind } = value::read(record)?;
        let ran = None;
        Ok(Self {
            id,
            completed,
            kind,
            ran,
        })
    }
}

/// An entry as version 1 had it.
#[derive(Deserialize)]
struct First {
    id: u64,
    completed: Option<Completed>,
    kind: EntryKind,
}

impl Entry {
    /// What no runtime would have written, if that is what it is: it can be read, and the code can't be given it.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let complete = self.completed.is_some();
        match &self.kind {
            EntryKind::Step(None) if complete => Some("a step that is complete and has no outcome"),
            EntryKind::Receive { taken, .. } if taken.iter().any(|message| message.told_or_asked().is_none()) => {
                Some("a wait that took what nobody waits for")
            }
            EntryKind::Child(child) if InstanceId::internal(child.instance.as_str()).is_err() => {
                Some("a child whose id is none")
            }
            EntryKind::Child(child) if complete && child.awaited && child.decided.is_none() => {
                Some("a child that is complete and has no outcome")
            }
            _ => None,
        }
    }
}

/// The completion of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// Its place among the completions of the instance.
    pub order: u64,
    /// When it was decided. What the code reads as the time comes from here.
    pub at_ms: Millis,
}

/// An attempt that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Which one, from one.
    pub number: u32,
    /// When it began.
    pub started_at_ms: Millis,
    /// How long it took, by a clock that does not jump.
    pub duration_ms: Millis,
}

/// What an entry records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A unit of work, and how it ended.
    Step(Option<Decided>),
    /// A wait for a point in time.
    Sleep {
        /// When it ends.
        wake_at_ms: Millis,
    },
    /// A wait for messages, and what ended it.
    Receive {
        /// When it gives up.
        until_ms: Option<Millis>,
        /// What was taken; nothing when it gave up.
        taken: Vec<Message>,
    },
    /// A durable loop: where it stands, or what it broke with.
    Loop(LoopState),
    /// Branches that all run to their end.
    Join {
        /// Each branch by name, in the order of the code.
        branches: Vec<(String, BranchStatus)>,
    },
    /// Branches of which the first to complete wins.
    Race {
        /// The branch that won.
        winner: Option<String>,
    },
    /// Which version of the code an instance follows at a gate.
    Version {
        /// The version.
        version: u32,
    },
    /// An entry whose code is gone.
    Removed,
    /// The instance was asked to end.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The instance ran out of time.
    Deadline,
    /// The same for many items.
    Map {
        /// How many.
        items: u64,
    },
    /// Another instance that this one started.
    Child(ChildState),
    /// A message to another instance.
    Sent {
        /// Whom it is for.
        to: String,
        /// The name by which it is received.
        name: String,
        /// Its id.
        id: MessageId,
    },
    /// An event that was published.
    Publish {
        /// The topic.
        topic: String,
        /// The id of the event.
        id: MessageId,
    },
    /// A wait for an event, and what ended it.
    Event {
        /// The topic.
        topic: String,
        /// When it gives up. Of a wait that was given up it is zero, and of an event for one that the code has not looked
        /// at the last moment that there is.
        until_ms: Option<Millis>,
        /// What the event said, or why there was none; nothing when it gave up, or gave the event back.
        decided: Option<Decided>,
    },
    /// Something that the outside world decides.
    Promise {
        /// When it gives up.
        until_ms: Option<Millis>,
        /// How it was decided.
        decided: Option<Decided>,
    },
    /// Something to undo, registered by the code, and how the undoing ended.
    Compensation {
        /// What the undoing is given.
        input: Payload,
        /// Completions that the code had seen when it registered this: its place among what is undone.
        seen: u64,
        /// How it ended.
        decided: Option<Decided>,
    },
    /// The undoing of the step that it lies below, and how it ended.
    Rollback(Option<Decided>),
    /// From here on, what an iteration of a loop does can be undone.
    Checkpoint,
    /// The function failed, and what it did is being undone.
    Compensating(Failure),
    /// The version at a gate that the code may not come by again: something that it waited for was dropped before it
    /// rested, and perhaps the part of the code that the gate lies in as well.
    Passed {
        /// The version.
        version: u32,
        /// Completions that the code had seen when it passed.
        seen: u64,
    },
}

/// What a record is taken to have beside what users put into it.
const SMALL_BYTES: usize = 32;

impl EntryKind {
    /// How large it is, about: the bytes of users in it, and something for the rest.
    pub(crate) fn bytes(&self) -> usize {
        let decided = |decided: &Option<Decided>| decided.as_ref().map_or(0, Decided::bytes);
        let told = |message: &Message| message.told_or_asked().map_or(0, |(_, payload)| payload.bytes.len());
        let users = match self {
            Self::Step(ended) | Self::Rollback(ended) => decided(ended),
            Self::Promise { decided: ended, .. } | Self::Event { decided: ended, .. } => decided(ended),
            Self::Receive { taken, .. } => taken.iter().map(|message| told(message) + SMALL_BYTES).sum(),
            Self::Loop(state) => {
                let output = state.output.as_ref().map_or(0, |output| output.bytes.len());
                let undo = state.undo.as_ref().map_or(0, |undo| undo.state.bytes.len());
                state.state.bytes.len() + output + undo
            }
            Self::Join { branches } => branches.iter().map(|(name, _)| name.len() + 2).sum(),
            Self::Child(child) => decided(&child.decided),
            Self::Compensation {
                input, decided: ended, ..
            } => input.bytes.len() + decided(ended),
            Self::Compensating(failure) => failure.bytes(),
            Self::Cancel { reason } => reason.len(),
            Self::Sleep { .. }
            | Self::Race { .. }
            | Self::Version { .. }
            | Self::Removed
            | Self::Deadline
            | Self::Map { .. }
            | Self::Sent { .. }
            | Self::Publish { .. }
            | Self::Passed { .. }
            | Self::Checkpoint => 0,
        };
        users + SMALL_BYTES
    }

    /// Whether it says what an attempt came to.
    pub(crate) fn comes_of_an_attempt(&self) -> bool {
        match self {
            Self::Step(decided) | Self::Rollback(decided) | Self::Compensation { decided, .. } => decided.is_some(),
            _ => false,
        }
    }

    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::Sleep { .. } => "sleep",
            Self::Receive { .. } => "receive",
            Self::Loop(_) => "loop",
            Self::Join { .. } => "join",
            Self::Race { .. } => "race",
            Self::Version { .. } | Self::Passed { .. } => "version",
            Self::Removed => "removed",
            Self::Cancel { .. } => "cancel",
            Self::Deadline => "deadline",
            Self::Map { .. } => "map",
            Self::Child(_) => "child",
            Self::Sent { .. } => "send",
            Self::Publish { .. } => "publish",
            Self::Event { .. } => "event",
            Self::Promise { .. } => "promise",
            Self::Compensation { .. } => "compensation",
            Self::Rollback(_) => "rollback",
            Self::Checkpoint => "checkpoint",
            Self::Compensating(_) => "compensating",
        }
    }
}

/// Where a durable loop stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// The iteration that begins with this state.
    pub iteration: u64,
    /// The state.
    pub state: Payload,
    /// The first iteration whose entries are kept.
    pub kept_from: u64,
    /// What the loop broke with.
    pub output: Option<Payload>,
    /// Completions that the code had seen when this was recorded: where replay takes the state up.
    pub seen: u64,
    /// What the code read as the time then.
    pub now_ms: Millis,
    /// The last iteration that did something which can be undone. Replay goes through it once more, so that its
    /// undoing is known.
    pub undo: Option<Retained>,
}

/// An iteration of a loop that can be gone through once more: how it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// Which one.
    pub iteration: u64,
    /// The state that it began with.
    pub state: Payload,
    /// Completions that the code had seen then.
    pub seen: u64,
    /// What the code read as the time then.
    pub now_ms: Millis,
}

/// A child, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildState {
    /// Its id.
    pub instance: String,
    /// Its type name.
    pub workflow: String,
    /// Whether its end is told to the parent.
    pub awaited: bool,
    /// What becomes of it when the parent ends first.
    pub close: ClosePolicy,
    /// Whether it was told to end, because nobody waited for it any more.
    pub closed: bool,
    /// How it ended, if that was told.
    pub decided: Option<Decided>,
    /// If it failed: whom that concerns.
    pub reach: Reach,
}

impl ChildState {
    /// Whether it is the business of whoever started it: it has not ended, was not let go and not told to end.
    pub fn is_open(&self) -> bool {
        self.decided.is_none() && self.close != ClosePolicy::Abandon && !self.closed
    }
}

impl ChildState {
    /// The failure that the parent fails with, if that is how the child failed.
    pub(crate) fn cascades(&self) -> Option<Failure> {
        match &self.decided {
            Some(Decided::Failed(cause)) if self.reach == Reach::Parent => {
                Some(Failure::of_child(&self.instance, cause))
            }
            _ => None,
        }
    }
}

/// Whom the failure of a child concerns, as the strategy of its workflow says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reach {
    /// Whoever waits for it, and may catch it.
    #[default]
    Waiting,
    /// The parent, which fails with it.
    Parent,
    /// Nobody: it is recorded, and the parent goes on.
    Nobody,
}

/// What becomes of a child when its parent ends first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClosePolicy {
    /// It is asked to end.
    #[default]
    Cancel,
    /// It is ended at once.
    Terminate,
    /// It goes on.
    Abandon,
}

/// How far a branch has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BranchStatus {
    /// Not begun.
    Pending,
    /// On its way.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
}

/// How something ended that has a result: a step, a child, a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decided {
    /// With this.
    Completed(Payload),
    /// With this failure, for good.
    Failed(Failure),
}

impl Decided {
    /// The bytes of users in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Completed(payload) => payload.bytes.len(),
            Self::Failed(failure) => failure.bytes(),
        }
    }
}

/// A message, in the inbox or taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was accepted.
    pub sent_at_ms: Millis,
    /// The instance that sent it, if one did.
    pub from: Option<String>,
    /// What it says.
    pub content: Content,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Something for whoever receives messages of this name.
    Told {
        /// The name.
        name: String,
        /// What is told.
        payload: Payload,
    },
    /// The same, with an answer expected; it is stored under the id of the message.
    Asked {
        /// The name.
        name: String,
        /// What is asked.
        payload: Payload,
    },
    /// How an operation ended that is decided elsewhere: a child, a promise, an event.
    Settled {
        /// The run that it belongs to.
        run: u32,
        /// The entry of the operation.
        entry: u64,
        /// How it ended.
        decided: Decided,
        /// If it failed: whom that concerns.
        reach: Reach,
    },
    /// The instance is asked to end.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Nothing new is to begin.
    Pause,
    /// It may go on.
    Resume,
}

impl Content {
    /// The bytes of users in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Told { payload, .. } | Self::Asked { payload, .. } => payload.bytes.len(),
            Self::Settled { decided, .. } => decided.bytes(),
            Self::Cancel { reason } => reason.len(),
            Self::Pause | Self::Resume => 0,
        }
    }

    /// Whether it says what became of this operation.
    pub(crate) fn settles(&self, operation: u64) -> bool {
        matches!(self, Self::Settled { entry, .. } if *entry == operation)
    }
}

/// What a schedule is told when an instance that it started has ended; who sent it says which.
pub const ENDED: &str = "__ended";

impl Message {
    /// A message from outside, for whoever receives this name.
    pub fn told(name: impl Into<String>, id: MessageId, payload: Payload, sent_at_ms: Millis) -> Self {
        let name = name.into();
        Self {
            id,
            sent_at_ms,
            from: None,
            content: Content::Told { name, payload },
        }
    }

    /// Whether getting it a second time does no harm, so that nobody has to remember it.
    pub fn may_come_twice(&self) -> bool {
        matches!(&self.content, Content::Told { name, .. } if name == ENDED)
    }

    /// The name and the payload of what a workflow receives by name.
    pub fn told_or_asked(&self) -> Option<(&str, &Payload)> {
        match &self.content {
            Content::Told { name, payload } | Content::Asked { name, payload } => Some((name, payload)),
            Content::Settled { .. } | Content::Cancel { .. } | Content::Pause | Content::Resume => None,
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What it is.
    pub decided: Decided,
    /// When it was given.
    pub at_ms: Millis,
}

impl Record for Answer {
    const TYPE: u8 = 18;
    const NAME: &'static str = "answer";
}

impl Record for Message {
    const TYPE: u8 = 5;
    const NAME: &'static str = "message";
}

/// The attempts at a step that failed, and how far the one that runs has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// How they failed, oldest first; the oldest are dropped when there are many.
    pub failed: Vec<Attempt>,
    /// How many were followed by another one, or will be.
    pub count: u32,
    /// When the next one is due.
    pub next_at_ms: Option<Millis>,
    /// What the last heartbeat said: where the next attempt can go on.
    pub progress: Option<Payload>,
}

impl Attempts {
    /// How large it is, about.
    pub(crate) fn bytes(&self) -> usize {
        let failed = self.failed.iter().map(|attempt| attempt.failure.bytes() + 32);
        let progress = self.progress.as_ref().map_or(0, |progress| progress.bytes.len());
        failed.sum::<usize>() + progress + 64
    }
}

impl Record for Attempts {
    const TYPE: u8 = 11;
    const NAME: &'static str = "attempts";
}

/// One attempt that failed. What became of the step in the end is in its entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which one, from one.
    pub number: u32,
    /// When it began.
    pub started_at_ms: Millis,
    /// How long it took; if it ended with its process, until that was noticed.
    pub duration_ms: Millis,
    /// What happened.
    pub failure: Failure,
}
