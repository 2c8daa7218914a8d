//! Durable workflows in one crate: ordinary async functions that survive crashes, restarts and deploys.
//!
//! A workflow is an `async fn`. What it does to the outside world it does in *steps*, whose results are stored; when
//! the process dies, the function is called again, and every step that was done returns what it returned before.
//! There is no server to operate: open a directory, and it runs.
//!
//! ```
//! use everstep::{Ctx, Message, MessageId, Result, Runtime, ok, workflow};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Message, Serialize, Deserialize)]
//! struct Approval {
//!     by: String,
//! }
//!
//! #[workflow(accepts(Approval))]
//! async fn order(ctx: Ctx<Order>, amount: u32) -> Result<String> {
//!     let total = ctx.step("price", move || async move { ok(amount * 2) }).retries(5).timeout("30s").await?;
//!     let approval = ctx.receive::<Approval>().timeout("7d").await?;
//!     ctx.sleep("cooling off", "10ms").await?;
//!     ok(format!("{total} approved by {}", approval.by))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! # let path = path.to_str().ok_or("a path")?;
//! let runtime = Runtime::builder().workflow(order).open(path).await?;
//! let handle = runtime.start(order, "order-1", &21).await?;
//! handle.send(MessageId::new("approval-1")?, &Approval { by: "kim".into() }).await?;
//! assert_eq!(handle.result().await?, "42 approved by kim");
//! # Ok(()) }
//! ```
//!
//! # The rooms
//!
//! | room | holds |
//! |---|---|
//! | `engine` | what a workflow's operations mean; pure |
//! | [`storage`] | bytes that survive: keys, values, commits, the committer, the engines underneath |
//! | `scheduler` | when: alarms |
//! | `actor` | who: the actor of each resident instance, and the directory of them |
//! | `runtime`, `handle` | the composition root, and what callers hold |
//! | `testing` | the kit: workflows in virtual time, proofs for engines (feature `testing`) |
//!
//! `docs/ARCHITECTURE.md` has the same map with the journeys through it.
#![forbid(unsafe_code)]

mod actor;
pub mod clock;
mod duration;
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

pub use duration::{IntoDuration, InvalidDuration};
pub use engine::{
    Accepts, Activity, Attempt, Backoff, Branch, Branches, Contestants, Ctx, Divergence, IntoWork, Loop, Message,
    Receive, ReceiveMany, Repeat, Result, Retry, Sleep, Step, TryStep, Winner, Within, Workflow, WorkflowError, branch,
    critical, ok, rollback,
};
#[doc = include_str!("../docs/macros/message.md")]
pub use everstep_macros::Message;
#[doc = include_str!("../docs/macros/activity.md")]
pub use everstep_macros::activity;
#[doc = include_str!("../docs/macros/workflow.md")]
pub use everstep_macros::workflow;
pub use handle::{Error, Handle, Sent};
pub use ids::{InstanceId, InvalidId, MessageId, Shard};
pub use runtime::{Builder, Runtime};
