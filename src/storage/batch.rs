//! Operations on keys, encoded once.
//!
//! A batch is two allocations however many operations it holds: all keys and values lie one behind the other in one
//! buffer, and the operations are offsets into it. Engines read it where it lies.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Set a key to a value.
    Set {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Remove a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Remove every key from `start` (included) to `end` (excluded).
    DeleteRange {
        /// The smallest key that goes.
        start: &'a [u8],
        /// The first key that stays.
        end: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Set,
    Delete,
    DeleteRange,
}

/// Where an operation lies in the buffer: its first part from `start`, its second from `middle` to `end`.
#[derive(Debug, Clone, Copy)]
struct Span {
    kind: Kind,
    start: u32,
    middle: u32,
    end: u32,
}

/// Operations in order. A later one wins over an earlier one on the same key.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Batch {
    /// An empty batch with room for a usual commit.
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(1024),
            spans: Vec::with_capacity(8),
        }
    }

    /// Sets a key to a value.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        self.set_with(
            |bytes| bytes.extend_from_slice(key),
            |_, bytes| bytes.extend_from_slice(value),
        );
    }

    /// Sets a key to a value, both written straight into the batch's buffer. The value's writer is shown the key.
    pub(crate) fn set_with(&mut self, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(KeyAt, &mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let middle = self.bytes.len();
        value(KeyAt { start, end: middle }, &mut self.bytes);
        self.push(Kind::Set, start, middle);
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.delete_with(|bytes| bytes.extend_from_slice(key));
    }

    /// Removes a key that is written straight into the batch's buffer.
    pub(crate) fn delete_with(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        self.push(Kind::Delete, start, self.bytes.len());
    }

    /// Removes every key from `start` (included) to `end` (excluded).
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(start);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(end);
        self.push(Kind::DeleteRange, at, middle);
    }

    /// The operations, in order.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = Operation<'_>> {
        self.spans.iter().map(|span| self.operation(*span))
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that fit without a new allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Removes all operations behind the first `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        if let Some(first) = self.spans.get(length) {
            self.bytes.truncate(first.start as usize);
            self.spans.truncate(length);
        }
    }

    /// Removes all operations and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// The chain hash behind this batch, when `before` is the one in front of it.
    pub(crate) fn chain(&self, before: u64) -> u64 {
        xxh3_64_with_seed(&self.bytes, before)
    }

    fn operation(&self, span: Span) -> Operation<'_> {
        let first = &self.bytes[span.start as usize..span.middle as usize];
        let second = &self.bytes[span.middle as usize..span.end as usize];
        match span.kind {
            Kind::Set => Operation::Set {
                key: first,
                value: second,
            },
            Kind::Delete => Operation::Delete { key: first },
            Kind::DeleteRange => Operation::DeleteRange {
                start: first,
                end: second,
            },
        }
    }

    fn push(&mut self, kind: Kind, start: usize, middle: usize) {
        let offset = |at: usize| u32::try_from(at).expect("a commit is bounded far below 4 GiB");
        self.spans.push(Span {
            kind,
            start: offset(start),
            middle: offset(middle),
            end: offset(self.bytes.len()),
        });
    }
}

/// Where the key of an operation lies in the buffer that its value is being written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyAt {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = Batch::new();
        batch.set(b"a", b"1");
        batch.delete(b"");
        batch.delete_range(b"c", b"d");
        batch.set(b"e", b"");
        let operations: Vec<_> = batch.operations().collect();
        assert_eq!(
            operations,
            [
                Operation::Set { key: b"a", value: b"1" },
                Operation::Delete { key: b"" },
                Operation::DeleteRange { start: b"c", end: b"d" },
                Operation::Set { key: b"e", value: b"" },
            ]
        );
    }

    #[test]
    fn what_is_behind_can_be_taken_off() {
        let mut batch = Batch::new();
        batch.set(b"a", b"1");
        let before = batch.clone();
        batch.set(b"b", b"2");
        batch.delete(b"c");
        batch.truncate(5);
        assert_eq!(batch.len(), 3);
        batch.truncate(1);
        assert!(batch.operations().eq(before.operations()));
        assert_eq!(batch.bytes(), before.bytes());
    }

    #[test]
    fn the_chain_depends_on_the_past_and_on_the_bytes() {
        let mut one = Batch::new();
        one.set(b"a", b"1");
        let mut two = Batch::new();
        two.set(b"a", b"2");
        assert_ne!(one.chain(0), two.chain(0));
        assert_ne!(one.chain(0), one.chain(1));
        assert_eq!(one.chain(7), one.clone().chain(7));
    }
}
