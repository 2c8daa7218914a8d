//! Who hears of incidents, and of the lives of instances.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::actor::shared::Shared;
use crate::engine::{Incident, Lifecycle, LifecycleObserver, Moment, Observer};
use crate::ids::InstanceId;
use crate::telemetry;

/// The label of workflows that this process does not know: there is no end to their names.
const OTHER: &str = "other";

/// All observers of a runtime, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    incidents: Vec<Observer>,
    lives: Vec<LifecycleObserver>,
}

impl Observers {
    pub(crate) fn add(&mut self, observer: Observer) {
        self.incidents.push(observer);
    }

    pub(crate) fn add_lifecycle(&mut self, observer: LifecycleObserver) {
        self.lives.push(observer);
    }

    /// Tells everyone. An observer that panics is passed over: what it was told of is durable, and neither the
    /// instance nor the other observers may suffer for it.
    pub(crate) fn tell(&self, incident: &Incident) {
        let Incident { instance, workflow, .. } = incident;
        tracing::warn!(%instance, workflow, failure = %incident.failure);
        for observer in &self.incidents {
            if catch_unwind(AssertUnwindSafe(|| observer(incident))).is_err() {
                tracing::error!(%instance, workflow, "an observer panicked");
            }
        }
    }
}

impl Shared {
    /// Something that happened in the life of an instance is durable.
    pub(crate) fn happened(&self, instance: &InstanceId, workflow: &str, moment: Moment) {
        let label = if self.definitions.contains_key(workflow) {
            workflow
        } else {
            OTHER
        };
        match moment {
            Moment::Started => telemetry::started(label),
            Moment::Ended(status) | Moment::PutAside(status) => telemetry::ended(label, status.to_string()),
        }
        tracing::debug!(%instance, workflow, ?moment);
        // What the runtime itself is made of is nobody's business, as in a listing.
        if self.observers.lives.is_empty() || instance.is_own() {
            return;
        }
        let lifecycle = Lifecycle {
            instance: instance.clone(),
            workflow: workflow.to_owned(),
            at_ms: self.clock.now_ms(),
            moment,
        };
        for observer in &self.observers.lives {
            if catch_unwind(AssertUnwindSafe(|| observer(&lifecycle))).is_err() {
                tracing::error!(%instance, workflow, "an observer panicked");
            }
        }
    }
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observers")
            .field(&self.incidents.len())
            .field(&self.lives.len())
            .finish()
    }
}
