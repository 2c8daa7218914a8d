//! Delivering: one thing at a time, in the order of the commits.

use std::task::Waker;

use crate::clock::Millis;
use crate::engine::journal::{Journal, Op, Outcome, Progress};
use crate::location::Location;
use crate::storage::record::{EntryKind, Failure};

impl Journal {
    /// These completions are durable now, in this order.
    pub(crate) fn committed(&mut self, completions: Vec<Location>) {
        self.durable += completions.len() as u64;
        self.undelivered.extend(completions);
    }

    /// Delivers the next completion, or lets loops go on that wait for this place. Tells whether there was anything.
    pub(crate) fn deliver_next(&mut self) -> bool {
        if self.end_next() {
            return true;
        }
        let next = self.undelivered.front().and_then(|next| self.entries[next].completed);
        // What lies between is gone: iterations that were left behind.
        let place = next.map_or(self.durable, |completed| completed.order);
        let mark = self.marks.iter().map(|(mark, _)| *mark).min();
        if let Some(mark) = mark.filter(|mark| *mark <= place) {
            self.pass(mark);
            return true;
        }
        let Some(location) = self.undelivered.pop_front() else {
            self.pass(place);
            return false;
        };
        self.deliver(&location);
        self.pass(place + 1);
        true
    }

    /// Completions before this place are past.
    fn pass(&mut self, place: u64) {
        self.seen = self.seen.max(place);
        let seen = self.seen;
        let reached = |(mark, waker): &mut (u64, Waker)| {
            if *mark <= seen {
                waker.wake_by_ref();
            }
            *mark > seen
        };
        self.marks.retain_mut(reached);
    }

    /// Whether replay has come to a place; if not, whom to wake when it has.
    pub(crate) fn has_come_to(&mut self, place: u64, at_ms: Millis, waker: &Waker) -> bool {
        if place > self.seen {
            let known = |(mark, known): &(u64, Waker)| *mark == place && known.will_wake(waker);
            if !self.marks.iter().any(known) {
                self.marks.push((place, waker.clone()));
            }
            return false;
        }
        self.now_ms = self.now_ms.max(at_ms);
        true
    }

    /// Delivers a completion. The code must have asked for it by now; what it has dropped since is passed over.
    fn deliver(&mut self, location: &Location) {
        let entry = &self.entries[location];
        if let Some(completed) = entry.completed {
            self.now_ms = self.now_ms.max(completed.at_ms);
        }
        let outcome = Outcome::Entry(entry.kind.clone());
        match (&entry.kind, self.ops.get_mut(location)) {
            (EntryKind::Cancel { .. } | EntryKind::Deadline, _) => self.end(location),
            (_, Some(op)) => self.waiting -= usize::from(deliver(op, outcome)),
            (_, None) => self.diverge_unasked(location),
        }
    }

    /// Everything outside a shield ends.
    fn end(&mut self, location: &Location) {
        let failure = match &self.entries[location].kind {
            EntryKind::Cancel { reason } => Failure::cancelled(reason),
            _ => Failure::deadline(),
        };
        let ends = |op: &Op| !op.shielded && matches!(op.progress, Progress::Waiting(_));
        let waiting = self.ops.iter().filter(|(_, op)| ends(op));
        self.ending.extend(waiting.map(|(at, _)| at.clone()));
        let ops = &self.ops;
        self.fresh.retain(|(at, _)| ops.get(at).is_none_or(|op| op.shielded));
        self.ended = Some(failure);
    }

    /// Ends the next operation that is about to end, in the order of their paths. Tells whether there was one.
    fn end_next(&mut self) -> bool {
        let next = (0..self.ending.len()).min_by_key(|at| self.names.path(&self.ending[*at]));
        let (Some(next), Some(failure)) = (next, &self.ended) else {
            return false;
        };
        let location = self.ending.swap_remove(next);
        let outcome = Outcome::Ended(failure.clone());
        if self.ops.get_mut(&location).is_some_and(|op| deliver(op, outcome)) {
            self.waiting -= 1;
            self.dropped.push(location);
        }
        true
    }
}

/// Gives an operation its outcome, if it waits for one. Tells whether it did.
pub(super) fn deliver(op: &mut Op, outcome: Outcome) -> bool {
    let Progress::Waiting(waker) = &mut op.progress else {
        return false;
    };
    let waker = waker.take();
    op.progress = Progress::Delivered(outcome);
    if let Some(waker) = waker {
        waker.wake();
    }
    true
}
