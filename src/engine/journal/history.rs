//! What is recorded: changing it, leaving parts of it behind, and removing them.

use std::collections::btree_map;

use crate::engine::error::Misuse;
use crate::engine::journal::delivery::deliver;
use crate::engine::journal::{Journal, Outcome, Progress};
use crate::engine::witness::CallSite;
use crate::location::{Location, Segment};
use crate::storage::record::{Completed, Entry, EntryKind, Ran};

impl Journal {
    /// Records how an operation stands that the code has asked for. It is stored at once.
    pub(crate) fn record(&mut self, location: &Location, kind: EntryKind, completed: Option<Completed>) {
        self.put(location, kind, completed);
        self.urgent = true;
    }

    /// Records an entry that nothing waits for and that the code would come to again by itself: a loop, a join. It is
    /// stored along with the next commit, and costs none of its own.
    pub(crate) fn note(&mut self, location: &Location, kind: EntryKind) {
        if self.entries.contains_key(location) || self.has_room() {
            self.gather_note(location, kind.bytes());
            self.put(location, kind, None);
        }
    }

    /// Records a completion that is stored along with the next commit.
    pub(crate) fn note_completed(&mut self, location: &Location, kind: EntryKind, completed: Completed) {
        self.gather(kind.bytes());
        self.put(location, kind, Some(completed));
    }

