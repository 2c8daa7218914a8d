//! Calling the function: once, or once more if it had to show first that it comes to the end of its past.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Millis;
use crate::engine::execution::stage::runs;
use crate::engine::execution::{Execution, Turn};
use crate::engine::journal::{Journal, SharedJournal};
use crate::engine::scope::{Facts, Scope};
use crate::engine::workflow::{Definition, Running};
use crate::location::Location;
use crate::storage::Namespace;
use crate::storage::payload::Payload;
use crate::storage::record::{Entry, State, Status};

/// What a function is called with, and what it finds recorded.
#[derive(Debug, Clone)]
pub(super) struct Past {
    pub(super) input: Payload,
    pub(super) names: Vec<String>,
    pub(super) entries: Vec<(Location, Entry)>,
    pub(super) published: BTreeSet<String>,
}

impl Past {
    /// Calls the function of an instance in this state. It is not polled yet.
    pub(super) fn call(
        self,
        namespace: &Namespace,
        state: &State,
        definition: &Definition,
        facts: &Arc<Facts>,
    ) -> (SharedJournal, Running) {
        let mut journal = Journal::load(self.names, self.entries, state.completions, state.began_at_ms);
        journal.number_for(state.run);
        journal.said_before = state.said;
        // A run whose code was not called yet has not said anything.
        journal.silent_before = if state.said == 0 { 0 } else { state.completions + 1 };
        journal.bounds = facts.bounds;
        journal.published = self.published;
        journal.row_bytes += namespace.prefix().len();
        let witness = definition.witness.clone();
        journal.witness = witness.map(|witness| (witness, namespace.instance().clone(), state.run));
        let journal = SharedJournal::new(journal);
        let scope = Scope::root(Arc::clone(facts), journal.clone());
        let function = definition.erased.call(scope, self.input);
        (journal, function)
    }
}

impl Execution {
    /// If the code went through its past only to see that it can, calls the function once more. Tells whether it did.
    pub(super) fn begin_again(&mut self) -> bool {
        if self.past.is_none() {
            return false;
        }
        let journal = self.journal.lock();
        let (rehearses, replaying) = (journal.rehearses(), journal.is_replaying());
        drop(journal);
        if !rehearses {
            self.past = self.past.take().filter(|_| replaying);
            return false;
        }
        let Some(past) = self.past.take() else { return false };
        (self.journal, self.function) = past.call(&self.namespace, &self.state, &self.definition, &self.facts);
        let mut journal = self.journal.lock();
        journal.was_rehearsed = true;
        let token = journal.token();
        drop(journal);
        self.woken = self.woken(token);
        true
    }

    /// Stores what the code has said and noted on its way, before it has caught up. Nothing else happens: whatever it
    /// waits for begins when it has.
    pub(super) fn store_on_the_way(&mut self, turn: &mut Turn, now: Millis) {
        let (before, alarm_at_ms) = (self.state.status, self.state.alarm_at_ms);
        let status = if runs(before) { before } else { Status::Running };
        turn.commit = Some(self.commit(status, alarm_at_ms, now));
        turn.alarm_at_ms = alarm_at_ms;
        self.release(turn, false);
    }
}
