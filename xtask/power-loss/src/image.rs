//! The content of one file: taking effects back and letting them happen again.

use std::ops::Range;

use crate::{chance::Chance, record::Event};

/// The unit that a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// What the power loss did to one unsynced effect on a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Undone,
    /// Only these ranges of the file reached the disk.
    Torn(Vec<Range<u64>>),
}

impl Fate {
    /// Tears a write of `bytes` at `offset` along the file's sectors: a proper
    /// prefix, or a proper subset. A write within one sector cannot tear.
    pub(crate) fn tear(offset: u64, bytes: u64, chance: &mut Chance) -> Self {
        let sectors = sectors(offset, bytes);
        if sectors.len() < 2 {
            return if chance.coin() { Self::Kept } else { Self::Undone };
        }
        if chance.coin() {
            let count = 1 + chance.below(sectors.len() as u64 - 1);
            let end = sectors[count as usize - 1].end;
            return Self::Torn(std::iter::once(offset..end).collect());
        }
        let lost = chance.below(sectors.len() as u64) as usize;
        let held = (lost + 1 + chance.below(sectors.len() as u64 - 1) as usize) % sectors.len();
        let survives = |&(index, _): &(usize, _)| index == held || (index != lost && chance.coin());
        Self::Torn(
            sectors
                .into_iter()
                .enumerate()
                .filter(survives)
                .map(|(_, s)| s)
                .collect(),
        )
    }
}

fn sectors(offset: u64, bytes: u64) -> Vec<Range<u64>> {
    let end = offset + bytes;
    let first = offset / SECTOR_BYTES * SECTOR_BYTES;
    (first..end)
        .step_by(SECTOR_BYTES as usize)
        .map(|start| start.max(offset)..(start + SECTOR_BYTES).min(end))
        .collect()
}

/// Takes an effect back, whether it happened whole, in part or not at all.
pub(crate) fn undo(image: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Write {
            offset,
            old_len,
            old,
            new,
            ..
        } => {
            image.resize(*old_len as usize, 0);
            let start = image.len().min(*offset as usize);
            let end = image.len().min(*offset as usize + new.len());
            image[start..end].fill(0);
            put(image, *offset, old);
        }
        Event::Resize {
            old_len, new_len, tail, ..
        } => {
            image.truncate(*new_len as usize);
            image.resize(*old_len as usize, 0);
            put(image, *new_len, tail);
        }
        Event::Entries(_) | Event::Outcome { .. } | Event::Synced { .. } => {}
    }
}

/// Lets an effect happen again as far as it went (`done`) and as fate has it.
pub(crate) fn redo(image: &mut Vec<u8>, event: &Event, done: Option<u64>, fate: &Fate) {
    match event {
        Event::Write { offset, new, .. } => {
            let new = &new[..done.map_or(new.len(), |done| done as usize)];
            let whole = *offset..*offset + new.len() as u64;
            let ranges = match fate {
                Fate::Kept => std::slice::from_ref(&whole),
                Fate::Undone => &[],
                Fate::Torn(ranges) => ranges,
            };
            for range in ranges {
                let bytes = &new[(range.start - offset) as usize..(range.end - offset) as usize];
                put(image, range.start, bytes);
            }
        }
        Event::Resize { new_len, .. } if *fate == Fate::Kept && done != Some(0) => {
            image.resize(*new_len as usize, 0);
        }
        Event::Resize { .. } => {}
        Event::Entries(_) | Event::Outcome { .. } | Event::Synced { .. } => {}
    }
}

/// Writes as a file does: a gap before `offset` becomes zeros.
fn put(image: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let range = offset as usize..offset as usize + bytes.len();
    if image.len() < range.end {
        image.resize(range.end, 0);
    }
    image[range].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(image: &[u8], offset: u64, new: &[u8]) -> Event {
        let from = image.len().min(offset as usize);
        let to = image.len().min(offset as usize + new.len());
        let (old_len, old) = (image.len() as u64, image[from..to].to_vec());
        Event::Write {
            file: 1,
            offset,
            old_len,
            old,
            new: new.to_vec(),
        }
    }

    /// Random overlapping writes and resizes, each perhaps half done when
    /// the process died, always lead back to where they began.
    #[test]
    fn undoing_in_reverse_restores_the_base() {
        for seed in 0..300 {
            let mut chance = Chance::new(seed);
            let base: Vec<u8> = (0..chance.below(3000)).map(|_| chance.below(256) as u8).collect();
            let mut image = base.clone();
            let mut events = Vec::new();
            for _ in 0..chance.below(12) {
                let length = chance.below(4000);
                let event = if chance.below(4) == 0 {
                    let tail = image.get(length as usize..).unwrap_or_default().to_vec();
                    let old_len = image.len() as u64;
                    Event::Resize {
                        file: 1,
                        old_len,
                        new_len: length,
                        tail,
                    }
                } else {
                    write(
                        &image,
                        chance.below(4000),
                        &vec![chance.below(256) as u8; length as usize],
                    )
                };
                redo(&mut image, &event, None, &Fate::Kept);
                events.push(event);
            }
            events.iter().rev().for_each(|event| undo(&mut image, event));
            assert_eq!(image, base, "seed {seed}");
        }
    }

    #[test]
    fn a_tear_keeps_some_whole_sectors_and_loses_some() {
        let mut chance = Chance::new(1);
        for _ in 0..500 {
            let (offset, bytes) = (chance.below(2000), 600 + chance.below(3000));
            let Fate::Torn(ranges) = Fate::tear(offset, bytes, &mut chance) else {
                panic!("a write of two sectors or more tears");
            };
            let kept: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert!(0 < kept && kept < bytes);
            for edge in ranges.iter().flat_map(|range| [range.start, range.end]) {
                assert!(edge % SECTOR_BYTES == 0 || edge == offset || edge == offset + bytes);
            }
        }
    }

    #[test]
    fn a_lost_append_shrinks_and_a_survivor_behind_it_leaves_zeros() {
        let (first, second) = (write(b"ab", 2, b"cd"), write(b"abcd", 4, b"ef"));
        let mut image = b"ab".to_vec();
        redo(&mut image, &first, None, &Fate::Undone);
        assert_eq!(image, b"ab");
        redo(&mut image, &second, None, &Fate::Kept);
        assert_eq!(image, b"ab\0\0ef");
        redo(&mut image, &first, Some(1), &Fate::Kept);
        assert_eq!(image, b"abc\0ef", "a short write counts as far as it went");
    }
}
