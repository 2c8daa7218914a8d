//! One batch of a journal as it lies there.
//!
//! ```text
//! 1  items (4 bytes)  number (8 bytes)                                        a batch begins
//! 2  kind  compression  keyspace (8)  key length (2)  length (4)  length (4)  key value an item
//! 3  checksum (8)  "FJL" 3                                                    a batch ends
//! 4  keyspace (8)                                                             a keyspace is cleared
//! ```
//!
//! The checksum is over the items. What was allocated and never written is zeros.

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::VALUE_BYTES_MAX;

pub(super) const BEGIN: u8 = 1;
pub(super) const ITEM: u8 = 2;
pub(super) const END: u8 = 3;
const CLEAR: u8 = 4;
pub(super) const MARK: [u8; 4] = *b"FJL\x03";

/// The highest kind of an item that fjall puts into a journal.
const KIND_MAX: u8 = 2;

/// A batch that has a beginning, items of possible lengths, and an end.
pub(super) struct Frame<'a> {
    pub(super) number: u64,
    pub(super) bytes: usize,
    /// How many items it says it has, and how many it has.
    count: (u32, u32),
    /// Whether there is a value in it that was compressed.
    pub(super) compressed: bool,
    items: &'a [u8],
    checksum: u64,
}

impl<'a> Frame<'a> {
    /// Reads the frame that `journal` begins with. Takes from the budget for what it looks at, and none is left if it
    /// gave up.
    pub(super) fn read(journal: &'a [u8], budget: &mut usize) -> Option<Self> {
        let mut rest = Rest(journal);
        let [BEGIN] = rest.take()? else {
            return None;
        };
        let count = u32::from_le_bytes(rest.take()?);
        let number = u64::from_le_bytes(rest.take()?);
        let items = rest.0;
        let (mut found, mut compressed) = (0, false);
        loop {
            let length = items.len() - rest.0.len();
            *budget = budget.saturating_sub(1);
            if *budget == 0 {
                return None;
            }
            match rest.take()? {
                [ITEM] => compressed |= rest.take_item()?.compressed,
                [CLEAR] => drop(rest.take::<8>()?),
                [END] => {
                    let checksum = u64::from_le_bytes(rest.take()?);
                    return (rest.take()? == MARK).then_some(Self {
                        number,
                        bytes: journal.len() - rest.0.len(),
                        count: (count, found),
                        compressed,
                        items: &items[..length],
                        checksum,
                    });
                }
                _ => return None,
            }
            found += 1;
        }
    }

    /// The keys and values of its items, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = Rest(self.items);
        std::iter::from_fn(move || {
            loop {
                match rest.take()? {
                    [ITEM] => return rest.take_item().map(|item| (item.key, item.value)),
                    _ => drop(rest.take::<8>()?),
                }
            }
        })
    }

    pub(super) fn is_counted(&self) -> bool {
        self.count.0 == self.count.1
    }

    pub(super) fn is_right(&self) -> bool {
        self.is_counted() && xxh3_64(self.items) == self.checksum
    }
}

/// One row that a batch sets or deletes.
struct Item<'a> {
    key: &'a [u8],
    value: &'a [u8],
    compressed: bool,
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// What is behind the tag of an item, if it can be one.
    fn take_item(&mut self) -> Option<Item<'a>> {
        let [kind, compression] = self.take()?;
        let _keyspace: [u8; 8] = self.take()?;
        let key = usize::from(u16::from_le_bytes(self.take()?));
        let value = u32::from_le_bytes(self.take()?);
        let stored = u32::from_le_bytes(self.take()?);
        // fjall would ask for gigabytes for a wrong length. That the two are the same it asserts in debug builds,
        // while it holds a lock that it needs to clean up after a panic, and the process would end there.
        let compressed = compression != 0;
        let longest = value.max(stored) as usize;
        if kind > KIND_MAX || (value != stored && !compressed) || longest > VALUE_BYTES_MAX {
            return None;
        }
        let (key, rest) = self.0.split_at_checked(key)?;
        let (value, rest) = rest.split_at_checked(stored as usize)?;
        self.0 = rest;
        Some(Item { key, value, compressed })
    }
}
