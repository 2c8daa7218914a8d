//! The bytes of a group as fjall keeps them: few allocations, each shared by many rows.
//!
//! fjall holds keys and values as counted slices of shared memory. Giving every row two allocations of its own costs
//! more than copying it, so the keys of a group share one, and its values another.
//!
//! The keys lie apart from the values because they are what a search in fjall's memory table looks at: packed
//! together they stay in the processor's caches, between values they do not. And both lie in the order of the keys, in
//! which they are read again when the table is written out.
//!
//! Memory that is shared is freed when the last row of it goes. All rows of a group go into the same memory table and
//! leave it together, so nothing is held longer than before.

use byteview::ByteView;

/// Shared bytes that are given out from front to back.
pub(super) struct Shared {
    bytes: ByteView,
    at: usize,
}

impl Shared {
    /// All parts, one behind the other.
    pub(super) fn of<'p>(parts: impl Iterator<Item = &'p [u8]> + Clone) -> Self {
        let mut bytes = ByteView::with_size(parts.clone().map(<[u8]>::len).sum());
        let mut room = bytes.get_mut().expect("nobody else has bytes that were just made");
        let mut at = 0;
        for part in parts {
            room[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        drop(room);
        Self { bytes, at: 0 }
    }

    /// Gives out the part that comes next, which has to be `expected`.
    pub(super) fn take(&mut self, expected: &[u8]) -> ByteView {
        let start = self.at;
        self.at += expected.len();
        let taken = self.bytes.slice(start..self.at);
        debug_assert_eq!(*taken, *expected, "parts are taken in the order in which they lie");
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_given_out_in_order() {
        let parts: [&[u8]; 4] = [b"a part that is longer than what is kept inline", b"", b"b", b"cd"];
        let mut shared = Shared::of(parts.into_iter());
        for part in parts {
            assert_eq!(*shared.take(part), *part);
        }
    }

    #[test]
    fn no_parts_are_no_bytes() {
        assert_eq!(*Shared::of([].into_iter()).take(b""), *b"");
    }
}
