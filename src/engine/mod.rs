//! MEANING: what a workflow's operations mean.
//!
//! A workflow is an `async fn`. This room runs one: it polls the function until it rests, says what it asked for,
//! is told what became of it, and polls again. It is pure: it reads no disk, starts no task and looks at no clock.
//! Whoever drives it (the actor of the instance) does those things and comes back with the results.
//!
//! ```text
//!              ┌──────────────────────── Execution ────────────────────────┐
//!  history ──► │ poll the function to rest ──► Journal: asked, delivered    │ ──► rows to commit
//!              │        ▲                          │                        │ ──► steps to run
//!  completion ►│        └── deliver the next one ◄─┘                        │ ──► how it waits, or how it ended
//!              └────────────────────────────────────────────────────────────┘
//! ```
//!
//! **Architecture invariant:** completions are delivered one at a time, in the order in which they were committed,
//! and the function is polled to rest between two of them, live and in replay alike. That is what makes the plain
//! combinators of Rust safe to use in a workflow: whatever `select!` saw first, it sees first again.
//!
//! **Architecture invariant:** nothing new starts before replay has caught up. An operation that history does not
//! know waits until every recorded completion was delivered.
//!
//! **In which order to read:** [`Workflow`], [`Ctx`], the verbs (`step`, `sleep`, `receive`), then `journal` (what
//! was asked and what is known) and `execution` (the loop above).

mod context;
mod error;
mod execution;
mod journal;
mod message;
mod receive;
mod sleep;
mod step;
mod workflow;

pub use context::Ctx;
pub(crate) use error::Divergence;
pub use error::{StepFailed, WorkflowError};
pub(crate) use execution::{Execution, Loaded, Turn};
pub(crate) use journal::StepTask;
pub use message::Message;
pub use receive::Receive;
pub use sleep::Sleep;
pub use step::Step;
pub(crate) use workflow::Definition;
pub use workflow::Workflow;
