//! Defects of an engine that lets the wrong ones write, or at the wrong place, or too much.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bent::{Defect, Inner, Leases, Twist, defect, let_others_run};
use crate::ids::Shard;
use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{CommitError, EngineLimits, Group, Lease, Owner, Position};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        defect::<Unfenced>(&[
            "fencing::a_second_owner_fences_the_first",
            "fencing::an_owner_fences_itself",
            "fencing::an_epoch_that_was_never_given_is_fenced",
            "atomicity::a_fenced_group_writes_nothing",
            "reopen::an_old_lease_stays_fenced",
        ]),
        defect::<TakesWhatIsFree>(&["fencing::a_shard_that_nobody_took_is_fenced"]),
        defect::<EpochOnly>(&["fencing::another_owner_with_the_same_epoch_is_fenced"]),
        defect::<OwnerOnly>(&["fencing::an_owner_fences_itself", "reopen::an_old_lease_stays_fenced"]),
        defect::<NewerPasses>(&["fencing::an_epoch_that_was_never_given_is_fenced"]),
        defect::<ConflictFirst>(&["fencing::a_fence_comes_before_a_conflict"]),
        defect::<CheckedTooEarly>(&["concurrency::a_takeover_under_fire_loses_nothing"]),
        defect::<OpenPosition>(&["fencing::position_is_fenced"]),
        defect::<TakeoverFromZero>(&[
            "fencing::a_takeover_goes_on_where_it_was",
            "concurrency::a_takeover_under_fire_loses_nothing",
            "reopen::the_position_is_there",
        ]),
        defect::<OneEpoch>(&[
            "concurrency::epochs_are_given_once",
            "reopen::an_epoch_without_commits_is_there",
        ]),
        defect::<OneFence>(&[
            "shards::positions_are_apart",
            "shards::fences_are_apart",
            "shards::every_number_works",
            "concurrency::shards_commit_side_by_side",
        ]),
        defect::<Standing>(&[
            "sequence::commits_move_the_position",
            "sequence::a_group_is_not_applied_twice",
        ]),
        defect::<AnyPosition>(&[
            "sequence::a_wrong_sequence_is_a_conflict",
            "sequence::a_group_is_not_applied_twice",
        ]),
        defect::<AnyChain>(&["sequence::a_wrong_chain_is_a_conflict"]),
        defect::<NothingToDo>(&["sequence::an_empty_batch_moves_the_position"]),
        defect::<SmallLimits>(&[
            "bounds::limits_are_enough",
            "bounds::the_longest_key_fits",
            "bounds::the_largest_value_fits",
            "bounds::the_largest_group_fits",
        ]),
        defect::<LimitsExcluded>(&[
            "bounds::the_longest_key_fits",
            "bounds::the_largest_value_fits",
            "bounds::the_largest_group_fits",
        ]),
        defect::<KeysOfPieces>(&["large::the_largest_value_behind_the_longest_key"]),
    ]
}

/// A defect that commits under another lease, or at another place, than the group says.
macro_rules! lets_pass {
    ($(#[$doc:meta])* $name:ident, $change:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        struct $name(Leases);

        impl Twist for $name {
            fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
                self.0.acquire(inner, shard, owner)
            }

            fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
                let change: fn(&Inner, Lease, &mut Group<'_>) = $change;
                let mut group = Group { ..*group };
                change(inner, self.0.in_force(&group.lease), &mut group);
                inner.commit(&group)
            }
        }
    };
}

lets_pass! {
    /// Everybody writes.
    Unfenced, |_, held, group| group.lease = held
}

lets_pass! {
    /// The owner is not looked at.
    EpochOnly, |_, held, group| if group.lease.epoch == held.epoch { group.lease = held }
}

lets_pass! {
    /// The epoch is not looked at.
    OwnerOnly, |_, held, group| if group.lease.owner == held.owner { group.lease = held }
}

lets_pass! {
    /// Any epoch that is not older will do.
    NewerPasses, |_, held, group| if group.lease.epoch >= held.epoch { group.lease = held }
}

lets_pass! {
    /// The position is not looked at.
    AnyPosition, |inner, held, group| group.expected = inner.position(&held).unwrap()
}

lets_pass! {
    /// The chain is not looked at.
    AnyChain, |inner, held, group| {
        let found = inner.position(&held).unwrap();
        if found.sequence == group.expected.sequence {
            group.expected = found;
        }
    }
}

lets_pass! {
    /// The position does not move.
    Standing, |_, _, group| group.next = group.expected
}

/// A shard that nobody holds is taken by the first commit.
#[derive(Default)]
struct TakesWhatIsFree;

impl Twist for TakesWhatIsFree {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        if let Err(CommitError::Fenced { held: 0, .. }) = inner.position(&group.lease) {
            let lease = inner.acquire(group.lease.shard, group.lease.owner)?;
            return inner.commit(&Group { lease, ..*group });
        }
        inner.commit(group)
    }
}

