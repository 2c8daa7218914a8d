//! What the operations of a group come to: one change for each key.
//!
//! The operations of a group are in order and a later one wins. Engines that apply a group in one go have no use for
//! the steps in between, and one of them (sled, whose batch is a hash map) has no order at all. So the group is
//! reduced first: every key that it touches, once, with the value it ends with or its absence.
//!
//! A range is deleted as of its place in the order: what earlier operations of the group set in it goes, what the
//! store holds in it goes, what later operations set stays.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

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

/// The changes of a group, by key.
#[derive(Debug, Default)]
pub(super) struct Net<'a> {
    changes: BTreeMap<Cow<'a, [u8]>, Option<&'a [u8]>>,
}

impl<'a> Net<'a> {
    /// The changes of all batches in order, and of the fence row behind them.
    pub(super) fn of(batches: &'a [Batch], row: &'a Row, keys: &mut KeysBetween<'_>) -> Result<Self, CommitError> {
        let mut net = Self::default();
        for operation in batches.iter().flat_map(Batch::operations) {
            match operation {
                Operation::Set { key, value } => net.change(key, Some(value)),
                Operation::Delete { key } => net.change(key, None),
                Operation::DeleteRange { start, end } => net.delete_range(start, end, keys)?,
            }
        }
        // Last, so that no operation can touch the fence.
        net.change(&row.key, Some(&row.value));
        Ok(net)
    }

    /// The changes of a lease: its row.
    pub(super) fn of_row(row: &'a Row) -> Self {
        let mut net = Self::default();
        net.change(&row.key, Some(&row.value));
        net
    }

    /// Every key that changes, in order, with its new value or `None` when it goes.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&'a [u8]>)> {
        self.changes.iter().map(|(key, value)| (key.as_ref(), *value))
    }

    fn change(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        self.changes.insert(Cow::Borrowed(key), value);
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8], keys: &mut KeysBetween<'_>) -> Result<(), CommitError> {
        if start >= end {
            return Ok(());
        }
        let range = (Bound::Included(start), Bound::Excluded(end));
        for (_, value) in self.changes.range_mut::<[u8], _>(range) {
            *value = None;
        }
        for key in keys(start, end).map_err(CommitError::Unreadable)? {
            self.changes.insert(Cow::Owned(key), None);
        }
        Ok(())
    }
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
