//! What can be undone: registered by the code, and found in the history when the function has failed.
//!
//! Only what was recorded is undone: a step or a child that completed, a compensation that was registered. So the history says
//! what there is to undo and in which order, and the code, live or in replay, how it is done.
//!
//! In a loop one iteration counts, the last that made a checkpoint: what the iterations before it did is settled. That
//! bounds what a loop of a million iterations has to remember, and replay can go through that iteration once more.

use std::collections::BTreeMap;

use crate::engine::error::Misuse;
use crate::engine::journal::Journal;
use crate::engine::undo::Undo;
use crate::location::{Location, Segment};
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, Decided, EntryKind, Retained};

/// What undoings there are, and which iterations of loops they may come from.
#[derive(Debug, Default)]
pub(crate) struct Undoings {
    /// By the place of what they undo.
    registered: BTreeMap<Location, Undo>,
    loops: BTreeMap<Location, Iterations>,
}

/// The iterations of a loop that count.
#[derive(Debug)]
struct Iterations {
    running: Retained,
    /// The last one with a checkpoint.
    marked: Option<Retained>,
}

/// Something to undo.
#[derive(Debug)]
pub(crate) struct Undoable {
    /// Where the undoing is recorded.
    pub(crate) at: Location,
    /// How it ended, if it did.
    pub(crate) decided: Option<Decided>,
    /// What it is given.
    pub(crate) input: Payload,
    pub(crate) undo: Undo,
}

/// Something that was done and can be undone.
struct Done {
    /// Its place in the order of what was done: a compensation comes after what the code had seen when it was registered.
    place: (u64, bool, u64),
    at: Location,
    decided: Option<Decided>,
    input: Payload,
}

impl Journal {
    /// Remembers how to undo what is at a place.
    pub(crate) fn register(&mut self, location: &Location, undo: Undo) -> Result<(), Misuse> {
        let checked = self.can_be_undone(location);
        let gone = match checked {
            Ok(()) => self.undoings.registered.insert(location.clone(), undo),
            Err(_) => Some(undo),
        };
        gone.into_iter().for_each(|gone| self.bury(gone));
        checked
    }

    /// Whether there is a place for the undoing of what is at a place.
    fn can_be_undone(&mut self, location: &Location) -> Result<(), Misuse> {
        let name = self.names.index("rollback")?;
        location.child(Segment::Name(name))?;
        for (loop_at, number) in self.loops_around(location) {
            let marked = self.undoings.loops[&loop_at].marked.as_ref();
            if marked.is_none_or(|marked| marked.iteration != number) {
                let path = self.names.path(location);
                return Err(Misuse::NoCheckpoint { path });
            }
        }
        Ok(())
    }

    /// Changes how something is undone that was registered.
    pub(crate) fn registered(&mut self, location: &Location) -> Option<&mut Undo> {
        self.undoings.registered.get_mut(location)
    }

    /// An iteration of a loop begins.
    pub(crate) fn enter_iteration(&mut self, loop_at: &Location, running: Retained) {
        let marked = self.undoings.loops.remove(loop_at).and_then(|before| before.marked);
        self.undoings
            .loops
            .insert(loop_at.clone(), Iterations { running, marked });
    }

    /// What the iterations around a place do from now on can be undone, and what those before them did no longer.
    pub(crate) fn mark_iterations(&mut self, scope: &Location) {
        for (loop_at, number) in self.loops_around(scope) {
            let Some(iterations) = self.undoings.loops.get_mut(&loop_at) else {
                continue;
            };
            if iterations
                .marked
                .as_ref()
                .is_some_and(|marked| marked.iteration == number)
            {
                continue;
            }
            iterations.marked = Some(iterations.running.clone());
            let depth = loop_at.segments().len();
            let now = |at: &Location| at.segments().get(depth) == scope.segments().get(depth);
            let settled = |at: &Location| at.is_at_or_below(&loop_at) && !now(at);
            let registered = std::mem::take(&mut self.undoings.registered);
            let (gone, stays): (Vec<_>, Vec<_>) = registered.into_iter().partition(|(at, _)| settled(at));
            self.undoings.registered = stays.into_iter().collect();
            gone.into_iter().for_each(|(_, undo)| self.bury(undo));
        }
    }

