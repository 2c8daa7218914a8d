//! WHO: the workflow actor, its mailbox, the directory of residents.
//!
//! A resident instance has one actor. The actor receives nudges, small and coalesced, and owns a pump, the task that
//! holds the live function, polls it, commits what it decides, and starts its steps. User code runs in the pump and
//! in the steps' own tasks, never in the actor's handler, so a slow workflow can't hold up its own mailbox.
//!
//! ```text
//!   send, alarm, start ──► Directory ──nudge──► WorkflowActor ──signal──► Pump ──commit──► Store
//!                                                                          │ ▲
//!                                                                     step ▼ │ outcome
//!                                                                        its own task
//! ```
//!
//! **What never lives here:** what an operation of a workflow means (engine), when a time comes and whose turn it is
//! (scheduler), what a caller is told (handle).
//!
//! **Who may call it:** the runtime, which starts and stops it, and handles, which put something into a store and have it
//! seen to. Nothing in it is public but [`Recovery`].
//!
//! **In which order to read:** `shared` (what all residents have in common), `directory` (who is resident), `workflow` and
//! `signal` (the actor, and what wakes it), `pump` (a life in memory: the heart of this room), `attempt` (the work of a
//! step), `courier` (what instances have for each other), `recovery` and `feed` (what a start finds), `residency` (who
//! leaves), `supervisor`, `breaker` and `probation` (what breaks down), `alone`, `hold` and `rewind` (what operators do).
//!
//! **Architecture invariant:** at most one resident actor per instance. The directory holds an entry's lock while it
//! begins or ends one.
//!
//! **Architecture invariant:** a nudge carries nothing. Whoever is woken looks at the store.

mod alone;
mod attempt;
mod attempts;
mod breaker;
mod broadcasts;
mod changes;
mod courier;
mod directory;
mod feed;
mod flying;
mod gate;
mod handed;
mod hold;
mod lasting;
mod load;
mod observers;
mod probation;
mod pump;
mod recovery;
mod residency;
mod rewind;
mod shared;
mod signal;
mod start;
mod supervisor;
mod watchdog;
mod workflow;

pub(crate) use alone::exclusively;
#[cfg(feature = "testing")]
pub(crate) use attempt::run as run_attempt;
pub(crate) use changes::Waiters;
#[cfg(feature = "testing")]
pub(crate) use courier::{Blocked, Build, Delivery, Hand, outboxes};
pub(crate) use courier::{Courier, cancel_commit, ends_of_children, missing_children, terminate_commit};
pub(crate) use feed::feed;
pub(crate) use gate::{Coming, flow as flow_of, waits as waits_at_gate};
pub(crate) use handed::handed_over;
#[cfg(feature = "testing")]
pub(crate) use load::{inbox as load_inbox, load as load_instance};
pub(crate) use observers::Observers;
pub use recovery::Recovery;
pub(crate) use recovery::{admit, recover, ring};
pub(crate) use rewind::{Cut, cut};
pub(crate) use shared::Shared;
pub(crate) use signal::Leave;
pub(crate) use start::{
    begins_later, new_run_commit, set_flow, start_at_gate_commit, start_commit, take_what_was_asked,
};
pub(crate) use watchdog::run as watch;
