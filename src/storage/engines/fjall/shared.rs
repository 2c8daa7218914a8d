//! The bytes of a group as fjall keeps them: few allocations, each shared by many rows.
//!
//! fjall holds keys and values as counted slices of shared memory. Giving every row two allocations of its own costs
//! more than copying it, so the values of one commit share one, and the keys of the whole group share another.
//!
//! The keys lie apart from the values because they are what a search in fjall's memory table looks at: packed
//! together they stay in the processor's caches, between values they do not.
//!
//! Memory that is shared is freed when the last row of it goes. All rows of a group go into the same memory table and
//! leave it together, so nothing is held longer than before.

use byteview::ByteView;

use crate::storage::batch::{Batch, Operation};

/// Shared bytes that are given out from front to back.
pub(super) struct Shared {
    bytes: ByteView,
    at: usize,
}

impl Shared {
    /// The keys that a group sets or deletes, in the order of its operations.
    pub(super) fn keys(batches: &[Batch]) -> Self {
        let keys = || {
            batches
                .iter()
                .flat_map(Batch::operations)
                .filter_map(|operation| match operation {
                    Operation::Set { key, .. } | Operation::Delete { key } => Some(key),
                    Operation::DeleteRange { .. } => None,
                })
        };
        let mut packed = Vec::with_capacity(keys().map(<[u8]>::len).sum());
        for key in keys() {
            packed.extend_from_slice(key);
        }
        Self {
            bytes: ByteView::from(packed),
            at: 0,
        }
    }

    /// Everything of one batch: the two parts of each operation, in order.
    pub(super) fn batch(batch: &Batch) -> Self {
        Self {
            bytes: ByteView::from(batch.buffer()),
            at: 0,
        }
    }

    /// Gives out what comes next, which has to be `expected`.
    pub(super) fn take(&mut self, expected: &[u8]) -> ByteView {
        let start = self.at;
        self.skip(expected);
        let taken = self.bytes.slice(start..self.at);
        debug_assert_eq!(*taken, *expected, "bytes are taken in the order in which they lie");
        taken
    }

    /// Leaves out what comes next.
    pub(super) fn skip(&mut self, expected: &[u8]) {
        self.at += expected.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_given_out_in_order() {
        let mut one = Batch::new();
        one.set(b"a key that is longer than what is kept inline", b"1");
        one.delete_range(b"b", b"c");
        one.delete(b"d");
        let mut two = Batch::new();
        two.set(b"e", b"");
        let mut keys = Shared::keys(&[one.clone(), two]);
        assert_eq!(
            *keys.take(b"a key that is longer than what is kept inline"),
            *b"a key that is longer than what is kept inline"
        );
        assert_eq!(*keys.take(b"d"), *b"d");
        assert_eq!(*keys.take(b"e"), *b"e");
        let mut values = Shared::batch(&one);
        values.skip(b"a key that is longer than what is kept inline");
        assert_eq!(*values.take(b"1"), *b"1");
        values.skip(b"b");
        values.skip(b"c");
        assert_eq!(*values.take(b"d"), *b"d");
    }
}
