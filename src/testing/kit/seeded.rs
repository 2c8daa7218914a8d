//! Chance that follows from a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::chance::Chance;

/// Numbers that look random and are the same every time.
#[derive(Debug)]
pub(super) struct Seeded {
    seed: u64,
    drawn: AtomicU64,
    /// What is drawn from instead, and how much of it was.
    settled: Mutex<Option<(u64, u64)>>,
}

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: AtomicU64::new(0),
            settled: Mutex::new(None),
        }
    }

    /// From here on, what is drawn follows from this text and not from how much was drawn before: a process that died
    /// meanwhile has drawn more.
    pub(super) fn settle(&self, text: &str) {
        let seed = xxh3_64_with_seed(text.as_bytes(), self.seed);
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = Some((seed, 0));
    }

    /// Goes on drawing as before.
    pub(super) fn release(&self) {
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Chance for Seeded {
    fn draw(&self) -> u64 {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let (seed, number) = match &mut *settled {
            Some((seed, drawn)) => {
                *drawn += 1;
                (*seed, *drawn)
            }
            None => (self.seed, self.drawn.fetch_add(1, Ordering::Relaxed)),
        };
        xxh3_64_with_seed(&number.to_be_bytes(), seed)
    }
}
