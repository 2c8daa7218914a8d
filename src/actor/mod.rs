//! WHO: the workflow actor, its mailbox, the directory of residents.
//!
//! A resident instance has one actor. The actor receives nudges, small and coalesced, and owns a pump: the task that
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
//! **Architecture invariant:** at most one resident actor per instance. The directory holds an entry's lock while it
//! begins or ends one.
//!
//! **Architecture invariant:** a nudge carries nothing. Whoever is woken looks at the store.

mod changes;
mod directory;
mod load;
mod pump;
mod signal;
mod start;
mod workflow;

pub(crate) use changes::Changes;
pub(crate) use directory::Directory;
#[cfg(feature = "testing")]
pub(crate) use load::{inbox as load_inbox, load as load_instance};
pub(crate) use pump::Shared;
pub(crate) use start::start_commit;
