//! What a schedule is told to do: when, what, and what if two meet or one was missed.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::engine::target::Target;
use crate::limits::SCHEDULE_WAITING_MAX;
use crate::storage::payload::{Codecs, PayloadError};
use crate::timing::Rule;

/// What becomes of a slot when the instance of an earlier one has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Overlap {
    /// The slot is passed over.
    #[default]
    Skip,
    /// It waits until the earlier ones have ended, in order. When a thousand wait, further ones are passed over.
    Queue,
    /// The earlier one is cancelled; when it has ended, this one begins. Of several that wait for that, the newest.
    CancelOld,
    /// It begins at once.
    Allow,
}

/// What becomes of slots that nobody could begin: because no process was there, or the clock was set forward. A slot
/// that begins within a minute of its time is on time and was not missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are passed over.
    Skip,
    /// The newest of them begins now.
    #[default]
    One,
    /// The newest of them begin now, at most so many and never more than a thousand, the oldest first. Those that meet
    /// each other are treated as [`Overlap`] says.
    All(usize),
}

impl CatchUp {
    /// How many of those that were missed are looked at.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Skip | Self::One => 1,
            Self::All(most) => most.clamp(1, SCHEDULE_WAITING_MAX),
        }
    }
}

/// What a schedule is told to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// What people call the schedule.
    pub(crate) name: String,
    pub(crate) rule: Rule,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) jitter_ms: Millis,
    pub(crate) target: Target,
}

impl Terms {
    /// Whether these say the same. Two inputs may be stored as different bytes and be the same.
    pub(crate) fn say_the_same(&self, other: &Self, codecs: &Codecs) -> Result<bool, PayloadError> {
        let without_input = |terms: &Self| Self {
            target: Target {
                input: other.target.input.clone(),
                ..terms.target.clone()
            },
            ..terms.clone()
        };
        let same_input = codecs.cbor(&self.target.input)? == codecs.cbor(&other.target.input)?;
        Ok(same_input && without_input(self) == *other)
    }
}
