//! Waits for messages.

use std::collections::BTreeSet;

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::request::ReceiveRequest;
use crate::limits::TAKEN_BYTES_MAX;
use crate::location::Location;
use crate::storage::key::Arrival;
use crate::storage::record::{EntryKind, Message};

/// Messages that were sent in one millisecond, and come back, have this many places.
const GIVEN_BACK_SPACING: u64 = 1 << 16;

/// A wait for messages that the code is in.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) location: Location,
    pub(crate) until_ms: Option<Millis>,
    request: ReceiveRequest,
}

impl Execution {
    pub(crate) fn begin_waiting(&mut self, location: Location, request: ReceiveRequest, now: Millis) {
        let recorded = self
            .journal
            .lock()
            .entries
            .get(&location)
            .map(|entry| entry.kind.clone());
        let until_ms = match recorded {
            Some(EntryKind::Receive { until_ms, .. }) => until_ms,
            _ => request.until.map(|until| until.at_ms(now)),
        };
        self.waiting.push(Waiting {
            location,
            until_ms,
            request,
        });
    }

    /// Gives messages to the first of those who wait for them; a message that is there wins over a time that is over.
    /// Whoever has to wait on, and not for ever, is recorded with the time.
    ///
    /// One at a time, and before all else in the commit: what was delivered earlier could make the code drop a wait,
    /// and a message that a dropped wait had taken would be lost.
    ///
    /// Tells whether a wait was served.
    pub(crate) fn take_messages(&mut self, now: Millis) -> bool {
        let mut served = false;
        let there = self.whose_messages_are_there();
        for (waiting, there) in std::mem::take(&mut self.waiting).into_iter().zip(there) {
            if there && served {
                self.waiting.push(waiting);
                continue;
            }
            let taken = if there { self.take(&waiting.request) } else { Vec::new() };
            let Waiting { location, until_ms, .. } = &waiting;
            let (gives_up, until_ms) = (until_ms.is_some_and(|until| until <= now), *until_ms);
            if !taken.is_empty() {
                served = true;
                let kind = EntryKind::Receive { until_ms, taken };
                self.finished.insert(0, (location.clone(), kind));
                continue;
            }
            let kind = EntryKind::Receive { until_ms, taken };
            if gives_up {
                self.finished.push((location.clone(), kind));
                continue;
            }
            let mut journal = self.journal.lock();
            if until_ms.is_some() && !journal.entries.contains_key(location) {
                journal.record(location, kind, None);
            }
            drop(journal);
            self.waiting.push(waiting);
        }
        served
    }

    /// For each wait, whether there is a message for it. The inbox is gone through once, however many wait.
    fn whose_messages_are_there(&self) -> Vec<bool> {
        let names: BTreeSet<&str> = if self.waiting.is_empty() {
            BTreeSet::new()
        } else {
            let told = self.inbox.iter().filter_map(|(_, message)| message.told_or_asked());
            told.map(|(name, _)| name).collect()
        };
        let there = |waiting: &Waiting| waiting.request.names.iter().any(|name| names.contains(name));
        self.waiting.iter().map(there).collect()
    }

    /// Takes what a wait asks for out of the inbox, as far as it is there.
    fn take(&mut self, request: &ReceiveRequest) -> Vec<Message> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < request.most
            && let Some(at) = self.position(request)
        {
            let told = self.inbox.get(at).and_then(|(_, message)| message.told_or_asked());
            bytes += told.map_or(0, |(_, payload)| payload.bytes.len());
            if !taken.is_empty() && bytes > TAKEN_BYTES_MAX {
                break;
            }
            let Some((arrival, message)) = self.inbox.remove(at) else {
                break;
            };
            self.taken.push(arrival);
            taken.push(message);
        }
        taken
    }

    /// Puts messages back that were taken and that nobody has looked at. They come before what came after them.
    pub(super) fn give_back(&mut self, unread: Vec<Message>) {
        for message in unread {
            let arrival = self.place_of(&message);
            let at = self.inbox.partition_point(|(there, _)| *there < arrival);
            self.inbox.insert(at, (arrival, message.clone()));
            self.given_back.push((arrival, message));
        }
    }

    /// A place for a message that comes back. Where it was is not known any more; epochs are counted from one, so this
    /// is before everything that came since, and what came back is in the order in which it was sent.
    fn place_of(&self, message: &Message) -> Arrival {
        let mut place = Arrival {
            epoch: 0,
            number: message.sent_at_ms.saturating_mul(GIVEN_BACK_SPACING),
        };
        let is_taken =
            |place: &Arrival| self.taken.contains(place) || self.inbox.iter().any(|(there, _)| there == place);
        while is_taken(&place) {
            place.number += 1;
        }
        place
    }

    /// Where the next message is that a wait asks for.
    fn position(&self, request: &ReceiveRequest) -> Option<usize> {
        let wanted = |message: &Message| {
            let told = message.told_or_asked();
            told.is_some_and(|(name, _)| request.names.contains(&name))
        };
        self.inbox.iter().position(|(_, message)| wanted(message))
    }
}