    fn put(&mut self, location: &Location, kind: EntryKind, completed: Option<Completed>) {
        self.bytes += kind.bytes() as u64;
        let ran = if kind.comes_of_an_attempt() {
            self.take_ran(location)
        } else {
            None
        };
        match self.entries.entry(location.clone()) {
            btree_map::Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                self.bytes = self.bytes.saturating_sub(entry.kind.bytes() as u64);
                entry.completed = completed;
                entry.kind = kind;
                entry.ran = ran.or(entry.ran);
            }
            btree_map::Entry::Vacant(vacant) => {
                self.last_id += 1;
                let id = self.last_id;
                vacant.insert(Entry {
                    id,
                    completed,
                    kind,
                    ran,
                });
                if let Some(op) = self.ops.get_mut(location).filter(|op| !op.recorded) {
                    op.recorded = true;
                    self.unrecorded -= usize::from(matches!(op.progress, Progress::Waiting(_)));
                }
            }
        }
        self.dirty.push(location.clone());
    }

    /// An attempt has succeeded. That is recorded together with what it came to.
    pub(crate) fn succeeded(&mut self, location: Location, ran: Ran) {
        self.ran.insert(location, ran);
    }

    /// The attempt that succeeded at a place and is not recorded yet.
    pub(crate) fn take_ran(&mut self, location: &Location) -> Option<Ran> {
        self.ran.remove(location)
    }

    /// Entries in all.
    pub(crate) fn entries_recorded(&self) -> u64 {
        (self.entries.len() + self.settled.len()) as u64
    }

    /// Where something was recorded since the last call, each place once.
    pub(crate) fn take_dirty(&mut self) -> Vec<Location> {
        self.gather_anew();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort();
        dirty.dedup();
        dirty
    }

    /// What is recorded at a place, if it is not gone again.
    pub(crate) fn recorded(&self, location: &Location) -> Option<&Entry> {
        self.entries.get(location).or_else(|| self.settled.get(location))
    }

    /// The run is over: nothing of it is recorded any more.
    pub(crate) fn forget_history(&mut self) {
        self.entries.clear();
        self.settled.clear();
        self.ran.clear();
        self.dirty.clear();
        self.trimmed.clear();
        self.forgotten.clear();
        self.is_over = true;
    }

    /// Accounts for what is recorded at and below a name and whose code is gone.
    ///
    /// Waits for messages have numbered places. If nothing is recorded at the name itself, the next of these is
    /// stepped over, recorded or not: so an instance that never had it counts as one that did. As often as it is said,
    /// so many of them.
    pub(crate) fn remove(&mut self, scope: &Location, name: &str, call_site: CallSite) -> Result<(), Misuse> {
        let location = self.locate(scope, name)?;
        let again = self.ops.get(&location).is_some_and(|op| op.kind == "removed");
        if !again {
            self.refuse_second(&location, "removed")?;
        }
        let named = self.entries.range(location.clone()..).next();
        if named.is_some_and(|(at, _)| at.is_at_or_below(&location)) {
            self.settle(&location);
        } else {
            let numbered = self.locate_next(scope, name)?;
            self.settle(&numbered);
        }
        if !again {
            self.add_over(&location, "removed", call_site);
        }
        Ok(())
    }

    /// Leaves the iterations of a loop behind that come before `end`, but for one that is gone through again.
    pub(crate) fn leave_iterations(&mut self, loop_at: &Location, name: u32, end: u64, except: Option<u64>) {
        let depth = loop_at.segments().len();
        let over = |at: &&Location| {
            let segment = at.segments().get(depth);
            matches!(segment, Some(Segment::Iteration { name: of, number }) if *of == name && *number < end && except != Some(*number))
        };
        let below = self.entries.range(loop_at.clone()..).map(|(at, _)| at);
        let gone = below.take_while(|at| at.is_at_or_below(loop_at)).filter(over);
        let gone = gone.cloned().collect();
        self.put_away(gone);
    }

    /// Removes the history at and below a location for good.
    pub(crate) fn trim(&mut self, location: &Location) {
        self.leave(location);
        let below = self.settled.range(location.clone()..);
        let gone: Vec<_> = below
            .map(|(at, _)| at)
            .take_while(|at| at.is_at_or_below(location))
            .cloned()
            .collect();
        // What was never stored does not have to be removed: a loop may go round a million times before a commit.
        let mut stored = false;
        for at in gone {
            if let Some(entry) = self.settled.remove(&at) {
                self.bytes = self.bytes.saturating_sub(entry.kind.bytes() as u64);
                self.gathered.forget(&at);
                stored |= self.gathered.is_stored(entry.id);
                self.forgotten.push(entry.id);
            }
        }
        if stored {
            self.trimmed.push(location.clone());
        }
    }

    /// An iteration of a loop is over. Whatever is recorded of it and was not asked for was for other code.
    pub(crate) fn leave_iteration(&mut self, loop_at: &Location, iteration: &Location, number: u64) {
        if self.unasked > 0 {
            let below = self.entries.range(iteration.clone()..).map(|(at, _)| at);
            let mut below = below.take_while(|at| at.is_at_or_below(iteration));
            let unasked = |at: &&Location| !self.is_known(at) && !self.gates.is_in_doubt(at);
            if let Some(unasked) = below.find(unasked).cloned() {
                self.diverge_unasked(&unasked);
            }
        }
        self.leave(iteration);
        self.left.insert(loop_at.clone(), number + 1);
    }

    /// Leaves everything at and below a location behind. What is still asked for there is
    /// a future that outlived its iteration, which replay would not know; it ends with an error.
    fn leave(&mut self, location: &Location) {
        let known = self.ops.range(location.clone()..).map(|(at, _)| at);
        let known: Vec<_> = known.take_while(|at| at.is_at_or_below(location)).cloned().collect();
        for at in known {
            let Some(mut op) = self.ops.remove(&at) else { continue };
            let outlived = Outcome::Ended(Misuse::OutlivedIteration.into());
            if deliver(&mut op, outlived) {
                self.waits_no_more(op.recorded);
                self.bury_fresh(|asked| *asked == at);
                self.dropped.push(at.clone());
                self.close_child(&at);
            } else if let Progress::Delivered(outcome) = op.progress {
                self.leave_unread(&at, outcome);
            }
            // With its operation gone the entry would count as unasked, so it goes first.
            if let Some(entry) = self.entries.remove(&at) {
                self.settled.insert(at, entry);
            }
        }
        self.settle(location);
        for counted in [&mut self.counters, &mut self.drawn] {
            let below = counted.range(location.clone()..).map(|(at, _)| at);
            let below: Vec<_> = below.take_while(|at| at.is_at_or_below(location)).cloned().collect();
            for at in below {
                counted.remove(&at);
            }
        }
        self.forget_loops(location);
        let left = self.left.range(location.clone()..).map(|(at, _)| at);
        let left: Vec<_> = left.take_while(|at| at.is_at_or_below(location)).cloned().collect();
        for at in left {
            self.left.remove(&at);
        }
    }

    /// Puts away what is recorded at and below a location.
    fn settle(&mut self, location: &Location) {
        let below = self.entries.range(location.clone()..).map(|(at, _)| at);
        let gone = below.take_while(|at| at.is_at_or_below(location)).cloned().collect();
        self.put_away(gone);
    }

    /// Puts entries away that have nothing more to say. Their completions are passed over when it is their turn.
    pub(super) fn put_away(&mut self, gone: Vec<Location>) {
        for at in gone {
            self.unasked -= usize::from(!self.is_known(&at));
            // Nobody can hold it any more: a crash has come between the dropping and the closing.
            self.close_child(&at);
            if let Some(entry) = self.entries.remove(&at) {
                self.settled.insert(at, entry);
            }
        }
    }
}
