//! The seam for randomness. Nothing else in the crate asks the machine for a random number.

use std::fmt::Debug;

/// Where random numbers come from.
pub trait Chance: Debug + Send + Sync + 'static {
    /// A number that nobody can guess, unless this is a test.
    fn draw(&self) -> u64;
}

/// The randomness of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    /// # Panics
    ///
    /// If the machine has no randomness to give, which no supported system does once it has booted.
    fn draw(&self) -> u64 {
        getrandom::u64().expect("the operating system has randomness to give")
    }
}
