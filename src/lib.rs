//! Durable workflows in one crate.
pub mod clock;
mod ids;
pub mod limits;
pub mod location;
pub(crate) mod spawn;
pub mod storage;

pub use ids::{InstanceId, InvalidId, MessageId, Shard};
