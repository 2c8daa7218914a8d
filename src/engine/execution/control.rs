//! What an instance is told about itself: to end, to hold, to go on.

use crate::clock::Millis;
use crate::engine::execution::{Execution, Turn};
use crate::storage::record::{Content, EntryKind, Status};

impl Execution {
    /// Holds or goes on, as told last. Comes before all else in a turn: that it is held does not depend on the code,
    /// which need not even be called for it.
    pub(crate) fn take_pauses(&mut self) {
        // What is kept for inspection holds already, and stays what it is.
        if self.state.status == Status::Quarantined {
            return;
        }
        let mut paused = self.state.paused;
        let told = &mut self.taken;
        self.inbox.retain(|(arrival, message)| {
            match message.content {
                Content::Pause => paused = true,
                Content::Resume => paused = false,
                _ => return true,
            }
            told.push(*arrival);
            false
        });
        self.state.paused = paused;
    }

    /// A turn of an instance that is held: what had begun is recorded when it ends, and that is all. What had not is taken
    /// back before anybody is told that the instance is held.
    pub(crate) fn hold(&mut self, now: Millis) -> Turn {
        self.finished.append(&mut self.ephemeral);
        let mut turn = Turn {
            cancel: self.take_back_attempts(),
            commit: self.stage(now),
            ..Turn::default()
        };
        if turn.commit.is_some() {
            // What is not durable is always worth a commit: there would be one after the other.
            self.journal.lock().stores_what_was_seen();
        }
        self.tell(&mut turn);
        turn
    }

    /// Ends the instance as it was asked to, in the commit that consumes the asking.
    ///
    /// It comes behind a message that is taken in the same commit: the wait that took it must not end before.
    pub(crate) fn take_cancels(&mut self) {
        let mut at = 0;
        while let Some((_, message)) = self.inbox.get(at) {
            let Content::Cancel { reason } = &message.content else {
                at += 1;
                continue;
            };
            let reason = reason.clone();
            if let Some((arrival, _)) = self.inbox.remove(at) {
                self.taken.push(arrival);
                self.cancel(reason);
            }
        }
    }

    /// What waits outside a shield ends with this; asking twice changes nothing.
    fn cancel(&mut self, reason: String) {
        let location = self.reserved("cancel");
        let asked = self.finished.iter().any(|(at, _)| *at == location);
        if !asked && !self.journal.lock().entries.contains_key(&location) {
            self.finished.push((location, EntryKind::Cancel { reason }));
        }
    }
}
