//! Asking: what the futures of the verbs do with the journal.

use std::task::Waker;

use crate::engine::error::Misuse;
use crate::engine::journal::{Journal, Op, Outcome, Progress};
use crate::engine::request::{Request, Until};
use crate::engine::witness::{Asked, CallSite};
use crate::location::Location;
use crate::storage::payload::Payload;

impl Journal {
    /// Asks for an operation.
    pub(crate) fn ask(
        &mut self,
        location: &Location,
        mut request: Request,
        shielded: bool,
        call_site: CallSite,
    ) -> Result<(), Misuse> {
        let asked = self.ask_unless_known(location, &mut request, shielded, call_site);
        match asked {
            Ok(true) => {
                self.begun += usize::from(request.has_row() && !self.entries.contains_key(location));
                self.fresh.push((location.clone(), request));
            }
            // What is recorded needs no code, and what is refused gets none.
            Ok(false) | Err(_) => self.bury(request),
        }
        asked.map(drop)
    }

    /// The same, and tells whether it has to be begun.
    fn ask_unless_known(
        &mut self,
        location: &Location,
        request: &mut Request,
        shielded: bool,
        call_site: CallSite,
    ) -> Result<bool, Misuse> {
        let kind = request.kind();
        self.refuse_second(location, kind)?;
        if self.witness.is_some() {
            let (detail, payload) = request.detail();
            self.show(location, kind, detail, payload, call_site);
        }
        self.last_asked = Some(location.clone());
        if let Some(undo) = request.take_undo() {
            self.register(location, undo)?;
        }
        let recorded = self.entries.contains_key(location);
        if !recorded && request.has_row() {
            self.has_room_at_once(0)?;
        }
        let progress = Progress::Waiting(None);
        let has_room = recorded || self.has_room();
        let mut begins = false;
        match recorded.then(|| &self.entries[location]) {
            Some(entry) if entry.kind.name() != kind => self.diverge_at(location, kind, Some(call_site)),
            Some(entry) if !request.takes(entry) => {
                let asked = format!("{kind}, {}", request.detail().0);
                self.diverge_at(location, &asked, Some(call_site));
            }
            Some(entry) if entry.completed.is_some() => {}
            None if self.ended.is_some() && !shielded => self.end_soon(location),
            None if !has_room => {}
            _ => begins = true,
        }
        let op = Op {
            kind,
            shielded,
            progress,
            recorded,
            call_site,
        };
        self.add(location, op);
        Ok(begins)
    }

    /// Gives an operation that was asked for before a time at which it gives up.
    pub(crate) fn limit(&mut self, location: &Location, until: Until) {
        let waits = |op: &Op| matches!(op.progress, Progress::Waiting(_));
        let ends = (self.names.path(location), location.clone());
        if self.ops.get(location).is_some_and(waits) && !self.ending.contains(&ends) {
            self.fresh.push((location.clone(), Request::Limit(until)));
        }
    }

    pub(super) fn refuse_second(&self, location: &Location, second: &'static str) -> Result<(), Misuse> {
        let Some(first) = self.ops.get(location) else {
            return Ok(());
        };
        Err(Misuse::NameTwice {
            path: self.names.path(location),
            first: first.kind,
            second,
        })
    }

    /// Takes the outcome of an operation if it was delivered, or remembers whom to wake.
    pub(crate) fn take(&mut self, location: &Location, waker: &Waker) -> Option<Outcome> {
        let Some(op) = self.ops.get_mut(location) else {
            return Some(Outcome::Ended(Misuse::OutlivedIteration.into()));
        };
        if let Progress::Waiting(known) = &mut op.progress {
            match known {
                Some(known) => known.clone_from(waker),
                None => *known = Some(waker.clone()),
            }
            return None;
        }
        match std::mem::replace(&mut op.progress, Progress::Over) {
            Progress::Delivered(outcome) => {
                self.look(location, &outcome, true);
                Some(outcome)
            }
            Progress::Waiting(_) | Progress::Over => None,
        }
    }

    /// The future of an operation was dropped. What it stood for is cancelled, unless it was over.
    pub(crate) fn drop_op(&mut self, location: &Location) {
        let Some(op) = self.ops.get_mut(location) else {
            return;
        };
        let recorded = op.recorded;
        match std::mem::replace(&mut op.progress, Progress::Over) {
            Progress::Waiting(_) => {
                self.waits_no_more(recorded);
                self.doubt_gates();
                let fresh = self.fresh.len();
                self.bury_fresh(|asked| asked == location);
                // What is recorded may have been begun before what is fresh about it.
                if self.fresh.len() == fresh || recorded {
                    self.dropped.push(location.clone());
                }
                self.close_child(location);
                // A promise is recorded when it is made.
                self.take_back(location);
            }
            Progress::Delivered(outcome) => self.leave_unread(location, outcome),
            Progress::Over => {}
        }
    }

    /// An operation that waited does so no more.
    pub(super) fn waits_no_more(&mut self, recorded: bool) {
        self.waiting -= 1;
        self.unrecorded -= usize::from(!recorded);
    }

    /// Shows the witness what the code asks for.
    fn show(
        &self,
        location: &Location,
        kind: &'static str,
        detail: String,
        payload: Option<Payload>,
        call_site: CallSite,
    ) {
        if let Some((witness, instance, run)) = &self.witness {
            witness.asked(Asked {
                instance: instance.clone(),
                run: *run,
                path: self.names.path(location),
                kind,
                detail,
                payload,
                call_site,
            });
        }
    }

    /// Begins to know an operation that is complete by itself: a version, a loop, a join.
    pub(crate) fn know(&mut self, location: &Location, kind: &'static str, call_site: CallSite) -> Result<(), Misuse> {
        self.refuse_second(location, kind)?;
        self.show(location, kind, String::new(), None, call_site);
        if self
            .entries
            .get(location)
            .is_some_and(|entry| entry.kind.name() != kind)
        {
            self.diverge_at(location, kind, Some(call_site));
        }
        self.add_over(location, kind, call_site);
        Ok(())
    }

    /// An operation that nobody waits for.
    pub(super) fn add_over(&mut self, location: &Location, kind: &'static str, call_site: CallSite) {
        let op = Op {
            kind,
            shielded: false,
            progress: Progress::Over,
            recorded: self.entries.contains_key(location),
            call_site,
        };
        self.add(location, op);
    }

    /// What the code waits for and is not complete: paths and kinds, in the order of their places.
    pub(crate) fn awaited(&self) -> Vec<(String, &'static str)> {
        let is_complete = |at: &Location| self.entries.get(at).is_some_and(|entry| entry.completed.is_some());
        let waits = |(at, op): &(&Location, &Op)| matches!(op.progress, Progress::Waiting(_)) && !is_complete(at);
        let awaited = self.ops.iter().filter(waits);
        awaited.map(|(at, op)| (self.names.path(at), op.kind)).collect()
    }

    fn add(&mut self, location: &Location, op: Op) {
        self.gates.asked(location);
        self.unasked -= usize::from(op.recorded);
        if let Progress::Waiting(_) = op.progress {
            self.waiting += 1;
            self.unrecorded += usize::from(!op.recorded);
        }
        self.ops.insert(location.clone(), op);
    }
}
