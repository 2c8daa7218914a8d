//! Reads who has to run from the store, as fast as there is room for them: at the start, and whenever somebody was
//! turned away. That is everyone who has something to do, and everyone whose alarm is due.
//!
//! Each lane has its own way through the rows. One that is full is left where it stands and taken up again when it has
//! room; the others go on meanwhile. So a flood of one workflow, or one at its limit, does not hide the others that
//! stand behind it in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use xxhash_rust::xxh3::xxh3_64;

use crate::actor::directory::Woken;
use crate::actor::load;
use crate::actor::recovery::knows;
use crate::actor::shared::Shared;
use crate::clock::Millis;
use crate::ids::{InstanceId, Shard};
use crate::limits::FEED_BACKOFF;
use crate::scheduler::Admission;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Runnable, State, Status};
use crate::storage::{Cursor, Error, Page};

/// Where it is written who has to run.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Among those who have something to do.
    Runnable,
    /// Among the alarms that are due.
    Alarms,
}

/// How far a lane has been fed from one source.
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

/// Lanes that one source may have more for.
#[derive(Debug)]
struct Feed {
    source: Source,
    behind: BTreeMap<Arc<str>, Behind>,
}

/// Somebody who has to run.
struct Found {
    instance: InstanceId,
    /// The type name of its workflow; empty if it has to be looked up.
    workflow: String,
    /// The alarm that is due.
    at_ms: Option<Millis>,
}

