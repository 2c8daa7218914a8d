//! Reads who has to run from the store, as fast as there is room for them: at the start, and whenever somebody was
//! turned away.
//!
//! Each lane has its own way through the rows. One that is full is left where it stands and taken up again when it has
//! room; the others go on meanwhile. So a flood of one workflow, or one at its limit, does not hide the others that
//! stand behind it in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use crate::actor::directory::Woken;
use crate::actor::load;
use crate::actor::recovery::knows;
use crate::actor::shared::Shared;
use crate::ids::{InstanceId, Shard};
use crate::scheduler::Admission;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Runnable, State, Status};
use crate::storage::{Cursor, Error};

/// How far a lane has been fed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    shard: u16,
    /// The page that it stands at.
    page: Option<Cursor>,
}

/// A lane that has more to run than it had room for.
#[derive(Debug, Default)]
struct Behind {
    from: Position,
    /// Whether somebody was turned away since it was begun: that may have been behind where it stands.
    again: bool,
}

/// Feeds until the runtime is gone.
pub(crate) async fn feed(shared: Weak<Shared>, admission: Arc<Admission>) {
    let mut behind: BTreeMap<Arc<str>, Behind> = BTreeMap::new();
    loop {
        let rooms = admission.rooms();
        for lane in admission.take_behind() {
            behind.entry(lane).and_modify(|behind| behind.again = true).or_default();
        }
        if admission.is_closed() {
            return;
        }
        let hungry = behind.keys().filter(|lane| admission.is_low(lane));
        let hungry: BTreeSet<_> = hungry.cloned().collect();
        if hungry.is_empty() {
            tokio::select! {
                biased;
                () = admission.room_since(rooms), if !behind.is_empty() => {}
                () = admission.turned_away() => {}
            }
            continue;
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Err(error) = feed_lanes(&shared, &mut behind, hungry).await {
            tracing::error!(%error, "who has to run could not be read");
            return;
        }
    }
}

/// Goes through the rows for these lanes, until all of them are full or have had everything.
async fn feed_lanes(
    shared: &Arc<Shared>,
    behind: &mut BTreeMap<Arc<str>, Behind>,
    mut hungry: BTreeSet<Arc<str>>,
) -> Result<(), Error> {
    let from = hungry
        .iter()
        .filter_map(|lane| behind.get(lane))
        .map(|behind| &behind.from);
    let mut at = from.min().cloned().unwrap_or_default();
    let shards = shared.store.shards().count();
    while usize::from(at.shard) < shards {
        let page = shared.store.runnable(Shard(at.shard), at.page.as_ref())?;
        for (instance, runnable) in &page.rows {
            let Some(lane) = lane_of(shared, &hungry, instance, runnable) else {
                continue;
            };
            match shared.directory.try_wake(instance) {
                Woken::Told => {}
                Woken::Closed => return Ok(()),
                Woken::Full(_) => {
                    hungry.remove(&lane);
                    if let Some(behind) = behind.get_mut(&lane) {
                        behind.from = at.clone();
                    }
                }
            }
        }
        if hungry.is_empty() {
            return Ok(());
        }
        at = match page.next {
            Some(next) => Position { page: Some(next), ..at },
            None => Position {
                shard: at.shard + 1,
                page: None,
            },
        };
        // A long backlog is read in pieces, and the others have their turn in between.
        tokio::task::yield_now().await;
    }
    for lane in hungry {
        match behind.get_mut(&lane) {
            Some(again) if again.again => *again = Behind::default(),
            _ => drop(behind.remove(&lane)),
        }
    }
    Ok(())
}

/// The lane of somebody who has to run, if it is one of these. What is parked already need not be opened to say so
/// again.
fn lane_of(
    shared: &Shared,
    hungry: &BTreeSet<Arc<str>>,
    instance: &InstanceId,
    runnable: &Runnable,
) -> Option<Arc<str>> {
    let lane = match runnable.workflow.as_str() {
        "" => shared.admission.lane(&load::workflow(&shared.store, instance)),
        workflow => shared.admission.lane(workflow),
    };
    let parked = || !knows(shared, &runnable.workflow) && is_parked(shared, instance);
    (hungry.contains(&lane) && !parked()).then_some(lane)
}

fn is_parked(shared: &Shared, instance: &InstanceId) -> bool {
    let namespace = shared.store.namespace(instance);
    let state = shared
        .store
        .snapshot(namespace.shard())
        .and_then(|snapshot| namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State)));
    matches!(state, Ok(Some(state)) if state.status == Status::Parked)
}
