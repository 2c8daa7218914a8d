//! Durable workflows in one crate.
mod actor;
pub mod clock;
mod engine;
mod error;
mod handle;
mod ids;
pub mod limits;
pub mod location;
mod runtime;
mod scheduler;
mod spawn;
pub mod storage;
mod watch;

pub use engine::{Ctx, Message, Receive, Sleep, Step, StepFailed, Workflow, WorkflowError};
pub use error::{Error, Result};
pub use everstep_macros::Message;
pub use handle::{Handle, Sent};
pub use ids::{InstanceId, InvalidId, MessageId, Shard};
pub use runtime::{Builder, Runtime};