/// Feeds until the runtime is gone.
pub(crate) async fn feed(shared: Weak<Shared>, admission: Arc<Admission>) {
    let mut wait = FEED_BACKOFF.0;
    // They take turns to go first: none can fill a lane for ever and keep the other from it.
    let mut feeds = [Source::Alarms, Source::Runnable].map(Feed::new);
    admission.turn_all_away();
    loop {
        let rooms = admission.rooms();
        let turned_away = admission.take_behind();
        feeds.iter_mut().for_each(|feed| feed.add(&turned_away));
        if admission.is_closed() {
            return;
        }
        let mut fed = Ok(false);
        for feed in &mut feeds {
            let hungry = feed.hungry(&admission);
            if hungry.is_empty() {
                continue;
            }
            let Some(shared) = shared.upgrade() else {
                return;
            };
            fed = feed.feed(&shared, hungry).await.map(|()| true);
            if fed.is_err() {
                break;
            }
        }
        feeds.swap(0, 1);
        match fed {
            Ok(true) => wait = FEED_BACKOFF.0,
            Ok(false) => tokio::select! {
                biased;
                () = admission.room_since(rooms), if feeds.iter().any(Feed::has_more) => {}
                () = admission.turned_away() => {}
            },
            Err(error) => {
                tracing::error!(%error, "who has to run could not be read; it is read again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(FEED_BACKOFF.1);
            }
        }
    }
}

impl Feed {
    fn new(source: Source) -> Self {
        Self {
            source,
            behind: BTreeMap::new(),
        }
    }

    /// Somebody was turned away from these lanes.
    fn add(&mut self, lanes: &BTreeSet<Arc<str>>) {
        for lane in lanes {
            let behind = self.behind.entry(Arc::clone(lane));
            behind.and_modify(|behind| behind.again = true).or_default();
        }
    }

    fn has_more(&self) -> bool {
        !self.behind.is_empty()
    }

    fn hungry(&self, admission: &Admission) -> BTreeSet<Arc<str>> {
        let hungry = self.behind.keys().filter(|lane| admission.wants_more(lane));
        hungry.cloned().collect()
    }

    /// Goes through the rows for these lanes, until all of them are full or have had everything.
    async fn feed(&mut self, shared: &Arc<Shared>, mut hungry: BTreeSet<Arc<str>>) -> Result<(), Error> {
        let from = hungry
            .iter()
            .filter_map(|lane| self.behind.get(lane))
            .map(|behind| &behind.from);
        let mut at = from.min().cloned().unwrap_or_default();
        let shards = shared.store.shards().count();
        while usize::from(at.shard) < shards {
            let page = self.page(shared, &at)?;
            for found in &page.rows {
                let Some(lane) = lane_of(shared, &hungry, found) else {
                    continue;
                };
                match shared.directory.try_wake(&found.instance) {
                    Woken::Told => rang(shared, found, &lane),
                    Woken::Closed => return Ok(()),
                    Woken::Full(_) => {
                        hungry.remove(&lane);
                        if let Some(behind) = self.behind.get_mut(&lane) {
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
            self.had_everything(shared, &lane);
        }
        Ok(())
    }

    /// A lane was given everything that was found for it.
    fn had_everything(&mut self, shared: &Shared, lane: &Arc<str>) {
        match self.behind.get_mut(lane) {
            Some(again) if again.again => *again = Behind::default(),
            _ => drop(self.behind.remove(lane)),
        }
        if let (Source::Alarms, Some(alarms)) = (self.source, shared.alarms.get()) {
            alarms.all_rang(lane);
        }
    }

    fn page(&self, shared: &Shared, at: &Position) -> Result<Page<Found>, Error> {
        let (shard, after) = (Shard(at.shard), at.page.as_ref());
        match self.source {
            Source::Runnable => {
                let page = shared.store.runnable(shard, after)?;
                let found = |(instance, runnable): (_, Runnable)| Found {
                    instance,
                    workflow: runnable.workflow,
                    at_ms: None,
                };
                let mut rows: Vec<_> = page.rows.into_iter().map(found).collect();
                shuffle(&mut rows, shared.chance.draw());
                let next = page.next;
                Ok(Page { rows, next })
            }
            Source::Alarms => {
                let page = shared.store.alarms(shard, after)?;
                let until_ms = shared.alarms.get().map_or(0, |alarms| alarms.due_until_ms());
                let count = page.rows.len();
                let due = page.rows.into_iter().take_while(|(at_ms, ..)| *at_ms <= until_ms);
                let found = |(at_ms, instance, _)| Found {
                    instance,
                    workflow: String::new(),
                    at_ms: Some(at_ms),
                };
                let rows: Vec<_> = due.map(found).collect();
                let next = page.next.filter(|_| rows.len() == count);
                Ok(Page { rows, next })
            }
        }
    }
}

/// Puts what has no order of its own into one that nobody expects: after a crash the same instances do not go first
/// every time, and those whose ids begin alike do not all turn to the same other systems at once.
fn shuffle<T>(rows: &mut [T], mut seed: u64) {
    for last in (1..rows.len()).rev() {
        seed = xxh3_64(&seed.to_le_bytes());
        let other = usize::try_from(seed % (last as u64 + 1)).unwrap_or(last);
        rows.swap(last, other);
    }
}

fn rang(shared: &Shared, found: &Found, lane: &str) {
    if let (Some(at_ms), Some(alarms)) = (found.at_ms, shared.alarms.get()) {
        alarms.rang(at_ms, lane);
    }
}

/// The lane of somebody who has to run, if it is one of these. What is parked already need not be opened to say so
/// again, and what broke down comes back when its wait is over.
fn lane_of(shared: &Shared, hungry: &BTreeSet<Arc<str>>, found: &Found) -> Option<Arc<str>> {
    let workflow = match found.workflow.as_str() {
        "" => load::workflow(&shared.store, &found.instance),
        workflow => Arc::from(workflow),
    };
    let lane = shared.admission.lane(&workflow);
    let parked = || !knows(shared, &workflow) && is_parked(shared, &found.instance);
    let waits = shared.supervisor.waits(&found.instance);
    (hungry.contains(&lane) && !waits && !parked()).then_some(lane)
}

fn is_parked(shared: &Shared, instance: &InstanceId) -> bool {
    let namespace = shared.store.namespace(instance);
    let state = shared
        .store
        .snapshot(namespace.shard())
        .and_then(|snapshot| namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State)));
    matches!(state, Ok(Some(state)) if state.status == Status::Parked)
}
