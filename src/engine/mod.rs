//! MEANING: what a workflow's operations mean.
//!
//! # How a function outlives its process
//!
//! A function can't be stored. Where it stands is spread over a stack, registers and a heap, and none of it means
//! anything to another process. But a function can be *called again*. If everything that it learns from the outside is
//! written down, and given to it a second time, it comes to the same place by itself.
//!
//! So whatever a workflow asks of the world (a step, a sleep, a message) goes through its context, and becomes an *entry*
//! with a *location*, its path through the function; what became of it is stored there. When the process dies, the
//! function is simply called again. It asks for the same things at the same locations, is given what is stored, and so
//! comes to where it was: it has *replayed*. Nothing but its own asking moves it on, so it can't tell the difference.
//!
//! ```text
//!   async fn payment(ctx, order) {                     first life              second life
//!       let hold = ctx.step("reserve", ..).await?;     runs, is stored         given from history
//!       let news = ctx.receive::<Approval>().await?;   waits, and is stored    given from history
//!       ctx.sleep("cooling-off", "24h").await?;        is stored, and here     sleeps on, to the
//!                                                      the process dies        time that was stored
//!       ctx.run(charge, hold).await                                            runs
//!   }
//! ```
//!
//! Two things have to be the same for that to hold: what is given, and in which order. What is given is stored. The
//! order is the harder part, and is where engines of this kind usually tell their users which combinators to avoid:
//! two steps that run at once end in an order that nobody chose, and a `select!` over them goes another way each time.
//! Here the rule is:
//!
//! **Completions are delivered one at a time, in the order in which they were committed, and the function is polled
//! to rest between two of them, live and in replay alike.** Each completed entry carries its place in that order.
//! Whatever `select!` saw first, it sees first again. *At rest* means: pending, and not woken by itself meanwhile.
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
//! Replay and life are the same loop. A turn does not know which of the two it is in; it only finds completions that are
//! recorded already, or does not. That is why they can't come apart.
//!
//! # When code and history do not fit
//!
//! Code changes while instances live. What is recorded and was never asked for by the time that nothing is left to
//! deliver belongs to other code; so does another kind of entry at a location, and a function that returns with history
//! left over. That is *divergence*. Nothing new begins before replay has caught up, so it is found before anything has
//! an effect: nothing is begun and nothing is written, the instance is put aside with a report, and goes on when code is
//! deployed that fits. `version`, `patched` and `removed` are how new code makes room for old histories.
//!
//! # Two rules of durability
//!
//! 1. *Durable before visible.* The function sees a completion only after the commit that holds it.
//! 2. *Observed before effect.* An attempt begins only when everything that the function has seen is durable. A chain
//!    of n steps costs n commits: when the next one begins, what it saw is durable already.
//!
//! Without the first, a function could act on a result that a crash takes back. Without the second, the world could see
//! an effect whose reason was never stored. Between the effect of a step and its commit there is a gap that nobody can
//! close: a process that dies there leaves an effect that is not recorded, and the step runs again. Hence *results
//! exactly once, effects at least once*, and a key for each step that is the same in every attempt.
//!
//! # What counts as one thing at a time
//!
//! - A loop that takes up a recorded state waits until replay has come to the place in the order where it was recorded.
//! - A message is taken first in its commit, and one wait is served at a time: nothing else can then make the code
//!   drop the wait between the taking and the delivery. If it is alone, the code is given it at once, and what follows
//!   goes into the same commit: the message is durable in the inbox, and so far nothing follows from it.
//! - A cancellation ends the operations that it reaches one after the other, in the order of their paths.
//! - Dropping a future lets go of what it stood for, and replay drops it at the same place, because it was the delivery
//!   of something else that made the code drop it.
//!
//! One thing is left to the code. `select!` polls its branches for the first time in an order that it draws, and drops
//! those that it has not polled yet when one is ready at once. Names don't mind, and what has no name (waits for messages
//! and events, what is sent and published, children) has its number from when it was made. But what is numbered or drawn
//! ([`Ctx::random`], [`Ctx::uuid`]) *inside* two such branches of one scope gets its number by chance, and a
//! [`version`](Ctx::version), a [`compensate`](Ctx::compensate) or a [`checkpoint`](Ctx::checkpoint) in a branch beside
//! one that is ready at once may be recorded by chance: it has no future that could take it back. Do these before the
//! `select!`, use `select_biased!`, or give each branch a scope with [`Ctx::race`].
//!
//! # What is deliberately absent
//!
//! No disk, no task, no clock: whoever drives an execution does those things and comes back with the results. No
//! throwing away of the function while it waits: replay is the way back after a crash, not the way to wake up. And no
//! rule about which of Rust's combinators may be used.
//!
//! **In which order to read:** [`Workflow`] and [`Ctx`]; `verbs`, one file each; `operation` (the future behind
//! them), `journal` (what was asked and what is known), `execution` (the loop above, with `execution/function.rs` for
//! the polling and `execution/stage.rs` for the commit), `divergence`. What is owed for each verb, and the test that
//! shows it, stands in `docs/BEHAVIOUR.md`; what a step and a replay cost, in `docs/BENCHMARK.md`.

