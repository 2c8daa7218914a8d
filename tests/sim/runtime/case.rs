//! What a seed decides: callers and what they do, lives of the machine and what goes wrong in them.
//!
//! It is data, so that a case that fails can be made smaller.

use super::client::{self, Act};
use super::machine::Odds;
use crate::chance::Chance;

/// Everything that a simulation depends on.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What is drawn on the way is drawn from here.
    pub(crate) seed: u64,
    pub(crate) shards: u16,
    /// What each caller does, in this order.
    pub(crate) clients: Vec<Vec<Act>>,
    /// The last one is calm: nothing fails, nobody calls, and everything has to end.
    pub(crate) lives: Vec<Life>,
}

/// One life of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    /// Nobody runs before it for so long.
    pub(crate) off_ms: u64,
    pub(crate) length_ms: u64,
    pub(crate) ends: Ends,
    pub(crate) odds: Odds,
    pub(crate) limits: Limits,
}

/// How a life ends, if the machine does not die at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Killed,
    Stopped,
    Finished,
}

/// Limits that are often tiny.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) idle_ms: u64,
    pub(crate) residents: usize,
    pub(crate) attempts: usize,
    pub(crate) inbox: usize,
}

impl Limits {
    pub(crate) const WIDE: Self = Self {
        idle_ms: 10_000,
        residents: 10_000,
        attempts: 1_000,
        inbox: 10_000,
    };

    /// Whether so few have a place in memory that those who are in it keep others waiting.
    pub(crate) fn is_crowded(&self) -> bool {
        self.residents < Self::WIDE.residents
    }
}

impl Case {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let instances = 1 + chance.below(4) as usize;
        let clients = 1 + chance.below(3);
        let odds = Odds::draw(&mut chance);
        let lives = 1 + chance.below(6);
        Self {
            seed: chance.draw(),
            shards: 1 + chance.below(2) as u16 * 2,
            clients: (1..=clients)
                .map(|number| client::draw(number, instances, &mut chance))
                .collect(),
            lives: (0..=lives)
                .map(|life| Life::draw(&mut chance, odds, life == lives))
                .collect(),
        }
    }
}

impl Life {
    fn draw(chance: &mut Chance, odds: Odds, calm: bool) -> Self {
        let limits = Limits {
            idle_ms: [0, 10, 1_000, 10_000][chance.below(4) as usize],
            residents: [1, 2, 10_000][chance.below(3) as usize],
            attempts: [1, 2, 1_000][chance.below(3) as usize],
            inbox: if calm || !chance.once_in(6) { 10_000 } else { 3 },
        };
        Self {
            seed: chance.draw(),
            off_ms: match chance.below(6) {
                0 => chance.below(10_000),
                1 => chance.below(300_000_000),
                _ => 0,
            },
            length_ms: match chance.below(3) {
                0 => chance.below(3_000),
                1 => chance.below(600_000),
                _ => chance.below(400_000_000),
            },
            ends: match chance.below(3) {
                _ if calm => Ends::Finished,
                0 => Ends::Stopped,
                _ => Ends::Killed,
            },
            odds: if calm { Odds::default() } else { odds },
            limits,
        }
    }
}
