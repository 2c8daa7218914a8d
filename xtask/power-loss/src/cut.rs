//! The power loss itself: what is left of a directory after it.
//!
//! Per file, all unsynced effects are undone in reverse, which gives the
//! durable base; the survivors then happen again in order. Names are treated
//! alike. So overlapping effects need no special case.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use crate::{
    Dirs, Error,
    chance::Chance,
    image::{self, Fate},
    record::{Change, Event, FileId, Record},
    syncs::Syncs,
    tree::Tree,
};

/// What one cut did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Unsynced writes and resizes that survived whole.
    pub kept: usize,
    /// Unsynced writes and resizes that were lost.
    pub undone: usize,
    /// Unsynced writes of which some sectors survived.
    pub torn: usize,
    /// Files with unsynced writes or resizes.
    pub files: usize,
    /// Unsynced changes of directory entries that survived.
    pub entries_kept: usize,
    /// Unsynced changes of directory entries that were lost.
    pub entries_undone: usize,
}

/// The manner of one cut: independent choices alone would make "everything
/// lost" and "everything up to here" unlikely as soon as there is much to lose.
enum Manner {
    /// Nothing unsynced survives.
    Harsh,
    /// The first so many survive, the next one may tear, the rest is lost.
    Ordered(u64),
    /// Each effect has its own luck.
    Scattered,
}

pub(crate) struct Cut<'a> {
    records: &'a [Record],
    outcomes: HashMap<u64, u64>,
    syncs: Syncs,
    actual: &'a Tree,
    dirs: Dirs,
    chance: Chance,
    report: Report,
}

impl<'a> Cut<'a> {
    pub(crate) fn new(records: &'a [Record], actual: &'a Tree, seed: u64, dirs: Dirs) -> Self {
        let outcomes = records.iter().filter_map(|record| match record.event {
            Event::Outcome { of, done } => Some((of, done)),
            _ => None,
        });
        let outcomes = outcomes.collect();
        let (syncs, chance) = (Syncs::of(records), Chance::new(seed));
        Self {
            records,
            outcomes,
            syncs,
            actual,
            dirs,
            chance,
            report: Report::default(),
        }
    }

    /// Builds what is left in the new directory `out`.
    pub(crate) fn write_out(mut self, out: &Path) -> Result<Report, Error> {
        let tree = self.names()?;
        let images = self.contents()?;
        tree.write_out(&images, out)?;
        Ok(self.report)
    }

    fn names(&mut self) -> Result<Tree, Error> {
        let all: Vec<(u64, &[Change])> = self.records.iter().filter_map(entries).collect();
        let happened = |(seq, _): &(u64, _)| self.outcomes.get(seq) != Some(&0);
        let all: Vec<_> = all.into_iter().filter(happened).collect();
        self.check_names(&all)?;
        let mut tree = self.actual.clone();
        all.iter().rev().for_each(|(_, changes)| tree.undo(changes));
        let (durable, open): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(seq, changes)| self.syncs.cover_entries(changes, *seq, self.dirs));
        let survivors = match self.dirs {
            Dirs::Lenient => self.chance.below(open.len() as u64 + 1) as usize,
            Dirs::Strict => 0,
        };
        self.report.entries_kept = survivors;
        self.report.entries_undone = open.len() - survivors;
        // In lenient mode everything open is younger than everything durable.
        for (_, changes) in durable.iter().chain(&open[..survivors]) {
            tree.redo(changes);
        }
        Ok(tree)
    }

    /// After all recorded changes a name must mean what the disk says. If not,
    /// something bypassed the shim, and the cut would be fiction.
    fn check_names(&self, all: &[(u64, &[Change])]) -> Result<(), Error> {
        let mut expected = BTreeMap::new();
        for (_, changes) in all {
            for change in *changes {
                expected.insert((change.dir, change.name.clone()), change.after);
            }
        }
        for (name, after) in expected {
            if self.actual.get(&name) != after {
                let name = String::from_utf8_lossy(&name.1).into_owned();
                return Err(Error::Unseen(format!("the directory entry {name}")));
            }
        }
        Ok(())
    }

    fn contents(&mut self) -> Result<HashMap<FileId, Vec<u8>>, Error> {
        let mut open: BTreeMap<FileId, Vec<(&Record, Fate)>> = BTreeMap::new();
        let unsynced: Vec<_> = self.records.iter().filter(|record| self.is_open(record)).collect();
        let manner = match self.chance.below(4) {
            0 => Manner::Harsh,
            1 => Manner::Ordered(self.chance.below(unsynced.len() as u64 + 1)),
            _ => Manner::Scattered,
        };
        for (index, record) in (0..).zip(unsynced) {
            let fate = self.fate(record, index, &manner);
            match fate {
                Fate::Kept => self.report.kept += 1,
                Fate::Undone => self.report.undone += 1,
                Fate::Torn(_) => self.report.torn += 1,
            }
            if let Event::Write { file, .. } | Event::Resize { file, .. } = record.event {
                open.entry(file).or_default().push((record, fate));
            }
        }
        self.report.files = open.len();
        let mut images = HashMap::new();
        for (file, effects) in open {
            // Without a name nobody can look; a removed file stays lost.
            if let Some(path) = self.actual.place(file) {
                images.insert(file, self.image(path, &effects)?);
            }
        }
        Ok(images)
    }

    fn image(&self, path: &Path, effects: &[(&Record, Fate)]) -> Result<Vec<u8>, Error> {
        let present = fs::read(path)?;
        let mut base = present.clone();
        effects
            .iter()
            .rev()
            .for_each(|(record, _)| image::undo(&mut base, &record.event));
        let replay = |keep_all: bool| {
            let mut image = base.clone();
            for (record, fate) in effects {
                let fate = if keep_all { &Fate::Kept } else { fate };
                image::redo(&mut image, &record.event, self.done(record), fate);
            }
            image
        };
        if replay(true) != present {
            return Err(Error::Unseen(format!("the content of {}", path.display())));
        }
        Ok(replay(false))
    }

    fn fate(&mut self, record: &Record, index: u64, manner: &Manner) -> Fate {
        let luck = match manner {
            Manner::Harsh => 0,
            Manner::Ordered(survivors) if index < *survivors => 1,
            Manner::Ordered(survivors) if index > *survivors => 0,
            Manner::Ordered(_) => 2,
            Manner::Scattered => self.chance.below(3),
        };
        match (luck, &record.event) {
            (0, _) => Fate::Undone,
            (1, _) => Fate::Kept,
            (_, Event::Write { offset, new, .. }) => {
                let bytes = self.done(record).unwrap_or(new.len() as u64);
                Fate::tear(*offset, bytes, &mut self.chance)
            }
            _ => {
                if self.chance.coin() {
                    Fate::Kept
                } else {
                    Fate::Undone
                }
            }
        }
    }

    fn done(&self, record: &Record) -> Option<u64> {
        self.outcomes.get(&record.seq).copied()
    }

    fn is_open(&self, record: &Record) -> bool {
        match record.event {
            Event::Write { file, .. } | Event::Resize { file, .. } => {
                self.done(record) != Some(0) && !self.syncs.cover_data(file, record.seq)
            }
            Event::Entries(_) | Event::Outcome { .. } | Event::Synced { .. } => false,
        }
    }
}

fn entries(record: &Record) -> Option<(u64, &[Change])> {
    match &record.event {
        Event::Entries(changes) => Some((record.seq, changes)),
        _ => None,
    }
}
