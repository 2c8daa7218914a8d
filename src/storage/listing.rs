//! Reading what lies beside the namespaces: alarms, the runnable set, the index.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::ids::{InstanceId, Shard};
use crate::limits::{PAGE_BYTES_MAX, PAGE_ROWS_MAX};
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Arrival, Key};
use crate::storage::record::{Alarm, AtGate, IndexRow, Runnable, Seen, Tombstone};
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
pub struct Cursor(pub(crate) Vec<u8>);

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

    /// The next alarms of a shard, at most so many, and whether there are more: from the beginning, behind one, or
    /// behind all of a time.
    pub(crate) fn alarms_behind(
        &self,
        shard: Shard,
        behind: Option<&(Millis, Option<InstanceId>)>,
        most: usize,
    ) -> Result<(Vec<(Millis, InstanceId)>, bool)> {
        let (first, end) = key::alarms(shard);
        let start = match behind {
            None => first,
            Some((at_ms, None)) => Key::Alarm(shard, at_ms.saturating_add(1), "".into()).pack(),
            Some((at_ms, Some(instance))) => {
                let mut key = Key::Alarm(shard, *at_ms, instance.as_str().into()).pack();
                key.push(0);
                key
            }
        };
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: most,
        };
        // Time and instance are in the key, and nobody asks for more.
        let (mut alarms, mut outcome) = (Vec::new(), Ok(()));
        self.snapshot(shard)?.scan(&scan, &mut |key, _| {
            match Key::unpack(key).map_err(Error::from).and_then(|found| match found {
                Key::Alarm(_, at_ms, instance) => Ok((at_ms, instance_id(&instance).ok_or_else(|| lost(key))?)),
                _ => Err(lost(key)),
            }) {
                Ok(alarm) => alarms.push(alarm),
                Err(error) => outcome = Err(error),
            }
            if outcome.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        outcome?;
        let more = alarms.len() == most;
        Ok((alarms, more))
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
    /// The listing rows of a shard, of instances that were started before this time, oldest first, at most
    /// [`PAGE_ROWS_MAX`] of them. One that can't be read is none, and keeps nobody from the others.
    pub(crate) fn index(
        &self,
        shard: Shard,
        before_ms: Millis,
        after: Option<&Cursor>,
    ) -> Result<Page<(InstanceId, Option<IndexRow>)>> {
        let (start, _) = key::index(shard);
        let end = Key::Index(shard, before_ms, "".into()).pack();
        page_of(&*self.snapshot(shard)?, (start, end), after, |key, row| match key {
            Key::Index(_, _, instance) => Some(Ok((instance_id(&instance)?, row.ok()))),
            _ => None,
        })
    }

    /// What is left of the instances of a shard that were deleted, at most [`PAGE_ROWS_MAX`] of them.
    /// One that can't be read is none.
    pub(crate) fn tombstones(
        &self,
        shard: Shard,
        after: Option<&Cursor>,
    ) -> Result<Page<(InstanceId, Option<Tombstone>)>> {
        page_of(
            &*self.snapshot(shard)?,
            key::tombstones(shard),
            after,
            |key, row| match key {
                Key::Tombstone(_, instance) => Some(Ok((instance_id(&instance)?, row.ok()))),
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

    /// Those at a gate who may pass it: each has fewer before it than may run at once, and nobody before it waits. Those
    /// at these places count for nothing.
    pub(crate) fn may_pass(&self, gate: &str, but: &BTreeSet<Arrival>) -> Result<Vec<Stands>> {
        let mut first = Vec::new();
        self.visit_gate(gate, usize::MAX, &mut |stands| {
            if but.contains(&stands.place) {
                return true;
            }
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

    /// The place of an instance of another shard at a gate, if it was noted. However many stand there, that is one read.
    pub(crate) fn noted_place(&self, gate: &str, instance: &InstanceId) -> Result<Option<Arrival>> {
        let shard = self.shard_of_gate(gate);
        let key = Key::Placed(shard, gate.into(), instance.as_str().into()).pack();
        let Some(value) = self.snapshot(shard)?.get(&key)? else {
            return Ok(None);
        };
        match value::decode::<Seen>(&key, &value) {
            Ok(Seen { epoch, number }) => Ok(Some(Arrival { epoch, number })),
            // The place itself may be sound.
            Err(error) => {
                tracing::error!(%instance, gate, %error, "the note of a place at a gate is damaged");
                self.place_at_gate(gate, instance)
            }
        }
    }

    /// The place of an instance at a gate, if it has one, by going through all who stand there: for one that was not noted.
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
    let Key::Gate(_, _, place, instance) = Key::unpack(key)? else {
        return Err(lost(key));
    };
    let row = value::decode(key, value).map_err(|source| Error::Decode {
        key: key::describe(key),
        source,
    });
    Ok(Stands {
        place,
        instance: instance_id(&instance).ok_or_else(|| lost(key))?,
        // One whose row is damaged is let in alone: that is never too many.
        limit: or_damaged(row, AtGate { limit: 1 }).limit,
    })
}

/// Reads one page of a range. `shape` turns a key of the right family and its record into a row.
pub(super) fn page<R: Record, T>(
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
pub(super) fn page_of<R: Record, T>(
    snapshot: &dyn Snapshot,
    range: (Vec<u8>, Vec<u8>),
    after: Option<&Cursor>,
    shape: impl Fn(Key<'static>, Result<R>) -> Option<Result<T>>,
) -> Result<Page<T>> {
    page_past(snapshot, range, after, |_| None, shape)
}

/// The same without some rows: `past` says of a key where to go on behind it, if it is not wanted. What is passed over is
/// not read.
pub(super) fn page_past<R: Record, T>(
    snapshot: &dyn Snapshot,
    (start, end): (Vec<u8>, Vec<u8>),
    after: Option<&Cursor>,
    past: impl Fn(&Key<'static>) -> Option<Vec<u8>>,
    shape: impl Fn(Key<'static>, Result<R>) -> Option<Result<T>>,
) -> Result<Page<T>> {
    let mut start = after.map_or(start, |Cursor(key)| key.clone());
    let (mut rows, mut last, mut bytes) = (Vec::new(), Vec::new(), 0);
    loop {
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: PAGE_ROWS_MAX - rows.len(),
        };
        let (mut outcome, mut beyond) = (Ok(()), None);
        snapshot.scan(&scan, &mut |key, value| {
            let row = Key::unpack(key).map_err(Error::from).and_then(|found| {
                beyond = past(&found).filter(|beyond| beyond.as_slice() > key);
                if beyond.is_some() {
                    return Ok(None);
                }
                let record = value::decode(key, value).map_err(|source| Error::Decode {
                    key: key::describe(key),
                    source,
                });
                shape(found, record).ok_or_else(|| lost(key))?.map(Some)
            });
            match row {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => return ControlFlow::Break(()),
                Err(error) => outcome = Err(error),
            }
            last.clear();
            last.extend_from_slice(key);
            bytes += key.len() + value.len();
            if outcome.is_ok() && bytes < PAGE_BYTES_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        outcome?;
        match beyond {
            Some(beyond) => start = beyond,
            None => break,
        }
    }
    // The smallest key behind the last one that was read.
    let next = (rows.len() == PAGE_ROWS_MAX || bytes >= PAGE_BYTES_MAX).then(|| {
        last.push(0);
        Cursor(last)
    });
    Ok(Page { rows, next })
}

fn lost(key: &[u8]) -> Error {
    Error::Corrupt(format!("{} does not belong where it lies", key::describe(key)))
}

pub(super) fn instance_id(text: &str) -> Option<InstanceId> {
    InstanceId::internal(text).ok()
}