mod answer;
mod attempt;
mod bounds;
mod context;
pub(crate) mod debounce;
mod derived;
mod divergence;
mod error;
mod execution;
mod farewell;
mod incident;
mod journal;
mod lifecycle;
mod message;
mod names;
mod operation;
mod polling;
mod request;
mod retry;
pub(crate) mod schedule;
mod scope;
mod strategy;
pub(crate) mod target;
mod token;
pub(crate) mod topic;
mod undo;
mod untyped;
mod verbs;
mod witness;
mod workflow;

pub(crate) use answer::answer_to;
pub use attempt::Attempt;
pub(crate) use attempt::{AttemptId, Pulse};
pub use context::Ctx;
pub(crate) use derived::of_instance as derived_id;
pub use divergence::Divergence;
pub(crate) use error::UNANSWERED;
pub use error::{Result, WorkflowError, critical, ok, rollback};
#[cfg(feature = "testing")]
pub(crate) use execution::panic_text;
pub(crate) use execution::{AttemptEnd, Begin, Execution, FromOutside, Loaded, Turn, Whereabouts};
pub(crate) use farewell::Farewell;
pub use incident::{Consequence, Incident, Observer};
pub(crate) use journal::{is_unseen, waits_for};
pub use lifecycle::{Lifecycle, LifecycleObserver, Moment};
pub use message::{Message, Messages, Question};
#[cfg(feature = "testing")]
pub(crate) use request::Attempting;
pub use retry::{Backoff, Retry};
pub use schedule::{CatchUp, Overlap};
pub(crate) use scope::Scope;
pub use strategy::{Policy, Strategy};
pub use token::{InvalidToken, PromiseToken};
pub(crate) use token::{rejected, resolved};
pub use undo::IntoUndo;
pub use untyped::{Accepted, Untyped};
#[doc(hidden)]
pub use verbs::Decoder;
pub(crate) use verbs::KEPT;
pub use verbs::{
    Activity, Address, Asked, AwaitChild, Branch, Branches, Child, ChildHandle, Compensation, Contestants, DetachChild,
    IntoActivity, IntoBlockingWork, IntoWork, Loop, Promise, Publish, Receive, ReceiveMany, Repeat, Reply, SendTo,
    Sleep, StartChild, Step, TryScope, TryStep, WaitEvent, Winner, Within, branch,
};
#[cfg(feature = "testing")]
pub(crate) use witness::{Asked as AskedFor, Call, CallSite, Unreadable, Witness};
pub use workflow::{Accepts, IntoWorkflow, Workflow};
pub(crate) use workflow::{Definition, Erased, Running};
