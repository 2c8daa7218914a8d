//! What callers hold.
//!
//! An [`AnyHandle`] is an instance; a [`Handle`] is one that knows the types of its workflow. Whatever waits or changes
//! something is a builder that is awaited. Reading never activates an instance: it is read from the store.
//!
//! Two ways to change an instance: a message in its inbox (`send`, `operate` for pause, resume and cancel), which its
//! own code or engine takes when it gets there, and a commit of the caller's (`exclusive`: terminate, release, delete,
//! retry, reset), for which nobody else may have the instance. Which of two came first, the order of commits says.
//!
//! **What never lives here:** user code, and anything that has to go on when the caller goes away: that is handed to the
//! actors.
//!
//! **Who may call it:** users, through what the root of the crate exports; the runtime, whose methods are the beginning of
//! each of these calls; the kit for tests.
//!
//! **In which order to read:** `start` (how an instance begins), `send` and `ask` (what is put into its inbox), `wait` (how
//! everything here waits), `look` (how everything here reads), `any`; `operate` and `exclusive`, then `renew`; the rest is a
//! file for each call, in any order.
//!
//! **Architecture invariant:** a call that returned has been committed, and a call that was dropped happened as a whole or
//! not at all.

mod any;
mod ask;
mod batch;
mod dead;
mod debounce;
mod describe;
mod error;
mod exclusive;
mod export;
mod history;
mod later;
mod list;
mod look;
mod named;
mod operate;
mod polled;
mod promise;
mod publish;
mod renew;
mod resting;
mod schedule;
mod send;
mod size;
mod start;
mod stream;
mod wait;
mod watch;
mod workflow;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::actor::Shared;
use crate::engine::Workflow;
use crate::ids::InstanceId;

pub use any::AnyHandle;
pub use ask::Asking;
pub(crate) use batch::definition as batch_definition;
pub use batch::{Batch, BatchCount, BatchFailure, BatchHandle, BatchProgress, BatchStart};
pub use dead::{DeadLetters, Letter, Letters};
pub use debounce::{Debounce, Debounced, Debouncing};
pub use describe::{Current, Description, Held, StartedChild};
pub use error::Error;
pub(crate) use error::Result;
pub use history::{Event, Happened, History, HistoryEntry};
pub(crate) use list::blocking;
pub use list::{List, ListPage, Listed};
pub use named::{SendNamed, StartNamed, StartedNamed};
pub use operate::{Effect, Operated};
pub(crate) use promise::{reject, resolve};
pub use publish::Publishing;
pub use resting::Resting;
pub(crate) use resting::resting;
pub use schedule::{
    Schedule, ScheduleDescription, ScheduleHandle, Scheduled, Schedules, SchedulesPage, Scheduling, Triggered,
};
pub use send::{Sending, Sent};
pub use start::{Crowded, Existing, Start, Started};
pub use stream::{Item, Stream};
pub use wait::Waiting;
pub use watch::{Change, Watch, WatchOne, Watched};
pub use workflow::WorkflowExt;

/// One instance of a workflow, as its callers see it. Cheap to clone.
///
/// It is an [`AnyHandle`] that knows its types: what it may be sent, and what it returns.
pub struct Handle<W> {
    any: AnyHandle,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Handle<W> {
    pub(crate) fn new(shared: Arc<Shared>, instance: InstanceId) -> Self {
        Self {
            any: AnyHandle::new(shared, instance),
            workflow: PhantomData,
        }
    }

    /// The handle of an instance, if it is one of this workflow or none yet.
    pub(crate) fn of(shared: &Arc<Shared>, id: &str) -> Result<Self> {
        let instance = InstanceId::new(id)?;
        if let Some(seen) = look::instance(shared, &instance)? {
            seen.expect_type(&instance, W::NAME)?;
        }
        Ok(Self::new(Arc::clone(shared), instance))
    }

    /// Waits for the end of the instance, also across restarts, and gives what it returned. Any number may wait. An
    /// instance that did not complete gives [`Error::Failed`], which says how it ended. One that is paused, stuck, parked
    /// or quarantined has not ended: see [`Waiting::or_held`].
    pub fn result(&self) -> Waiting<W::Output> {
        self.result_as()
    }
}

impl<W> Deref for Handle<W> {
    type Target = AnyHandle;

    fn deref(&self) -> &AnyHandle {
        &self.any
    }
}

impl<W> Clone for Handle<W> {
    fn clone(&self) -> Self {
        Self {
            any: self.any.clone(),
            workflow: PhantomData,
        }
    }
}

impl<W> std::fmt::Debug for Handle<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("instance", &self.any.instance)
            .finish_non_exhaustive()
    }
}
