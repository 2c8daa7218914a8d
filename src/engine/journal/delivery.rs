//! Delivering: one thing at a time, in the order of the commits.

use std::collections::BTreeSet;
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

    /// Delivers the next completion, or lets loops go on that wait for this place. Tells whether there was anything that
    /// does not have to wait for a commit.
    pub(crate) fn deliver_next(&mut self) -> bool {
        if self.end_next() {
            return true;
        }
        if self.stops() {
            return false;
        }
        self.pass_over_gates(self.seen);
        self.pass_over_what_is_left();
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

    /// Passes over completions that have nobody to be delivered to: iterations that were left behind.
    fn pass_over_what_is_left(&mut self) {
        while let Some(next) = self.undelivered.front()
            && !self.entries.contains_key(next)
        {
            self.undelivered.pop_front();
        }
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
        let ends = match &entry.kind {
            EntryKind::Cancel { reason } => return self.end(Failure::cancelled(reason)),
            EntryKind::Deadline => return self.end(Failure::deadline()),
            EntryKind::Child(child) => child.cascades(),
            _ => None,
        };
        match self.ops.get_mut(location) {
            Some(op) => {
                let recorded = op.recorded;
                if !matches!(op.progress, Progress::Waiting(_)) {
                    return self.leave_unread(location, outcome);
                }
                deliver(op, outcome);
                self.waits_no_more(recorded);
                if let Some(failure) = ends {
                    self.end(failure.at(self.names.path(location)));
                }
            }
            None => self.diverge_unasked(location),
        }
    }

    /// An operation ends when its turn comes.
    pub(super) fn end_soon(&mut self, location: &Location) {
        self.ending.insert((self.names.path(location), location.clone()));
    }

    /// Everything outside a shield ends.
    fn end(&mut self, failure: Failure) {
        // The first of a cancellation, a deadline and a child that takes its parent along is what ends it.
        if self.ended.is_some() {
            return;
        }
        let ends = |op: &Op| !op.shielded && matches!(op.progress, Progress::Waiting(_));
        let waiting = self.ops.iter().filter(|(_, op)| ends(op));
        let waiting: Vec<_> = waiting.map(|(at, _)| at.clone()).collect();
        for at in waiting {
            self.end_soon(&at);
        }
        let ending = self.fresh.iter().map(|(at, _)| at);
        let ending = ending.filter(|at| self.ops.get(at).is_some_and(|op| !op.shielded));
        let ending: BTreeSet<_> = ending.cloned().collect();
        self.bury_fresh(|at| ending.contains(at));
        self.ended = Some(failure);
    }

    /// Whether replay can tell this moment from every other one by how many completions it has seen.
    pub(crate) fn is_told_by_place(&self) -> bool {
        self.ended_at != Some(self.seen)
    }

    /// Ends the next operation that is about to end, in the order of their paths. Tells whether there was one.
    fn end_next(&mut self) -> bool {
        let Some(failure) = &self.ended else {
            return false;
        };
        let Some((_, location)) = self.ending.pop_first() else {
            return false;
        };
        let outcome = Outcome::Ended(failure.clone());
        self.ended_at = Some(self.seen);
        let op = self.ops.get_mut(&location);
        if let Some(recorded) = op.and_then(|op| deliver(op, outcome).then_some(op.recorded)) {
            self.told_of_end = true;
            self.waits_no_more(recorded);
            self.close_child(&location);
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
