//! Waits for messages.

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::request::ReceiveRequest;
use crate::limits::TAKEN_BYTES_MAX;
use crate::location::Location;
use crate::storage::record::{EntryKind, Message};

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
        for waiting in std::mem::take(&mut self.waiting) {
            let there = self.position(&waiting.request);
            if there.is_some() && served {
                self.waiting.push(waiting);
                continue;
            }
            let taken = self.take(&waiting.request);
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

    /// Where the next message is that a wait asks for.
    fn position(&self, request: &ReceiveRequest) -> Option<usize> {
        let wanted = |message: &Message| {
            let told = message.told_or_asked();
            told.is_some_and(|(name, _)| request.names.contains(&name))
        };
        self.inbox.iter().position(|(_, message)| wanted(message))
    }
}
