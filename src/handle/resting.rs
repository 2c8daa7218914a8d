//! How many instances rest, and on what.

use std::sync::Arc;

use crate::actor::Shared;
use crate::handle::Result;
use crate::handle::list::{self, List};
use crate::storage::record::Status;

/// Instances that have nothing to do at the moment. What the runtime itself is made of (schedules, topics) is left out,
/// as in listings; only alarms are counted whoever they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resting {
    /// Alarms whose time has not come: of instances that sleep, back off, wait for so long, or were started for later.
    pub later: u64,
    /// Instances that wait for a message, an event, a promise or a child, with a time at which they give up or without.
    pub waiting: u64,
    /// Instances that an operator holds.
    pub paused: u64,
    /// Instances whose history does not fit their code, or can't be read.
    pub stuck: u64,
    /// Instances of a workflow or a version that the process which had them last did not know.
    pub parked: u64,
    /// Instances that are kept for inspection.
    pub quarantined: u64,
}

/// Counts them, by reading every listing row and every alarm that is not due.
pub(crate) async fn resting(shared: Arc<Shared>) -> Result<Resting> {
    let store = shared.store.clone();
    list::blocking(&store, move || {
        let mut resting = Resting::default();
        let (filter, range) = List::new(Arc::clone(&shared)).parts();
        list::each_shard(&shared, &range, &filter, &mut |row| {
            match row.row.status {
                Status::Waiting => resting.waiting += 1,
                Status::Paused => resting.paused += 1,
                Status::Stuck => resting.stuck += 1,
                Status::Parked => resting.parked += 1,
                Status::Quarantined => resting.quarantined += 1,
                Status::Pending
                | Status::Running
                | Status::Sleeping
                | Status::BackingOff
                | Status::Compensating
                | Status::Completed
                | Status::Failed
                | Status::Cancelled
                | Status::Terminated
                | Status::Compensated => {}
            }
            true
        })?;
        let now = shared.clock.now_ms();
        for shard in shared.store.shards() {
            let mut after = None;
            loop {
                let page = shared.store.alarms(shard, after.as_ref())?;
                resting.later += page.rows.iter().filter(|(at, ..)| *at > now).count() as u64;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(resting)
    })
    .await
}