    /// The iteration of a loop that can be undone.
    pub(crate) fn marked_iteration(&self, loop_at: &Location) -> Option<&Retained> {
        self.undoings.loops.get(loop_at)?.marked.as_ref()
    }

    /// Forgets the loops at and below a place that the code has left.
    pub(super) fn forget_loops(&mut self, location: &Location) {
        let below = self.undoings.loops.range(location.clone()..).map(|(at, _)| at);
        let gone: Vec<_> = below.take_while(|at| at.is_at_or_below(location)).cloned().collect();
        for at in gone {
            self.undoings.loops.remove(&at);
        }
    }

    /// Everything that was done and can be undone, the last first.
    pub(crate) fn take_undoables(&mut self) -> Vec<Undoable> {
        let mut found = Vec::new();
        for (location, undo) in std::mem::take(&mut self.undoings.registered) {
            match self.done_at(location) {
                Some(done) => found.push((done, undo)),
                None => self.bury(undo),
            }
        }
        found.sort_by_key(|(done, _)| std::cmp::Reverse(done.place));
        let undoable = |(Done { at, decided, input, .. }, undo)| Undoable {
            at,
            decided,
            input,
            undo,
        };
        found.into_iter().map(undoable).collect()
    }

    /// What was done at a place and can be undone.
    fn done_at(&mut self, location: Location) -> Option<Done> {
        let entry = self.recorded(&location)?;
        let (id, completed) = (entry.id, entry.completed);
        match entry.kind.clone() {
            EntryKind::Step(Some(Decided::Completed(input)))
            | EntryKind::Child(ChildState {
                decided: Some(Decided::Completed(input)),
                ..
            }) => {
                let name = self.names.index("rollback").expect("it was registered with that name");
                let at = location.child(Segment::Name(name));
                let at = at.expect("it was registered at a place with room below");
                let decided = match self.recorded(&at).map(|entry| &entry.kind) {
                    Some(EntryKind::Rollback(decided)) => decided.clone(),
                    _ => None,
                };
                Some(Done {
                    place: (completed?.order + 1, false, id),
                    at,
                    decided,
                    input,
                })
            }
            EntryKind::Compensation { input, seen, decided } => Some(Done {
                place: (seen, true, id),
                at: location,
                decided,
                input,
            }),
            _ => None,
        }
    }

    /// An undoing begins: it is recorded, and no longer among what is over.
    pub(crate) fn begin_undoing(&mut self, at: &Location) {
        if let Some(entry) = self.settled.remove(at) {
            self.entries.insert(at.clone(), entry);
        }
        if !self.entries.contains_key(at) {
            self.record(at, EntryKind::Rollback(None), None);
        }
    }

    /// An undoing has ended.
    pub(crate) fn end_undoing(&mut self, at: &Location, decided: Decided) {
        let kind = match self.entries.get(at).map(|entry| entry.kind.clone()) {
            Some(EntryKind::Compensation { input, seen, .. }) => EntryKind::Compensation {
                input,
                seen,
                decided: Some(decided),
            },
            _ => EntryKind::Rollback(Some(decided)),
        };
        self.record(at, kind, None);
    }

    /// The loops around a place, with the iterations that it lies in.
    fn loops_around(&self, location: &Location) -> Vec<(Location, u64)> {
        if self.undoings.loops.is_empty() {
            return Vec::new();
        }
        let segments = location.segments();
        let around = segments.iter().enumerate().filter_map(|(depth, segment)| {
            let Segment::Iteration { number, .. } = segment else {
                return None;
            };
            let at = Location::try_from(segments[..depth].to_vec()).ok()?;
            self.undoings.loops.contains_key(&at).then_some((at, *number))
        });
        around.collect()
    }
}
