//! Records that lie beside the namespaces.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::storage::key::Arrival;
use crate::storage::record::Status;
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
}

impl Record for IndexRow {
    const TYPE: u8 = 13;
    const NAME: &'static str = "index row";
}

/// A message id that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The epoch under which the message was accepted.
    pub epoch: u64,
    /// Its number in that epoch.
    pub number: u64,
}

impl Seen {
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
    /// Activations since the instance last got anywhere: what ends a crash loop.
    pub activations: u32,
}

impl Record for Runnable {
    const TYPE: u8 = 15;
    const NAME: &'static str = "runnable";
}
