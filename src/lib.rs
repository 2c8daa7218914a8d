//! Durable workflows in one crate.
mod actor;
pub mod clock;
mod engine;
mod handle;
mod ids;
pub mod limits;
pub mod location;
mod runtime;
mod scheduler;
mod spawn;
pub mod storage;
#[cfg(feature = "testing")]
pub mod testing;

pub use engine::{Ctx, Message, Receive, Sleep, Step, StepFailed, Workflow, WorkflowError};
pub use everstep_macros::Message;
pub use handle::{Error, Handle, Result, Sent};
pub use ids::{InstanceId, InvalidId, MessageId, Shard};
pub use runtime::{Builder, Runtime};
