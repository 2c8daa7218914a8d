//! Ending children at once, beside everything else that is carried.
//!
//! A child that runs has to leave memory first, and one that never awaits does not: nobody else may have to wait for that.
//! So the children of a row are ended by a task of their own, and the row stays in the outbox until all of them are. What
//! the sender has for the same ones waits behind it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::actor::courier::terminate_commit;
use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::actor::{alone, load};
use crate::engine::Moment;
use crate::ids::InstanceId;
use crate::limits::{CLOSING_MAX, COURIER_ENDINGS_MAX, COURIER_HELD_MAX};
use crate::spawn;
use crate::storage::record::Status;
use crate::storage::{Condition, Posted, Result};

/// A row: its sender, revision and number.
type Row = (InstanceId, u64, u32);

/// The rows whose children are being ended.
#[derive(Debug)]
pub(super) struct Endings {
    courier: Arc<Signal>,
    /// As many children are ended at once.
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The rows, and their tasks once these have begun.
    rows: HashMap<Row, Option<AbortHandle>>,
    /// Senders for whose rows there was no place.
    waiting: BTreeSet<InstanceId>,
    /// Senders whose rows can be carried now.
    over: BTreeSet<InstanceId>,
    stopped: bool,
}

impl Endings {
    /// The courier is nudged when something has ended.
    pub(super) fn new(courier: &Arc<Signal>) -> Arc<Self> {
        Arc::new(Self {
            courier: Arc::clone(courier),
            places: Arc::new(Semaphore::new(COURIER_ENDINGS_MAX)),
            state: Mutex::default(),
        })
    }

    /// Whether the children of a row are being ended.
    pub(super) fn has(&self, row: &Posted) -> bool {
        self.state().rows.contains_key(&row_of(row))
    }

    /// Begins to end these children, if there is a place.
    pub(super) fn begin(self: &Arc<Self>, shared: &Arc<Shared>, row: &Posted, children: Vec<InstanceId>, reason: &str) {
        if !self.has_place(row) {
            return;
        }
        let ending = Ending {
            endings: Arc::clone(self),
            row: row_of(row),
            failed: false,
        };
        // Not under the lock: an executor that ends drops it at once, and then it is taken off the list.
        let task = spawn::task(ending.run(Arc::clone(shared), children, reason.to_owned()));
        let mut state = self.state();
        if state.stopped {
            task.abort();
        } else if let Some(handle) = state.rows.get_mut(&row_of(row)) {
            *handle = Some(task.abort_handle());
        }
    }

    /// Puts a row on the list, if it is not on it and there is a place.
    fn has_place(&self, row: &Posted) -> bool {
        let mut state = self.state();
        if state.stopped || state.rows.contains_key(&row_of(row)) {
            return false;
        }
        let full = state.rows.len() >= COURIER_ENDINGS_MAX || self.places.available_permits() == 0;
        if full {
            // Whoever is not on this list either is tried again in a while.
            if state.waiting.len() < COURIER_HELD_MAX {
                state.waiting.insert(row.from.clone());
            }
        } else {
            state.rows.insert(row_of(row), None);
        }
        !full
    }

    /// The senders whose rows can be carried now.
    pub(super) fn take_over(&self) -> BTreeSet<InstanceId> {
        std::mem::take(&mut self.state().over)
    }

    /// Ends nobody any more.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        let rows = std::mem::take(&mut state.rows);
        drop(state);
        rows.into_values().flatten().for_each(|task| task.abort());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row_of(row: &Posted) -> Row {
    (row.from.clone(), row.revision, row.index)
}

/// The task of one row. Whatever becomes of it, the row is carried again.
struct Ending {
    endings: Arc<Endings>,
    row: Row,
    /// Somebody could not be ended for now: that is tried again later, and not at once.
    failed: bool,
}

impl Ending {
    async fn run(mut self, shared: Arc<Shared>, children: Vec<InstanceId>, reason: String) {
        let places = Arc::clone(&self.endings.places);
        let ends = children.into_iter().map(|child| {
            let (shared, reason, places) = (&shared, &reason, &places);
            async move {
                let _place = places.acquire().await;
                let ended = terminate(shared, &child, reason).await;
                (child, ended)
            }
        });
        let mut ends = futures_util::stream::iter(ends).buffer_unordered(CLOSING_MAX);
        while let Some((child, ended)) = ends.next().await {
            let Err(error) = ended else { continue };
            tracing::warn!(sender = %self.row.0, %child, %error, "a child could not be ended");
            self.failed = true;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.endings.state();
        state.rows.remove(&self.row);
        if !self.failed {
            state.over.insert(self.row.0.clone());
        }
        let waiting = std::mem::take(&mut state.waiting);
        state.over.extend(waiting);
        drop(state);
        if self.endings.courier.raise() {
            self.endings.courier.notify();
        }
    }
}

/// Ends an instance at once. One that has ended, or that there is not, is as good as ended.
async fn terminate(shared: &Arc<Shared>, instance: &InstanceId, reason: &str) -> Result<()> {
    let (sharing, ending, reason) = (Arc::clone(shared), instance.clone(), reason.to_owned());
    let end = |activation| async move {
        let now = sharing.clock.now_ms();
        let Some(mut commit) = terminate_commit(&sharing.store, &ending, &reason, now)? else {
            return Ok(());
        };
        commit.require(Condition::Current(activation));
        let posts = commit.posts;
        sharing.store.commit(commit).await?;
        let workflow = load::workflow(&sharing.store, &ending);
        sharing.happened(&ending, &workflow, Moment::Ended(Status::Terminated));
        sharing.changes.tell(&ending);
        if let (true, Some(courier)) = (posts, sharing.courier.get()) {
            courier.nudge();
        }
        Ok(())
    };
    alone::exclusively(shared, instance, end).await
}
