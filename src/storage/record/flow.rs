//! Records of how instances are let in: priorities, and gates that only so many pass at once.

use serde::{Deserialize, Serialize};

use crate::limits::{GATE_LIMIT_MAX, NAME_BYTES_MAX};
use crate::storage::key::Arrival;
use crate::storage::value::Record;

/// Who goes first where several wait. Whoever has a lower priority waits longer, but never for ever: see
/// [`Priority::share`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Priority {
    /// After the others.
    Low,
    /// Like most.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl Priority {
    /// All of them, the lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];

    /// How many of them are served for one of the lowest priority, when all wait.
    ///
    /// ```
    /// use everstep::Priority;
    /// assert_eq!(Priority::ALL.map(Priority::share), [1, 8, 64]);
    /// ```
    pub fn share(self) -> u64 {
        match self {
            Self::Low => 1,
            Self::Normal => 8,
            Self::High => 64,
        }
    }
}

/// How an instance is let in. One that was started with nothing special has no such row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Who goes first.
    pub priority: Priority,
    /// What it has to pass before it runs.
    pub gate: Option<Gate>,
}

impl Record for Flow {
    const TYPE: u8 = 27;
    const NAME: &'static str = "flow";
}

impl Flow {
    /// Says that at most so many with this key run at once.
    pub(crate) fn at_most(&mut self, limit: u32, key: impl Into<String>) {
        let (key, stand) = (key.into(), Stand::Outside);
        self.gate = Some(Gate { key, limit, stand });
    }

    /// Refuses a key that is none, and a limit that is none.
    pub(crate) fn check(&self) -> Result<(), InvalidGate> {
        let Some(Gate { key, limit, .. }) = &self.gate else {
            return Ok(());
        };
        if !(1..=NAME_BYTES_MAX).contains(&key.len()) {
            return Err(InvalidGate::Key { length: key.len() });
        }
        if !(1..=GATE_LIMIT_MAX).contains(limit) {
            return Err(InvalidGate::Limit { limit: *limit });
        }
        Ok(())
    }
}

/// Why nobody could pass a gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidGate {
    #[error("the key has 1 to {NAME_BYTES_MAX} bytes, this one has {length}")]
    Key { length: usize },
    #[error("the limit is 1 to {GATE_LIMIT_MAX}, this one is {limit}")]
    Limit { limit: u32 },
    #[error(
        "the child would wait for its parent, which runs with the same key `{0}` and waits for it; let it go with \
         `detach`, or give it another key"
    )]
    Own(String),
}

impl InvalidGate {
    /// The stable code of this error.
    pub(crate) fn code(&self) -> &'static str {
        "ES0431"
    }
}

/// A gate that an instance has to pass: at most so many with the same key run at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// What those who keep each other waiting have in common.
    pub key: String,
    /// How many of them run at once.
    pub limit: u32,
    /// Where the instance stands.
    pub stand: Stand,
}

/// Where an instance stands at its gate. Its place is known if the gate lies in its own shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stand {
    /// It has not come to the gate yet, or has left it.
    Outside,
    /// It waits.
    Waits {
        /// Its place.
        place: Option<Arrival>,
    },
    /// It was let in.
    Inside {
        /// Its place.
        place: Option<Arrival>,
    },
}

impl Stand {
    /// The place, if it is known.
    pub fn place(self) -> Option<Arrival> {
        match self {
            Self::Outside => None,
            Self::Waits { place } | Self::Inside { place } => place,
        }
    }
}

/// The place of an instance at a gate. Everything else about it is in its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtGate {
    /// How many may run at once when this one is among them.
    pub limit: u32,
}

impl Record for AtGate {
    const TYPE: u8 = 28;
    const NAME: &'static str = "place at a gate";
}
