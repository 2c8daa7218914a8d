//! What the operations of a group come to: one change for each key.
//!
//! The operations of a group are in order and a later one wins. Engines that apply a group in one go have no use for
//! the steps in between, and one of them (sled, whose batch is a hash map) has no order at all. So the group is
//! reduced first: every key that it touches, once, with the value it ends with or its absence. The keys come in order:
//! an engine finds the places of neighbours faster than places here and there.
//!
//! A range is deleted as of its place in the order: what earlier operations of the group set in it goes, what the
//! store holds in it goes, what later operations set stays.

use std::borrow::Cow;

use crate::limits::{GROUP_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::{CommitError, EngineLimits, ReadError};
use crate::storage::fence::Row;

/// What the embedded engines take: exactly what the system allows.
pub(super) const LIMITS: EngineLimits = EngineLimits {
    key_bytes_max: KEY_BYTES_MAX,
    value_bytes_max: VALUE_BYTES_MAX,
    group_bytes_max: GROUP_BYTES_MAX,
};

/// Lists the keys that the store holds from a start (included) to an end (excluded).
pub(super) type KeysBetween<'k> = dyn FnMut(&[u8], &[u8]) -> Result<Vec<Vec<u8>>, ReadError> + 'k;

/// Bytes of a key that are compared before the rest of it is looked up. They reach into the id of the instance.
const HEAD_BYTES: usize = 16;

/// The changes of a group, each key once, in the order of the keys.
#[derive(Debug, Default)]
pub(super) struct Net<'a> {
    changes: Vec<Change<'a>>,
    /// The changes that count, in order.
    order: Vec<Place>,
}

/// A key, and its new value if it does not go.
type Change<'a> = (Cow<'a, [u8]>, Option<&'a [u8]>);

/// Which change it is, behind the first bytes of its key as a number in the same order.
type Place = (u128, usize);

impl<'a> Net<'a> {
    /// The changes of all batches in order, and of the fence row behind them.
    pub(super) fn of(batches: &'a [Batch], row: &'a Row, keys: &mut KeysBetween<'_>) -> Result<Self, CommitError> {
        let count = batches.iter().map(Batch::len).sum::<usize>() + 1;
        let mut changes = Vec::with_capacity(count);
        for operation in batches.iter().flat_map(Batch::operations) {
            match operation {
                Operation::Set { key, value } => changes.push((Cow::Borrowed(key), Some(value))),
                Operation::Delete { key } => changes.push((Cow::Borrowed(key), None)),
                Operation::DeleteRange { start, end } => delete_range(&mut changes, start, end, keys)?,
            }
        }
        // Last, so that no operation can touch the fence.
        changes.push((Cow::Borrowed(&row.key), Some(&row.value)));
        Ok(Self::in_order(changes))
    }

    /// The changes of a lease: its row.
    pub(super) fn of_row(row: &'a Row) -> Self {
        Self::in_order(vec![(Cow::Borrowed(&row.key), Some(&row.value))])
    }

    /// Every key that changes, in order, with its new value or `None` when it goes.
    pub(super) fn changes(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&'a [u8]>)> + Clone {
        self.order.iter().map(|(_, at)| {
            let (key, value) = &self.changes[*at];
            (key.as_ref(), *value)
        })
    }

    /// Sorts what happened by key. Of what happened to one key the last counts.
    fn in_order(changes: Vec<Change<'a>>) -> Self {
        let key = |place: &Place| changes[place.1].0.as_ref();
        let places = changes.iter().enumerate();
        let mut order: Vec<Place> = places.map(|(at, (key, _))| (head(key), at)).collect();
        order.sort_unstable_by(|one, other| {
            let rest = || key(one).cmp(key(other)).then(one.1.cmp(&other.1));
            one.0.cmp(&other.0).then_with(rest)
        });
        order.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0 && key(later) == key(earlier);
            if same {
                *earlier = *later;
            }
            same
        });
        Self { changes, order }
    }
}

/// Everything in the range goes: what the group itself has set so far, and what the store holds.
fn delete_range<'a>(
    changes: &mut Vec<Change<'a>>,
    start: &[u8],
    end: &[u8],
    keys: &mut KeysBetween<'_>,
) -> Result<(), CommitError> {
    if start >= end {
        return Ok(());
    }
    let inside = |key: &[u8]| start <= key && key < end;
    for (_, value) in changes.iter_mut().filter(|(key, _)| inside(key)) {
        *value = None;
    }
    let stored = keys(start, end).map_err(CommitError::Unreadable)?;
    changes.extend(stored.into_iter().map(|key| (Cow::Owned(key), None)));
    Ok(())
}

