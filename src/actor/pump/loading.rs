//! How a pump reads its instance from the store: what there is to run, if anything.

use std::sync::Arc;

use crate::actor::attempts::{Attempts, Lane};
use crate::actor::pump::gate::EndsAtGate;
use crate::actor::pump::{Pump, Stopped};
use crate::actor::{gate, load, start};
use crate::clock::Millis;
use crate::engine::Execution;
use crate::storage::key::Arrival;
use crate::storage::record::{Outgoing, Stand, State, Status};

/// What became of reading an instance.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment")]
pub(super) enum Loading {
    Runs(Execution),
    /// It has to come to its gate first, in time for its deadline.
    Comes(State, Option<Millis>),
    /// It ends before it was its turn.
    Ends(EndsAtGate),
    /// Its children ended where it was exported from.
    Missed(State, Vec<Outgoing>),
    /// There is nothing to run.
    Rests,
}

impl Pump<'_> {
    pub(super) fn load(&mut self) -> Result<Loading, Stopped> {
        self.seen = self.shared.store.delivered(self.namespace.shard());
        let snapshot = self.shared.store.snapshot(self.namespace.shard())?;
        let Some(state) = load::state(&self.namespace, &*snapshot)? else {
            return Ok(Loading::Rests);
        };
        let status = state.status;
        if status.is_terminal() || status == Status::Quarantined {
            return Ok(Loading::Rests);
        }
        self.flow = gate::flow(&self.namespace, &*snapshot)?;
        if start::begins_later(&state, self.shared.clock.now_ms()) {
            self.arm(state.alarm_at_ms);
            return Ok(Loading::Rests);
        }
        let deaths = load::activations(&self.namespace, &*snapshot)?;
        self.crashes = (deaths > 0).then_some((deaths, state.completions));
        if !self.may_run() {
            return Ok(Loading::Rests);
        }
        self.flying.take_charge(state.revision);
        // Before it is read: that may be what the process dies of.
        self.flying.running(state.revision..=state.revision, deaths);
        let mut loaded = load::load_from(&self.namespace, &*snapshot, state)?;
        let Some(definition) = self.shared.definitions.get(loaded.origin.workflow.as_str()) else {
            return Err(Stopped::UnknownWorkflow(loaded.origin.workflow));
        };
        // What newer code has begun, this code can't go on with.
        if loaded.origin.version > definition.version {
            return Err(Stopped::UnknownVersion {
                workflow: loaded.origin.workflow,
                version: loaded.origin.version,
                known: definition.version,
            });
        }
        match gate::stand(&self.flow) {
            Some(Stand::Outside) => return Ok(Loading::Comes(loaded.state, loaded.origin.deadline_at_ms)),
            Some(Stand::Waits { .. }) => return Ok(self.waits_or_ends(&loaded, &definition.policy)),
            Some(Stand::Inside { .. }) | None => {}
        }
        let missed = self.what_it_missed(&loaded)?;
        if !missed.is_empty() {
            return Ok(Loading::Missed(loaded.state, missed));
        }
        self.workflow = Arc::from(loaded.origin.workflow.as_str());
        let lane = Lane {
            priority: self.flow.priority,
            workflow: Arc::clone(&self.workflow),
            queue: definition.policy.queue,
        };
        self.attempts = Attempts::new(self.shared, lane);
        self.lane = self.shared.admission.limited_lane(&self.workflow);
        self.held = matches!(status, Status::Stuck | Status::Parked);
        if status == Status::Pending {
            // It runs from now on, and nothing of that is stored yet: whoever waits for it looks again.
            self.shared.changes.tell_of(self.namespace.instance(), false);
        }
        self.revision_read = Some(loaded.state.revision);
        let times = if self.reads.0 == loaded.state.revision {
            self.reads.1
        } else {
            0
        };
        self.reads = (loaded.state.revision, times + 1);
        loaded.crashed = self.flying.crashed();
        // What goes back to the inbox from here on lies before that, and is known.
        let last = loaded.inbox.back().map(|(arrival, _)| *arrival);
        self.read = last.max(Some(Arrival::GIVEN_BACK_LAST));
        let codecs = self.shared.store.codecs().clone();
        let bounds = definition.bounds(self.shared.config.bounds);
        let namespace = self.namespace.clone();
        let mut execution = Execution::new(namespace, loaded, definition, codecs, bounds);
        execution.runs_with(self.flow.gate.as_ref().map(|gate| gate.key.clone()));
        Ok(Loading::Runs(execution))
    }
}
