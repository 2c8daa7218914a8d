//! How much memory reading takes: a length that lies must not be believed.

use std::alloc::System;
use std::sync::{Mutex, PoisonError};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Reading may allocate this much for every byte that it is given. The dearest byte is an empty text in a list: one
/// byte on disk, a `String` in memory, and a vector that doubles.
const BYTES_PER_BYTE: usize = 128;

/// And this much however little it is given: the text of an error, the first block of a buffer.
const BYTES_AT_LEAST: usize = 16 * 1024;

/// The counters are those of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `read` on an input of `length` bytes.
///
/// # Panics
///
/// If it allocates far more than the input could be worth.
pub fn bounded<T>(length: usize, read: impl FnOnce() -> T) -> T {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let region = Region::new(ALLOCATOR);
    let outcome = read();
    let allocated = region.change().bytes_allocated;
    let allowed = length * BYTES_PER_BYTE + BYTES_AT_LEAST;
    assert!(
        allocated <= allowed,
        "reading {length} bytes allocated {allocated} bytes, {allowed} are allowed"
    );
    outcome
}