/// The position is looked at first.
#[derive(Default)]
struct ConflictFirst(Leases);

impl Twist for ConflictFirst {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.0.acquire(inner, shard, owner)
    }

    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let found = inner.position(&self.0.in_force(&group.lease))?;
        if found != group.expected {
            let (expected, found) = (group.expected.sequence, found.sequence);
            return Err(CommitError::Conflict { expected, found });
        }
        inner.commit(group)
    }
}

/// The fence is looked at before, and not in, the action that writes.
#[derive(Default)]
struct CheckedTooEarly(Leases, AtomicU64);

impl Twist for CheckedTooEarly {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let lease = self.0.acquire(inner, shard, owner)?;
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(lease)
    }

    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        inner.position(&group.lease)?;
        // So that the defect shows whichever way the threads are scheduled.
        if group.expected.sequence >= 3 {
            let before = self.1.load(Ordering::SeqCst);
            let_others_run(|| self.1.load(Ordering::SeqCst) > before);
        }
        inner.commit(&Group {
            lease: self.0.in_force(&group.lease),
            ..*group
        })
    }
}

/// The position is told to everybody.
#[derive(Default)]
struct OpenPosition(Leases);

impl Twist for OpenPosition {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.0.acquire(inner, shard, owner)
    }

    fn position(&self, inner: &Inner, lease: &Lease) -> Result<Position, CommitError> {
        inner.position(&self.0.in_force(lease))
    }
}

/// A new lease does not tell how far the shard has got.
#[derive(Default)]
struct TakeoverFromZero;

impl Twist for TakeoverFromZero {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        Ok(Lease {
            position: Position::default(),
            ..inner.acquire(shard, owner)?
        })
    }
}

/// Whoever comes gets the epoch of the first.
#[derive(Default)]
struct OneEpoch(Mutex<Option<Lease>>);

impl Twist for OneEpoch {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let mut first = self.0.lock().unwrap();
        let lease = first.map_or_else(|| inner.acquire(shard, owner), Ok)?;
        *first = Some(lease);
        Ok(Lease { owner, ..lease })
    }
}

/// All shards are one to the fence.
#[derive(Default)]
struct OneFence;

impl Twist for OneFence {
    fn acquire(&self, inner: &Inner, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        Ok(Lease {
            shard,
            ..inner.acquire(Shard(0), owner)?
        })
    }

    fn position(&self, inner: &Inner, lease: &Lease) -> Result<Position, CommitError> {
        inner.position(&Lease {
            shard: Shard(0),
            ..*lease
        })
    }

    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        inner.commit(&Group {
            lease: Lease {
                shard: Shard(0),
                ..group.lease
            },
            ..*group
        })
    }
}

/// A commit without operations is not worth the trouble.
#[derive(Default)]
struct NothingToDo;

impl Twist for NothingToDo {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        if group.batches.iter().all(Batch::is_empty) {
            Ok(())
        } else {
            inner.commit(group)
        }
    }
}

/// Says less than it takes.
#[derive(Default)]
struct SmallLimits;

impl Twist for SmallLimits {
    fn limits(&self, inner: &Inner) -> EngineLimits {
        let limits = inner.limits();
        EngineLimits {
            key_bytes_max: limits.key_bytes_max / 2,
            value_bytes_max: limits.value_bytes_max / 2,
            group_bytes_max: limits.group_bytes_max / 2,
        }
    }
}

/// Does not take what is exactly as large as it says.
#[derive(Default)]
struct LimitsExcluded;

impl Twist for LimitsExcluded {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let limits = inner.limits();
        let bytes: usize = group.batches.iter().map(Batch::bytes).sum();
        let at_limit =
            sets(group).any(|(key, value)| key.len() == limits.key_bytes_max || value.len() == limits.value_bytes_max);
        if at_limit || bytes == limits.group_bytes_max {
            return Err(CommitError::TooLarge { bytes, max: bytes - 1 });
        }
        inner.commit(group)
    }
}

/// The keys of the pieces of a large value are longer than a key may be.
#[derive(Default)]
struct KeysOfPieces;

impl Twist for KeysOfPieces {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        let max = inner.limits().key_bytes_max;
        if sets(group).any(|(key, value)| value.len() > 100_000 && key.len() + 4 > max) {
            return Err(CommitError::TooLarge { bytes: max + 4, max });
        }
        inner.commit(group)
    }
}

/// The keys and values that a group sets.
fn sets<'a>(group: &'a Group<'_>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    group
        .batches
        .iter()
        .flat_map(Batch::operations)
        .filter_map(|operation| match operation {
            Operation::Set { key, value } => Some((key, value)),
            Operation::Delete { .. } | Operation::DeleteRange { .. } => None,
        })
}
