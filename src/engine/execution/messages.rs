//! Waits for messages.

use crate::clock::Millis;
use crate::engine::execution::Execution;
use crate::engine::request::ReceiveRequest;
use crate::location::Location;
use crate::storage::record::EntryKind;

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

    /// Gives messages to those who wait for them, in the order of waiting; a message that is there wins over a time
    /// that is over. Whoever has to wait on, and not for ever, is recorded with the time.
    pub(crate) fn take_messages(&mut self, now: Millis) {
        for waiting in std::mem::take(&mut self.waiting) {
            let mut taken = Vec::new();
            while taken.len() < waiting.request.most {
                let wanted = |name: &str| waiting.request.names.contains(&name);
                let Some(at) = self.inbox.iter().position(|(_, message)| wanted(&message.name)) else {
                    break;
                };
                let (arrival, message) = self.inbox.remove(at).expect("the position was just found");
                self.taken.push(arrival);
                taken.push(message);
            }
            let Waiting { location, until_ms, .. } = &waiting;
            if !taken.is_empty() || until_ms.is_some_and(|until| until <= now) {
                self.finished.push((
                    location.clone(),
                    EntryKind::Receive {
                        until_ms: *until_ms,
                        taken,
                    },
                ));
                continue;
            }
            let mut journal = self.journal.lock();
            if until_ms.is_some() && !journal.entries.contains_key(location) {
                journal.record(
                    location,
                    EntryKind::Receive {
                        until_ms: *until_ms,
                        taken,
                    },
                    None,
                );
            }
            drop(journal);
            self.waiting.push(waiting);
        }
    }
}
