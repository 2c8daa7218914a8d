//! Records of facts about an instance.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::clock::Millis;
use crate::storage::payload::Payload;
use crate::storage::value::Record;

/// Where an instance is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Status {
    /// Accepted, not yet run.
    Pending,
    /// Running its code or a step.
    Running,
    /// Waiting for a point in time.
    Sleeping,
    /// Waiting for a message.
    Waiting,
    /// Waiting for the next attempt at a step.
    BackingOff,
    /// Held by an operator.
    Paused,
    /// Undoing what it did.
    Compensating,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because it was asked to.
    Cancelled,
    /// Ended at once, without cleaning up.
    Terminated,
    /// Ended after undoing what it did.
    Compensated,
    /// Kept as it is, for inspection.
    Quarantined,
    /// Its history and its code do not match.
    Stuck,
    /// Its type or version is not known to this process.
    Parked,
}

impl Status {
    /// Whether the instance has ended. Such a status is left only by an operator's reset or retry, as a new run.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Terminated | Self::Compensated
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Waiting => "waiting",
            Self::BackingOff => "backing off",
            Self::Paused => "paused",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::Compensated => "compensated",
            Self::Quarantined => "quarantined",
            Self::Stuck => "stuck",
            Self::Parked => "parked",
        })
    }
}

/// What changes while an instance lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Where it is in its life.
    pub status: Status,
    /// Which run this is, from one.
    pub run: u32,
    /// Grows with every commit of the instance.
    pub revision: u64,
    /// When its alarm rings; the alarm row lies under this time.
    pub alarm_at_ms: Option<Millis>,
    /// Entries in the history. A history with another number of rows has a gap.
    pub entries: u64,
    /// Completions so far: the place of the next one.
    pub completions: u64,
    /// When this was written.
    pub updated_at_ms: Millis,
    /// The run in which the history began: what chance was drawn from.
    pub drawn_in: u32,
    /// The run that idempotency keys are made of.
    pub keyed_in: u32,
    /// Runs that failed and were followed by another, since the instance was started.
    pub retries: u32,
    /// Items that the code has emitted.
    pub emitted: u64,
    /// Whether nothing new is to begin.
    pub paused: bool,
    /// What the code said (emitted, published, answered) when it had seen fewer completions than this is stored. A run
    /// that keeps a part of the history keeps this up to one past its completions.
    pub said: u64,
    /// When this run began, or will: what the code reads as the time before it has seen anything. A run that keeps a part
    /// of the history began when that did.
    pub began_at_ms: Millis,
}

impl State {
    /// The state of an instance that was just accepted.
    pub fn begun(now: Millis) -> Self {
        Self {
            status: Status::Pending,
            run: 1,
            revision: 1,
            alarm_at_ms: None,
            entries: 0,
            completions: 0,
            updated_at_ms: now,
            drawn_in: 1,
            keyed_in: 1,
            retries: 0,
            emitted: 0,
            paused: false,
            said: 0,
            began_at_ms: now,
        }
    }
}

impl Record for State {
    const TYPE: u8 = 6;
    const NAME: &'static str = "state";
}

/// What was settled when an instance began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The type name of the workflow.
    pub workflow: String,
    /// The version of the code that began this run of it.
    pub version: u32,
    /// When it was started; the listing row lies under this time.
    pub created_at_ms: Millis,
    /// Drawn when it was started. Ids and tokens are derived from it, so that an instance that is deleted and started
    /// again under the same id does not repeat them, and nobody can guess them.
    pub secret: Secret,
    /// What replay draws from, if not from the secret: a copy that was imported has a secret of its own, and draws what
    /// the original drew.
    pub seed: Option<Secret>,
    /// Who started it, if another instance did.
    pub parent: Option<Parent>,
    /// What people call it.
    pub tags: Vec<(String, String)>,
    /// When it runs out of time.
    pub deadline_at_ms: Option<Millis>,
}

/// What the ids and tokens of an instance are derived from. Nobody outside ever sees it, whole or in part, and what is
/// derived from it does not give it away.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret([u8; 16]);

impl Secret {
    /// What stands in a file in the place of a secret.
    pub(crate) const BLANK: Self = Self([0; 16]);

    /// One that nobody can guess.
    pub fn draw(chance: &dyn Chance) -> Self {
        let halves = [chance.draw(), chance.draw()].map(u64::to_be_bytes);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(halves.as_flattened());
        Self(bytes)
    }

    /// One that follows from another one.
    pub(crate) fn derived(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// What nobody can make without the secret. Comparing two of these takes as long whether they are alike or not.
    pub(crate) fn digest(self, text: &str) -> blake3::Hash {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.0);
        blake3::keyed_hash(&key, text.as_bytes())
    }

    /// What an instance draws from, so that replay draws the same. It does not give the secret away.
    pub(crate) fn seed(self) -> Self {
        Self(self.half("seed"))
    }

    /// The first half of a digest.
    pub(crate) fn half(self, text: &str) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.digest(text).as_bytes()[..16]);
        half
    }
}

impl From<u64> for Secret {
    /// One for a test: it can be guessed.
    fn from(number: u64) -> Self {
        Self(u128::from(number).to_be_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The instance that started another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id.
    pub instance: String,
    /// The run that did.
    pub run: u32,
    /// The entry that did.
    pub entry: u64,
    /// Whether the parent is told how it ends.
    pub awaited: bool,
}

impl Origin {
    /// An instance that was started from outside.
    pub fn new(workflow: impl Into<String>, version: u32, created_at_ms: Millis, secret: impl Into<Secret>) -> Self {
        Self {
            workflow: workflow.into(),
            version,
            created_at_ms,
            secret: secret.into(),
            seed: None,
            parent: None,
            tags: Vec::new(),
            deadline_at_ms: None,
        }
    }

    /// The same for a file that anybody may read: it replays as before, and nobody can make its tokens.
    pub(crate) fn without_secret(&self) -> Self {
        Self {
            secret: Secret::BLANK,
            seed: self.seed.or_else(|| Some(self.secret.seed())),
            ..self.clone()
        }
    }
}

impl Record for Origin {
    const TYPE: u8 = 9;
    const NAME: &'static str = "origin";
}

/// What an instance was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input(pub Payload);

impl Record for Input {
    const TYPE: u8 = 10;
    const NAME: &'static str = "input";
}

/// What an instance returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output(pub Payload);

impl Record for Output {
    const TYPE: u8 = 7;
    const NAME: &'static str = "output";
}

/// Why an instance does not go on: it is stuck, parked or quarantined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Why, for people.
    pub reason: String,
    /// Since when.
    pub since_ms: Millis,
    /// The whole report, if there is one.
    pub report: Option<Payload>,
}

impl Record for Hold {
    const TYPE: u8 = 19;
    const NAME: &'static str = "hold";
}

/// Something that the code has emitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emitted {
    /// What.
    pub payload: Payload,
    /// When it became durable.
    pub at_ms: Millis,
}

impl Record for Emitted {
    const TYPE: u8 = 16;
    const NAME: &'static str = "emitted";
}

/// What the code has published under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published(pub Payload);

impl Record for Published {
    const TYPE: u8 = 17;
    const NAME: &'static str = "published";
}
