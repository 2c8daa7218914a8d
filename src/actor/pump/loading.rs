//! How a pump reads its instance from the store: what there is to run, if anything.

use std::sync::Arc;

use crate::actor::attempts::{Attempts, Lane};
use crate::actor::pump::{Pump, Stopped};
use crate::actor::{gate, load, start};
use crate::engine::Execution;
use crate::storage::key::Arrival;
use crate::storage::record::{Stand, State, Status};
use crate::storage::{Commit, Condition};

/// What became of reading an instance.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment")]
pub(super) enum Loading {
    Runs(Execution),
    /// It has to come to its gate first.
    Comes(State),
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
        self.flow = gate::flow(&self.namespace, &*snapshot)?;
        match gate::stand(&self.flow) {
            Some(Stand::Outside) => return Ok(Loading::Comes(loaded.state)),
            Some(Stand::Waits { .. }) => return Ok(Loading::Rests),
            Some(Stand::Inside { .. }) | None => {}
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
        Ok(Loading::Runs(Execution::new(
            namespace, loaded, definition, codecs, bounds,
        )))
    }

    /// The instance has to pass a gate and has not come to it: it does now, and goes on when it is let in.
    pub(super) async fn come_to_gate(&mut self, before: State) -> Result<(), Stopped> {
        let namespace = self.namespace.clone();
        let state = State {
            revision: before.revision + 1,
            alarm_at_ms: None,
            updated_at_ms: self.shared.clock.now_ms(),
            ..before.clone()
        };
        let coming = self.shared.store.submit_delivery(namespace.shard(), |arrivals| {
            let mut commit = Commit::new(namespace.shard());
            commit
                .require(Condition::Current(self.activation.clone()))
                .require(Condition::Revision(namespace.instance().clone(), before.revision))
                .set_state(&namespace, before.alarm_at_ms, &state)
                .set_runnable(&namespace, None)
                .seen(self.seen);
            let (store, flow) = (&self.shared.store, &self.flow);
            gate::come(store, &mut commit, &namespace, flow, state.revision, || {
                arrivals.next_place()
            });
            commit
        });
        coming.await?.durable().await?;
        self.shared.changes.tell(namespace.instance());
        self.nudge_courier();
        Ok(())
    }
}