/// The first bytes of a key, as a number in the same order.
fn head(key: &[u8]) -> u128 {
    let mut head = [0; HEAD_BYTES];
    let length = key.len().min(HEAD_BYTES);
    head[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(fill: impl FnOnce(&mut Batch), stored: &[&[u8]]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut batch = Batch::new();
        fill(&mut batch);
        let batches = [batch];
        let row = Row {
            key: b"~".to_vec(),
            value: b"fence".to_vec(),
        };
        let mut keys = |start: &[u8], end: &[u8]| {
            Ok(stored
                .iter()
                .filter(|key| start <= **key && **key < end)
                .map(|key| key.to_vec())
                .collect())
        };
        let net = Net::of(&batches, &row, &mut keys).unwrap();
        net.changes()
            .filter(|(key, _)| *key != b"~")
            .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
            .collect()
    }

    #[test]
    fn the_last_change_of_a_key_wins() {
        let found = changes(
            |batch| {
                batch.set(b"a", b"1");
                batch.set(b"a", b"2");
                batch.set(b"b", b"1");
                batch.delete(b"b");
                batch.delete(b"c");
                batch.set(b"c", b"");
            },
            &[],
        );
        let expected = [
            (b"a".to_vec(), Some(b"2".to_vec())),
            (b"b".to_vec(), None),
            (b"c".to_vec(), Some(Vec::new())),
        ];
        assert_eq!(found, expected);
    }

    /// Most comparisons look at the first sixteen bytes alone.
    #[test]
    fn keys_come_in_order_whether_they_differ_soon_or_late() {
        let keys: [&[u8]; 7] = [
            b"",
            b"the same sixtee",
            b"the same sixtee\0",
            b"the same sixteen",
            b"the same sixteen\0",
            b"the same sixteen bytes, a",
            b"the same sixteen bytes, b",
        ];
        let found = changes(
            |batch| {
                for key in keys.iter().rev() {
                    batch.set(key, key);
                }
            },
            &[],
        );
        let expected = keys.map(|key| (key.to_vec(), Some(key.to_vec())));
        assert_eq!(found, expected);
    }

    /// Sorting does not mix up what happened to one key.
    #[test]
    fn the_last_of_very_many_changes_wins() {
        let found = changes(
            |batch| {
                for value in 0..=255_u8 {
                    batch.set(b"a", &[value]);
                    batch.set(b"a key that is longer than sixteen bytes", &[value]);
                    batch.delete(b"b");
                }
            },
            &[],
        );
        let expected = [
            (b"a".to_vec(), Some(vec![255])),
            (b"a key that is longer than sixteen bytes".to_vec(), Some(vec![255])),
            (b"b".to_vec(), None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_range_takes_what_came_before_and_leaves_what_comes_after() {
        let found = changes(
            |batch| {
                batch.set(b"b", b"before");
                batch.delete_range(b"a", b"d");
                batch.set(b"c", b"after");
                batch.delete_range(b"x", b"a");
            },
            &[b"a", b"c", b"d", b"x"],
        );
        let expected = [
            (b"a".to_vec(), None),
            (b"b".to_vec(), None),
            (b"c".to_vec(), Some(b"after".to_vec())),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn no_operation_touches_the_fence() {
        let mut batch = Batch::new();
        batch.set(b"~", b"forged");
        batch.delete_range(b"", b"\xff");
        let batches = [batch];
        let row = Row {
            key: b"~".to_vec(),
            value: b"fence".to_vec(),
        };
        let net = Net::of(&batches, &row, &mut |_, _| Ok(vec![b"~".to_vec()])).unwrap();
        assert_eq!(
            net.changes().collect::<Vec<_>>(),
            [(b"~".as_slice(), Some(b"fence".as_slice()))]
        );
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let check = |fill: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::new();
            fill(&mut batch);
            LIMITS.check(&[batch])
        };
        let (key, value) = (vec![1; KEY_BYTES_MAX + 1], vec![1; VALUE_BYTES_MAX + 1]);
        assert!(check(&|batch| batch.set(&key[1..], &value[1..])).is_ok());
        let too_large = |fill: &dyn Fn(&mut Batch)| assert!(matches!(check(fill), Err(CommitError::TooLarge { .. })));
        too_large(&|batch| batch.set(&key, b""));
        too_large(&|batch| batch.set(b"", &value));
        too_large(&|batch| batch.delete(&key));
        too_large(&|batch| batch.delete_range(b"", &key));
        too_large(&|batch| (0..3).for_each(|_| batch.set(b"a", &value[1..])));
    }
}
