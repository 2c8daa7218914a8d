//! The moments of a kill that lie in no code of ours: between what an engine writes and its sync, between the sync and
//! the answer, and the same while a store is being opened.
//!
//! A preloaded library ends the process there (`xtask/power-loss/shim/src/trap.rs`). They are dealt in turn and not by
//! chance, so that a few cycles have them all.

use crate::chance::Chance;

/// Which of the two sides of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Written, and not synced.
    Before,
    /// Synced, and nobody was told: neither whoever called, nor the code that waits for what was stored.
    After,
}

/// What the process is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Opening,
    Work,
}

/// A sync at which a process is to die.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtSync {
    pub(crate) side: Side,
    pub(crate) stage: Stage,
    number: u64,
}

/// All of them.
pub(crate) const SPOTS: [(Side, Stage); 4] = [
    (Side::Before, Stage::Work),
    (Side::After, Stage::Work),
    (Side::Before, Stage::Opening),
    (Side::After, Stage::Opening),
];

/// More syncs than any opening takes: those of a store that is made are the most.
const OPENING_MAX: u64 = 60;

impl AtSync {
    /// The spot whose turn it is, at a sync of chance.
    pub(crate) fn in_turn(turn: u64, chance: &mut Chance) -> Self {
        let (side, stage) = SPOTS[(turn % SPOTS.len() as u64) as usize];
        let number = match stage {
            // Whatever is opened takes a lease, which is synced, and the first sync of a process is there at the latest.
            Stage::Opening => 1,
            Stage::Work => OPENING_MAX + chance.below(200),
        };
        Self { side, stage, number }
    }

    /// As the library is told.
    pub(crate) fn trap(self, below: &std::path::Path) -> String {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        format!("{side}:{}:{}", self.number, below.display())
    }

    /// What is wrong with a death that was to be here, if anything is.
    pub(crate) fn judge(self, opened: bool) -> Result<(), String> {
        match self.stage {
            Stage::Opening if opened => Err("it was to die while it opened the store".into()),
            Stage::Work if !opened => Err("it was to die at work, and died while it opened the store".into()),
            Stage::Opening | Stage::Work => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few cycles are enough for every spot.
    #[test]
    fn every_spot_has_its_turn() {
        let mut chance = Chance::new(1);
        let dealt: Vec<_> = (0..4).map(|turn| AtSync::in_turn(turn, &mut chance)).collect();
        for (side, stage) in SPOTS {
            assert!(dealt.iter().any(|at| (at.side, at.stage) == (side, stage)));
        }
        let trap = dealt[3].trap(std::path::Path::new("/root"));
        assert_eq!(trap, "after:1:/root");
    }
}
