//! What the code asks for: begun when replay has caught up, and let go of when its future is dropped.

use crate::clock::Millis;
use crate::engine::execution::{Execution, Turn};
use crate::engine::request::Request;
use crate::storage::InFlight;

impl Execution {
    /// Lets go of what dropped futures stood for.
    pub(super) fn let_go(&mut self, turn: &mut Turn, now: Millis) {
        let mut journal = self.journal.lock();
        let (dropped, unread) = (std::mem::take(&mut journal.dropped), journal.take_unread());
        for location in &dropped {
            journal.take_ran(location);
        }
        drop(journal);
        self.give_back(unread);
        self.tell_what_was_looked_at(now);
        for location in dropped {
            self.sleeps.remove(&location);
            self.waiting.retain(|waiting| waiting.location != location);
            self.undecided.let_go(&location);
            self.give_up_event(&location, now);
            self.finished.retain(|(at, _)| *at != location);
            self.ephemeral.retain(|(at, _)| *at != location);
            if self.abandon(&location) {
                turn.cancel.push(location);
            }
        }
    }

    /// Begins what the code has asked for since the last turn and history does not know.
    pub(super) fn begin_fresh(&mut self, now: Millis) {
        let fresh = std::mem::take(&mut self.journal.lock().fresh);
        let mut full = false;
        for (location, request) in fresh {
            if let Some(bytes) = request.outgoing_bytes() {
                // Whatever comes behind what has to wait waits as well: it goes in the order of the code.
                full |= self.outbox.is_full_for(bytes);
                if full {
                    self.journal.lock().fresh.push((location, request));
                    continue;
                }
            }
            match request {
                Request::Send(request) => self.begin_send(location, request, now),
                Request::Child(request) => self.begin_child(location, request, now),
                Request::Publish(request) => self.begin_publish(location, request, now),
                Request::Event(topic, until) => self.begin_event(location, topic, until, now),
                Request::Begun(kind) => self.finished.push((location, kind)),
                Request::Step(request) => self.begin_step(&location, request, now),
                Request::Receive(request) => self.begin_waiting(location, request, now),
                Request::Outside(request) => {
                    self.begin_outside(location, request, now);
                }
                Request::Limit(until) => self.limit_outside(&location, until, now),
                Request::Sleep(until) => self.begin_sleep(location, until, now),
            }
        }
        self.crashed = InFlight::default();
    }
}
