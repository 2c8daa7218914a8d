//! Defects of an engine that does something else than it was told.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bent::{Defect, Inner, Leases, Twist, batch_of, behind, defect, let_others_run, put};
use crate::ids::Shard;
use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{CommitError, Group, Lease, Owner, ReadError, Snapshot};
use crate::storage::key;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        defect::<ZerosTrimmed>(&["order::a_prefix_comes_first", "order::bytes_decide"]),
        defect::<TextValues>(&["order::what_is_written_is_read"]),
        defect::<EmptyIsAbsent>(&["operations::an_empty_value_is_present"]),
        defect::<DeletesBelow>(&[
            "operations::delete_removes_one_key",
            "large::neighbours_of_a_large_value_stay",
        ]),
        defect::<RangeTakesEnd>(&["operations::delete_range_is_half_open"]),
        defect::<RangeTurned>(&["operations::an_empty_range_deletes_nothing"]),
        defect::<RangesLast>(&[
            "operations::set_after_delete_range_stays",
            "operations::the_last_operation_wins",
        ]),
        defect::<RangesFirst>(&[
            "operations::delete_range_after_set_removes",
            "model::equals_a_sorted_map",
        ]),
        defect::<FirstWins>(&["operations::the_last_operation_wins", "model::equals_a_sorted_map"]),
        defect::<FirstBatchWins>(&[
            "operations::the_last_batch_wins",
            "operations::delete_range_after_set_removes",
        ]),
        defect::<RangesCrossShards>(&["shards::rows_are_apart"]),
        defect::<ValuesCut>(&["large::values_of_every_size", "bounds::the_largest_value_fits"]),
        defect::<TailsStay>(&["large::large_and_small_take_turns", "reopen::every_byte_is_there"]),
        defect::<PiecesBeside>(&["large::neighbours_of_a_large_value_stay"]),
        defect::<WritesThenRefuses>(&[
            "atomicity::a_conflict_writes_nothing",
            "atomicity::a_fenced_group_writes_nothing",
            "atomicity::a_group_with_a_large_key_writes_nothing",
            "atomicity::a_group_with_a_large_value_writes_nothing",
            "atomicity::a_group_that_is_too_large_writes_nothing",
            "reopen::what_was_refused_is_not_there",
        ]),
        defect::<ByHalves>(&["concurrency::no_commit_shows_by_half"]),
    ]
}

