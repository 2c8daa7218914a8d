//! Reading what lies beside the namespaces: alarms, the runnable set, the index.

use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::ids::{InstanceId, Shard};
use crate::limits::PAGE_ROWS_MAX;
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Arrival, Key};
use crate::storage::record::{Alarm, AtGate, DeadLetter, IndexRow, Outgoing, Runnable, Tombstone};
use crate::storage::store::{Store, shard_of};
use crate::storage::value::{self, Record};

/// A part of a listing, and where the next one begins.
#[derive(Debug)]
pub struct Page<T> {
    /// What was found, in order.
    pub rows: Vec<T>,
    /// Behind the last row; none if there is nothing more.
    pub next: Option<Cursor>,
}

/// A place in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(Vec<u8>);

impl Store {
    /// The next alarms of a shard, earliest first, at most [`PAGE_ROWS_MAX`] of them.
    pub fn alarms(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(Millis, InstanceId, Alarm)>> {
        page_of(
            &*self.snapshot(shard)?,
            key::alarms(shard),
            after,
            |key, alarm| match key {
                // Time and instance are in the key: one whose value is damaged rings all the same.
                Key::Alarm(_, at, instance) => {
                    let alarm = or_damaged(alarm, Alarm { revision: 0 });
                    Some(Ok((at, instance_id(&instance)?, alarm)))
                }
                _ => None,
            },
        )
    }

    /// The next alarms of a shard behind this one.
    pub(crate) fn alarms_behind(
        &self,
        shard: Shard,
        (at_ms, instance): (Millis, &InstanceId),
    ) -> Result<Page<(Millis, InstanceId, Alarm)>> {
        let mut key = Key::Alarm(shard, at_ms, instance.as_str().into()).pack();
        key.push(0);
        self.alarms(shard, Some(&Cursor(key)))
    }

    /// The instances of a shard by the time they were started at, oldest first, at most [`PAGE_ROWS_MAX`] of them.
    pub fn instances(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(Millis, InstanceId, IndexRow)>> {
        page(
            &*self.snapshot(shard)?,
            key::index(shard),
            after,
            |key, row| match key {
                Key::Index(_, at, instance) => Some((at, instance_id(&instance)?, row)),
                _ => None,
            },
        )
    }

    /// The instances of a shard that have to run after a restart, at most [`PAGE_ROWS_MAX`] of them.
    pub fn runnable(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(InstanceId, Runnable)>> {
        page_of(
            &*self.snapshot(shard)?,
            key::runnable(shard),
            after,
            |key, runnable| match key {
                // Who has to run is in the key: one whose value is damaged runs all the same.
                Key::Runnable(_, instance) => {
                    let runnable = or_damaged(runnable, Runnable::new("", 0));
                    Some(Ok((instance_id(&instance)?, runnable)))
                }
                _ => None,
            },
        )
    }
}

/// The record, or what stands for one that can't be read. That is told, and nobody else is kept by it.
fn or_damaged<R>(record: Result<R>, instead: R) -> R {
    record.unwrap_or_else(|error| {
        tracing::error!(%error, code = error.code(), "a row is damaged");
        instead
    })
}

impl Store {
    /// The listing rows of a shard, oldest instance first, at most [`PAGE_ROWS_MAX`] of them.
    pub(crate) fn index(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(InstanceId, IndexRow)>> {
        page(
            &*self.snapshot(shard)?,
            key::index(shard),
            after,
            |key, row| match key {
                Key::Index(_, _, instance) => Some((instance_id(&instance)?, row)),
                _ => None,
            },
        )
    }

    /// What is left of the instances of a shard that were deleted, at most [`PAGE_ROWS_MAX`] of them.
    pub(crate) fn tombstones(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(InstanceId, Tombstone)>> {
        page(
            &*self.snapshot(shard)?,
            key::tombstones(shard),
            after,
            |key, row| match key {
                Key::Tombstone(_, instance) => Some((instance_id(&instance)?, row)),
                _ => None,
            },
        )
    }

    /// What is left of an instance that was deleted, if it was.
    pub fn tombstone(&self, instance: &InstanceId) -> Result<Option<Tombstone>> {
        let shard = self.shard_of(instance);
        let key = Key::Tombstone(shard, instance.as_str().into()).pack();
        let Some(value) = self.snapshot(shard)?.get(&key)? else {
            return Ok(None);
        };
        value::decode(&key, &value).map(Some).map_err(|source| Error::Decode {
            key: key::describe(&key),
            source,
        })
    }
}

#[cfg(feature = "testing")]
impl Store {
    /// The ids of all instances of a shard, oldest first.
    pub(crate) fn listed_ids(&self, shard: Shard) -> Result<Vec<String>> {
        let snapshot = self.snapshot(shard)?;
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let page = page(
                &*snapshot,
                key::index(shard),
                after.as_ref(),
                |key, _: IndexRow| match key {
                    Key::Index(_, _, instance) => Some(instance.into_owned()),
                    _ => None,
                },
            )?;
            ids.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return Ok(ids);
            }
        }
    }
}

/// Something on its way: who sends it, in which commit, its number there, and what it is.
#[derive(Debug)]
pub struct Posted {
    /// Who sends it.
    pub from: InstanceId,
    /// The revision of the sender that it belongs to.
    pub revision: u64,
    /// Its number there.
    pub index: u32,
    /// What it is, and whom it is for; or why it can't be read. One that can't must not keep the others.
    pub outgoing: Result<Outgoing>,
}

impl Store {
    /// What is on its way from the instances of a shard, at most [`PAGE_ROWS_MAX`] of it; of each sender in its order.
    pub fn outbox(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<Posted>> {
        page_of(
            &*self.snapshot(shard)?,
            key::outbox(shard),
            after,
            |key, outgoing| match key {
                Key::Outbox(_, from, revision, index) => Some(Ok(Posted {
                    from: instance_id(&from)?,
                    revision,
                    index,
                    outgoing,
                })),
                _ => None,
            },
        )
    }

    /// The messages of a shard that could not be delivered, oldest first, at most [`PAGE_ROWS_MAX`] of them.
    pub fn dead_letters(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<(Millis, DeadLetter)>> {
        page(
            &*self.snapshot(shard)?,
            key::dead(shard),
            after,
            |key, dead| match key {
                Key::Dead(_, at, _) => Some((at, dead)),
                _ => None,
            },
        )
    }
}

/// Somebody at a gate: the place, whose it is, and how many may run at once when this one is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) place: Arrival,
    pub(crate) instance: InstanceId,
    pub(crate) limit: u32,
}

impl Store {
    /// The shard that a gate lies in.
    pub(crate) fn shard_of_gate(&self, gate: &str) -> Shard {
        shard_of(gate, self.shard_count())
    }

    /// Those at a gate who may pass it: each has fewer before it than may run at once, and nobody before it waits.
    pub(crate) fn may_pass(&self, gate: &str) -> Result<Vec<Stands>> {
        let mut first = Vec::new();
        self.visit_gate(gate, usize::MAX, &mut |stands| {
            let passes = first.len() < stands.limit as usize;
            if passes {
                first.push(stands);
            }
            passes
        })?;
        Ok(first)
    }

    /// How many stand at a gate, counted up to this many.
    pub(crate) fn count_at_gate(&self, gate: &str, most: usize) -> Result<usize> {
        let mut count = 0;
        self.visit_gate(gate, most, &mut |_| {
            count += 1;
            true
        })?;
        Ok(count)
    }

    /// The place of an instance at a gate, if it has one.
    pub(crate) fn place_at_gate(&self, gate: &str, instance: &InstanceId) -> Result<Option<Arrival>> {
        let mut found = None;
        self.visit_gate(gate, usize::MAX, &mut |stands| {
            found = (stands.instance == *instance).then_some(stands.place);
            found.is_none()
        })?;
        Ok(found)
    }

    /// Shows those at a gate, first come first, until `visit` has seen enough.
    fn visit_gate(&self, gate: &str, most: usize, visit: &mut dyn FnMut(Stands) -> bool) -> Result<()> {
        let shard = self.shard_of_gate(gate);
        let (start, end) = key::gate(shard, gate);
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: most,
        };
        let mut outcome = Ok(());
        self.snapshot(shard)?
            .scan(&scan, &mut |key, value| match stands(key, value).map(&mut *visit) {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            })?;
        outcome
    }
}

fn stands(key: &[u8], value: &[u8]) -> Result<Stands> {
    let lost = || Error::Corrupt(format!("{} does not belong where it lies", key::describe(key)));
    let Key::Gate(_, _, place, instance) = Key::unpack(key)? else {
        return Err(lost());
    };
    let row = value::decode(key, value).map_err(|source| Error::Decode {
        key: key::describe(key),
        source,
    });
    Ok(Stands {
        place,
        instance: instance_id(&instance).ok_or_else(lost)?,
        // One whose row is damaged is let in alone: that is never too many.
        limit: or_damaged(row, AtGate { limit: 1 }).limit,
    })
}

/// Reads one page of a range. `shape` turns a key of the right family and its record into a row.
fn page<R: Record, T>(
    snapshot: &dyn Snapshot,
    (start, end): (Vec<u8>, Vec<u8>),
    after: Option<&Cursor>,
    shape: impl Fn(Key<'static>, R) -> Option<T>,
) -> Result<Page<T>> {
    page_of(snapshot, (start, end), after, |key, record: Result<R>| match record {
        Ok(record) => shape(key, record).map(Ok),
        Err(error) => Some(Err(error)),
    })
}

/// The same, where `shape` decides what becomes of a record that can't be read.
fn page_of<R: Record, T>(
    snapshot: &dyn Snapshot,
    (start, end): (Vec<u8>, Vec<u8>),
    after: Option<&Cursor>,
    shape: impl Fn(Key<'static>, Result<R>) -> Option<Result<T>>,
) -> Result<Page<T>> {
    let start = after.map_or(start, |Cursor(key)| key.clone());
    let scan = Scan {
        start: &start,
        end: &end,
        direction: Direction::Forward,
        limit: PAGE_ROWS_MAX,
    };
    let mut rows = Vec::new();
    let mut last = Vec::new();
    let mut outcome = Ok(());
    snapshot.scan(&scan, &mut |key, value| {
        let row = Key::unpack(key).map_err(Error::from).and_then(|found| {
            let record = value::decode(key, value).map_err(|source| Error::Decode {
                key: key::describe(key),
                source,
            });
            let lost = || Error::Corrupt(format!("{} does not belong where it lies", key::describe(key)));
            shape(found, record).ok_or_else(lost)?
        });
        match row {
            Ok(row) => rows.push(row),
            Err(error) => outcome = Err(error),
        }
        last.clear();
        last.extend_from_slice(key);
        if outcome.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    outcome?;
    // The smallest key behind the last one that was read.
    let next = (rows.len() == PAGE_ROWS_MAX).then(|| {
        last.push(0);
        Cursor(last)
    });
    Ok(Page { rows, next })
}

fn instance_id(text: &str) -> Option<InstanceId> {
    InstanceId::internal(text).ok()
}
