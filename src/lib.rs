//! Durable workflows in one crate: ordinary async functions that survive crashes, restarts and deploys.
//!
//! A workflow is an `async fn`. What it does to the outside world it does in *steps*, whose results are stored; when
//! the process dies, the function is called again, and every step that was done returns what it returned before.
//! There is no server to operate: open a directory, and it runs.
//!
//! ```
//! use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
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
//! let order = runtime.start(order, 21).id("order-1").await?;
//! order.send(Approval { by: "kim".into() }).await?;
//! assert_eq!(order.result().await?, "42 approved by kim");
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
// A library does not talk past its caller. Programs, examples and tests may print.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod actor;
pub mod chance;
pub mod clock;
mod config;
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
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod timing;
mod ulid;
mod unwinding;

/// The programs in the documents compile, and run where they can.
#[cfg(doctest)]
mod doctested {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[cfg(feature = "testing")]
    #[doc = include_str!("../docs/GUIDE.md")]
    mod guide {}
    #[cfg(feature = "testing")]
    #[doc = include_str!("../docs/TESTING.md")]
    mod testing {}
}

pub use actor::Recovery;
pub use config::{Bounds, Config, InvalidConfig, Outcome};
pub use duration::{IntoDuration, InvalidDuration};
#[doc(hidden)]
pub use engine::Decoder as __Decoder;
pub use engine::{
    Accepted, Accepts, Activity, Address, Asked, Attempt, AwaitChild, Backoff, Branch, Branches, CatchUp, Child,
    ChildHandle, Compensation, Consequence, Contestants, Ctx, DetachChild, Divergence, Incident, IntoActivity,
    IntoBlockingWork, IntoUndo, IntoWork, IntoWorkflow, InvalidToken, Lifecycle, LifecycleObserver, Loop, Message,
    Messages, Moment, Observer, Overlap, Policy, Promise, PromiseToken, Publish, Question, Receive, ReceiveMany,
    Repeat, Reply, Result, Retry, SendTo, Sleep, StartChild, Step, Strategy, TryScope, TryStep, Untyped, WaitEvent,
    Winner, Within, Workflow, WorkflowError, branch, critical, ok, rollback,
};
#[doc = include_str!("../docs/macros/message.md")]
pub use everstep_macros::Message;
#[doc = include_str!("../docs/macros/messages.md")]
pub use everstep_macros::Messages;
#[doc = include_str!("../docs/macros/activity.md")]
pub use everstep_macros::activity;
#[doc = include_str!("../docs/macros/workflow.md")]
pub use everstep_macros::workflow;
pub use handle::{
    AnyHandle, Asking, Batch, BatchCount, BatchFailure, BatchHandle, BatchProgress, BatchStart, Change, Crowded,
    Current, DeadLetters, Debounce, Debounced, Debouncing, Description, Effect, Error, Event, Existing, Handle,
    Happened, Held, History, HistoryEntry, Item, Letter, Letters, LettersAfter, List, ListPage, Listed, Operated,
    Publishing, Schedule, ScheduleDescription, ScheduleHandle, Scheduled, Schedules, SchedulesPage, Scheduling,
    SendNamed, Sending, Sent, Start, StartNamed, Started, StartedChild, StartedNamed, Stream, Triggered, Waiting,
    Watch, WatchOne, Watched, WorkflowExt,
};
pub use ids::{InstanceId, InvalidId, MessageId, Shard};
#[cfg(feature = "testing")]
pub use runtime::Simulated;
pub use runtime::{Builder, Runtime, RuntimeStats};
pub use scheduler::QueueStats;
pub use storage::record::{ClosePolicy, Priority};
pub use timing::{Cron, Every, InvalidTiming, Once, Timing};
