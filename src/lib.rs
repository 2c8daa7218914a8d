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
//! # What a program is made of
//!
//! - **[`workflow`](macro@workflow)** on an `async fn` makes a workflow of it. Its first argument is the context,
//!   [`Ctx`]; everything that it waits for or does to the world goes through that. Between two such operations it may
//!   only compute: it is called again after a crash, and has to come the same way.
//! - **[`Runtime`]** opens a store and runs the workflows that its [`Builder`] was told of. One process has a store open
//!   at a time.
//! - **[`Handle`]** is one instance, for callers: it is [sent](Handle::send) to, [asked](Handle::ask), waited for, looked
//!   at and operated on.
//!
//! | to | in the workflow | outside |
//! |---|---|---|
//! | do something once | [`Ctx::step`], [`Ctx::run`] an [`activity`](macro@activity), [`Ctx::step_blocking`] | |
//! | wait for a time | [`Ctx::sleep`], [`Ctx::sleep_until`] | [`Start::after`], [`Runtime::schedule`] |
//! | hear from outside | [`Ctx::receive`], [`Ctx::receive_any`], [`Ctx::receive_many`] | [`Handle::send`] |
//! | answer | [`Ctx::question`] | [`Handle::ask`] |
//! | be decided by a link or a hook | [`Ctx::promise`] | [`Runtime::resolve`] |
//! | show how far it is | [`Ctx::set`], [`Ctx::emit`] | [`AnyHandle::query`], [`AnyHandle::stream`] |
//! | do things at the same time | `join!`, `select!`, [`Ctx::join`], [`Ctx::race`], [`Ctx::map`] | |
//! | go on for ever | [`Ctx::repeat`], [`Ctx::continue_as_new`] | |
//! | undo what was done | [`Step::rollback`], [`Ctx::compensate`] | |
//! | have others do a part | [`Ctx::child`], [`Ctx::send`] | |
//! | tell whoever waits | [`Ctx::publish`], [`Ctx::wait_event`] | [`Runtime::publish`] |
//! | change under what runs | [`Ctx::patched`], [`Ctx::version`], [`Ctx::removed`] | |
//! | find and operate | | [`Runtime::list`], [`Runtime::instance`], [`Runtime::batch`]; `Payment::status(&runtime, id)` with [`WorkflowExt`] |
//!
//! # What is promised
//!
//! What a caller was told and what code has seen is on disk. The result of a step is decided once; its effect happens at
//! least once, with the same [key](Attempt::idempotency_key) for every attempt. Code that does not fit a history has no
//! effect: the instance is stuck, with a report, until code comes that fits. Not promised: anything about a disk that
//! lies, and anything about several machines, which can't share a store yet.
//!
//! # Features
//!
//! | feature | | gives |
//! |---|---|---|
//! | `fjall` | default | the engine behind a plain path (`./data`) |
//! | `sled` | default | the engine behind `sled:./data` |
//! | `cli` | default | the `everstep` program; a library does without |
//! | `testing` | | the kit: workflows in virtual time, with crashes, in a plain `#[test]`; for `dev-dependencies` |
//!
//! `memory:` is always there, for tests and trials. Unix only: a store locks its directory and syncs it the way Unix does.
//!
//! # Where to read on
//!
//! In the repository: the numbered programs of `examples/`, `docs/GUIDE.md` from the first workflow to production,
//! `docs/TESTING.md`, `docs/GUARANTEES.md`, a page for every error code in `docs/errors/`. Whoever changes the crate itself
//! begins with `docs/ARCHITECTURE.md`, the map of its rooms.
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
pub use config::{Bounds, Config, InvalidConfig, Keep, Outcome};
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
    Happened, Held, History, HistoryEntry, Item, Letter, Letters, List, ListPage, Listed, Operated, Publishing,
    Resting, Schedule, ScheduleDescription, ScheduleHandle, Scheduled, Schedules, SchedulesPage, Scheduling, SendNamed,
    Sending, Sent, Start, StartNamed, Started, StartedChild, StartedNamed, Stream, Triggered, Waiting, Watch, WatchOne,
    Watched, WorkflowExt,
};
pub use ids::{InstanceId, InvalidId, MessageId, Shard};
#[cfg(feature = "testing")]
pub use runtime::Simulated;
pub use runtime::{Builder, Runtime, RuntimeStats};
pub use scheduler::QueueStats;
#[cfg(feature = "testing")]
pub use spawn::Turns;
pub use storage::Health;
pub use storage::record::{ClosePolicy, Failure, FailureKind, Priority, Status};
pub use timing::{Cron, Every, InvalidTiming, Once, Timing};
