//! Which steps of an instance had attempts running.

use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;

use crate::location::Location;

/// As many as there is room for in a slot.
const WORDS: usize = 3;

/// How many bytes it takes.
pub(super) const BYTES: usize = WORDS * 8;

/// How many places it has.
pub(super) const PLACES: usize = WORDS * 64;

/// Steps whose attempts had begun. A slot has no room for their locations, so each has one of a number of places: two
/// steps may share one, and then both had begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight([u64; WORDS]);

impl InFlight {
    /// All steps.
    #[cfg(feature = "testing")]
    pub(crate) fn all() -> Self {
        Self([u64::MAX; WORDS])
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the attempt at this step had begun.
    pub(crate) fn has(&self, location: &Location) -> bool {
        let place = place_of(location);
        self.0[place / 64] & (1 << (place % 64)) != 0
    }

    pub(super) fn add(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (word, to) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().unwrap_or_default());
        }
        Self(words)
    }
}

/// The place of a step.
pub(super) fn place_of(location: &Location) -> usize {
    let mut hasher = Xxh3::new();
    location.hash(&mut hasher);
    (hasher.finish() % PLACES as u64) as usize
}
