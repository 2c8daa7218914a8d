//! MEANING: what a workflow's operations mean.
//!
//! # How a function outlives its process
//!
//! A workflow is an `async fn`. Whatever it asks for (a step, a sleep, a message) becomes an *entry* with a *location*,
//! its path through the function, and what became of it is stored there. When the process dies, the function is
//! simply called again. It asks for the same things at the same locations, is given what is stored, and so comes to
//! where it was: it has *replayed*. Nothing but its own asking moves it on, so it can't tell the difference.
//!
//! Two things have to be the same for that to hold: what is given, and in which order. What is given is stored. The
//! order is the harder part, and is where engines of this kind usually tell their users which combinators to avoid.
//! Here the rule is:
//!
//! **Completions are delivered one at a time, in the order in which they were committed, and the function is polled
//! to rest between two of them, live and in replay alike.** Each completed entry carries its place in that order.
//! Whatever `select!` saw first, it sees first again.
//!
//! # The loop
//!
//! ```text
//!              ┌──────────────────────── Execution ────────────────────────┐
//!  history ──► │ poll the function to rest ──► Journal: asked, recorded     │ ──► one commit
//!              │        ▲                          │                        │ ──► attempts to begin
//!  completion ►│        └── deliver the next one ◄─┘                        │ ──► when to wake, or the end
//!              └────────────────────────────────────────────────────────────┘
//! ```
//!
//! A turn polls the function to rest, delivering recorded completions, until there is nothing left to deliver. Then it
//! has caught up: what it asked for and history does not know is begun, what has come to its end is given its place in
//! the order, and all of it becomes one commit. When that is durable, the next turn delivers it.
//!
//! What is recorded and was never asked for by the time that nothing is left to deliver belongs to other code: that is
//! divergence, and nothing is begun or written.
//!
//! # What counts as one thing at a time
//!
//! - A loop that takes up a recorded state waits until replay has come to the place in the order where it was recorded.
//! - A message is taken first in its commit, and one wait is served in a commit: nothing else can then make the code
//!   drop the wait between the taking and the delivery.
//! - A cancellation ends the operations that it reaches one after the other, in the order of their paths.
//!
//! One thing is left to the code. `select!` polls its branches for the first time in an order that it draws. Names
//! don't mind, and a wait for a message has its number from when it was made. But waits for the same message that are
//! made *inside* two such branches are numbered by chance: use `select_biased!`, or give each a scope with
//! [`Ctx::race`].
//!
//! # Two rules of durability
//!
//! 1. *Durable before visible.* The function sees a completion only after the commit that holds it.
//! 2. *Observed before effect.* An attempt begins only when everything that the function has seen is durable. A chain
//!    of n steps costs n commits: when the next one begins, what it saw is durable already.
//!
//! # What is deliberately absent
//!
//! No disk, no task, no clock: whoever drives an execution does those things and comes back with the results. No
//! throwing away of the function while it waits: replay is the way back after a crash, not the way to wake up. And no
//! rule about which of Rust's combinators may be used.
//!
//! **In which order to read:** [`Workflow`] and [`Ctx`]; `verbs`, one file each; `operation` (the future behind
//! them), `journal` (what was asked and what is known), `execution` (the loop above), `divergence`.

mod attempt;
mod context;
mod divergence;
mod error;
mod execution;
mod journal;
mod message;
mod names;
mod operation;
mod polling;
mod request;
mod retry;
mod scope;
mod verbs;
mod workflow;

pub use attempt::Attempt;
pub use context::Ctx;
pub use divergence::Divergence;
pub use error::{Result, WorkflowError, critical, ok, rollback};
pub(crate) use execution::{AttemptEnd, Begin, Execution, Loaded, Turn};
pub use message::Message;
pub use retry::{Backoff, Retry};
pub use verbs::{
    Activity, Branch, Branches, Contestants, IntoWork, Loop, Receive, ReceiveMany, Repeat, Sleep, Step, TryStep,
    Winner, Within, branch,
};
pub(crate) use workflow::Definition;
pub use workflow::{Accepts, Workflow};
