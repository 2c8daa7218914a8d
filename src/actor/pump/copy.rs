//! A copy of an instance that was imported. What others owe the original they don't owe the copy, so it looks after that
//! itself when it comes to memory: topics are told that it waits (in the engine), and it is told how those of its children
//! ended that were imported as well.

use crate::actor::courier::ends_that_were_missed;
use crate::actor::pump::{Pump, Stopped};
use crate::engine::{Farewell, Loaded};
use crate::storage::record::{Outgoing, State};
use crate::storage::{Commit, Condition, Result};

impl Pump<'_> {
    /// What a copy has missed, or as much of it as one commit may hold; nothing for an instance that was started here.
    pub(super) fn what_it_missed(&self, loaded: &Loaded) -> Result<Vec<Outgoing>> {
        if loaded.origin.seed.is_none() {
            return Ok(Vec::new());
        }
        let open = loaded.entries.iter().filter(|(_, entry)| entry.completed.is_none());
        let open = open.map(|(location, entry)| (location, entry));
        let parent = Farewell {
            instance: self.namespace.instance(),
            origin: &loaded.origin,
            run: loaded.state.run,
            now: self.shared.clock.now_ms(),
        };
        let heard = |id| {
            let mut inbox = loaded.inbox.iter().map(|(_, message)| &message.content);
            inbox.any(|content| content.settles(id))
        };
        ends_that_were_missed(&self.shared.store, parent, open, heard)
    }

    /// Sends it what it has missed, as if it came from those whose ends it is about. When that arrives it is sent the
    /// rest, if there is more, and goes on when it has all of it.
    pub(super) async fn hear_of_it(&mut self, before: State, told: Vec<Outgoing>) -> Result<(), Stopped> {
        let state = State {
            revision: before.revision + 1,
            ..before.clone()
        };
        let mut commit = Commit::new(self.namespace.shard());
        commit
            .require(Condition::Current(self.activation.clone()))
            .require(Condition::Revision(self.namespace.instance().clone(), before.revision))
            .set_state(&self.namespace, before.alarm_at_ms, &state)
            .seen(self.seen);
        for (index, outgoing) in (0..).zip(&told) {
            commit.post(&self.namespace, state.revision, index, outgoing);
        }
        self.shared.store.commit(commit).await?;
        self.nudge_courier();
        Ok(())
    }
}