/// A defect that changes operations one by one.
macro_rules! each_operation {
    ($(#[$doc:meta])* $name:ident, $change:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        struct $name;

        impl Twist for $name {
            fn batch(&self, inner: &Inner, batch: &Batch) -> Batch {
                let change: fn(&Inner, &mut Batch, Operation<'_>) = $change;
                let mut changed = Batch::new();
                batch.operations().for_each(|operation| change(inner, &mut changed, operation));
                changed
            }
        }
    };
}

/// A defect that changes the order of the operations of a batch.
macro_rules! reordered {
    ($(#[$doc:meta])* $name:ident, $rank:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        struct $name;

        impl Twist for $name {
            fn batch(&self, _: &Inner, batch: &Batch) -> Batch {
                let rank: fn(usize, &Operation<'_>) -> isize = $rank;
                let mut operations: Vec<_> = batch.operations().enumerate().collect();
                operations.sort_by_key(|(at, operation)| rank(*at, operation));
                batch_of(operations.into_iter().map(|(_, operation)| operation))
            }
        }
    };
}

each_operation! {
    /// Zeros at the end of a key are padding.
    ZerosTrimmed, |_, batch, operation| match operation {
        Operation::Set { key, value } => {
            let end = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            batch.set(&key[..end], value);
        }
        other => put(batch, other),
    }
}

each_operation! {
    /// A value ends at its first zero.
    TextValues, |_, batch, operation| match operation {
        Operation::Set { key, value } => {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            batch.set(key, &value[..end]);
        }
        other => put(batch, other),
    }
}

each_operation! {
    /// To set nothing is to delete.
    EmptyIsAbsent, |_, batch, operation| match operation {
        Operation::Set { key, value: b"" } => batch.delete(key),
        other => put(batch, other),
    }
}

each_operation! {
    /// A delete takes everything with it that begins with the key.
    DeletesBelow, |_, batch, operation| match operation {
        Operation::Delete { key } => {
            let (start, end) = key::below(key);
            batch.delete_range(&start, &end);
        }
        other => put(batch, other),
    }
}

each_operation! {
    /// The end of a range goes too.
    RangeTakesEnd, |_, batch, operation| match operation {
        Operation::DeleteRange { start, end } => batch.delete_range(start, &behind(end)),
        other => put(batch, other),
    }
}

each_operation! {
    /// A range that ends before it starts is turned around.
    RangeTurned, |_, batch, operation| match operation {
        Operation::DeleteRange { start, end } => batch.delete_range(start.min(end), start.max(end)),
        other => put(batch, other),
    }
}

each_operation! {
    /// A range goes on to the end of the store.
    RangesCrossShards, |_, batch, operation| match operation {
        Operation::DeleteRange { start, .. } => batch.delete_range(start, &[0xff]),
        other => put(batch, other),
    }
}

each_operation! {
    /// A length of sixteen bits.
    ValuesCut, |_, batch, operation| match operation {
        Operation::Set { key, value } => batch.set(key, &value[..value.len().min(0xffff)]),
        other => put(batch, other),
    }
}

each_operation! {
    /// A shorter value leaves the end of the longer one before it.
    TailsStay, |inner, batch, operation| match operation {
        Operation::Set { key, value } => {
            let old = inner.get(Shard(0), key).unwrap().unwrap_or_default();
            batch.set(key, &[value, old.get(value.len()..).unwrap_or_default()].concat());
        }
        other => put(batch, other),
    }
}

each_operation! {
    /// Pieces of a large value lie right behind its key, and all of them go when it changes.
    PiecesBeside, |_, batch, operation| match operation {
        Operation::Set { key, value } if value.len() > 100_000 => {
            batch.delete_range(&behind(key), &[key, &[1]].concat());
            batch.set(key, value);
        }
        other => put(batch, other),
    }
}

reordered! {
    /// Ranges are deleted when everything else is done.
    RangesLast, |_, operation| isize::from(matches!(operation, Operation::DeleteRange { .. }))
}

reordered! {
    /// Ranges are deleted before anything else is done.
    RangesFirst, |_, operation| -isize::from(matches!(operation, Operation::DeleteRange { .. }))
}

reordered! {
    /// The first operation on a key wins.
    FirstWins, |at, _| -isize::try_from(at).unwrap()
}

/// The first batch of a group wins.
#[derive(Default)]
struct FirstBatchWins;

impl Twist for FirstBatchWins {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let batches: Vec<Batch> = group.batches.iter().rev().cloned().collect();
        inner.commit(&Group {
            batches: &batches,
            ..*group
        })
    }
}

/// What stands in front of the reason for a refusal is written.
#[derive(Default)]
struct WritesThenRefuses(Leases);

impl Twist for WritesThenRefuses {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.0.acquire(inner, shard, owner)
    }

    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        inner.commit(group).inspect_err(|_| {
            let lease = self.0.in_force(&group.lease);
            let expected = inner.position(&lease).unwrap();
            let _ = inner.commit(&Group {
                lease,
                expected,
                next: expected,
                batches: &group.batches[..1],
            });
        })
    }
}

/// A commit is done in two steps, and a reader can come between them.
#[derive(Default)]
struct ByHalves(AtomicU64);

impl Twist for ByHalves {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let operations: Vec<_> = group.batches.iter().flat_map(Batch::operations).collect();
        let (first, second) = operations.split_at(operations.len() / 2);
        let [first, second] = [first, second].map(|half| batch_of(half.iter().copied()));
        inner.commit(&Group {
            next: group.expected,
            batches: &[first],
            ..*group
        })?;
        let before = self.0.load(Ordering::SeqCst);
        let_others_run(|| self.0.load(Ordering::SeqCst) > before);
        inner.commit(&Group {
            batches: &[second],
            ..*group
        })
    }

    fn snapshot(&self, inner: &Inner, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let view = inner.snapshot(shard)?;
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(view)
    }
}
