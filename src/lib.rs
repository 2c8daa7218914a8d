//! Durable workflows in one crate.
pub mod clock;
mod ids;
pub mod limits;
pub mod location;
pub mod storage;
#[cfg(feature = "testing")]
pub mod testing;

pub use ids::{InstanceId, InvalidId, MessageId, Shard};
