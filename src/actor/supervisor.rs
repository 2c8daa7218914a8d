//! What becomes of an instance whose pump broke down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use crate::actor::hold;
use crate::actor::shared::Shared;
use crate::clock::Millis;
use crate::ids::InstanceId;
use crate::limits::PUMP_FAILURES_MAX;
use crate::spawn;
use crate::storage::record::Status;
use crate::storage::{Error, Health};
use crate::telemetry;

/// The first wait before an instance is activated again, and the longest.
const BACK_OFF_MS: (Millis, Millis) = (100, 60_000);

/// Between two such activations, whoever they are for: a storm of failures does not become a storm of restarts.
const APART: Duration = Duration::from_millis(10);

/// Whose fault a breakdown was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The instance's: when it happens again and again, the instance is put aside.
    Instance,
    /// The store's, which could not be reached: the instance waits for it, for as long as that takes.
    Store,
}

/// Counts breakdowns and spaces restarts.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    /// Breakdowns of each instance since it last came to rest.
    failures: DashMap<InstanceId, u32>,
    /// Restarts that wait for their turn.
    queued: Mutex<u32>,
}

impl Supervisor {
    /// The instance came to rest, so it works.
    pub(crate) fn rested(&self, instance: &InstanceId) {
        if !self.failures.is_empty() {
            self.failures.remove(instance);
        }
    }

    /// How many breakdowns there were that nothing good followed.
    pub(crate) fn failing(&self) -> usize {
        self.failures.len()
    }

    /// A pump broke down. The instance is activated again, later and later; past the bound it is put aside, if it was
    /// to blame.
    pub(crate) fn broke_down(shared: &Arc<Shared>, instance: &InstanceId, blame: Blame, reason: String) {
        if shared.admission.is_closed() || matches!(shared.store.health(), Health::Failed(_)) {
            return;
        }
        let supervisor = &shared.supervisor;
        let count = {
            let mut count = supervisor.failures.entry(instance.clone()).or_insert(0);
            *count += 1;
            *count
        };
        telemetry::broke_down();
        tracing::error!(%instance, count, reason, "an instance broke down");
        let (first, most) = BACK_OFF_MS;
        let wait_ms = first.saturating_mul(1 << (count - 1).min(20)).min(most);
        // Spread, so that those that broke down together do not come back together.
        let wait = Duration::from_millis(wait_ms + shared.chance.draw() % (wait_ms / 2 + 1));
        let turn = {
            let mut queued = supervisor.queued.lock().unwrap_or_else(PoisonError::into_inner);
            *queued += 1;
            *queued - 1
        };
        let (shared, instance) = (Arc::downgrade(shared), instance.clone());
        spawn::task(async move {
            tokio::time::sleep(wait.max(APART * turn)).await;
            let Some(shared) = shared.upgrade() else {
                return;
            };
            {
                let mut queued = shared.supervisor.queued.lock().unwrap_or_else(PoisonError::into_inner);
                *queued -= 1;
            }
            if count < PUMP_FAILURES_MAX || blame == Blame::Store {
                shared.directory.wake(&instance);
                return;
            }
            shared.supervisor.failures.remove(&instance);
            let reason = format!("it broke down {count} times: {reason}");
            if let Err(error) = quarantine(&shared, &instance, &reason).await {
                tracing::error!(%instance, %error, "an instance could not be put into quarantine");
            }
        });
    }
}

/// Puts an instance into quarantine, whoever has it.
pub(crate) async fn quarantine(shared: &Arc<Shared>, instance: &InstanceId, reason: &str) -> Result<(), Error> {
    let quarantined = hold::Held {
        status: Status::Quarantined,
        reason: reason.to_owned(),
        report: None,
    };
    let act = |activation| async move { hold::put_aside(shared, &activation, &quarantined).await };
    shared.directory.exclusively(instance, act).await
}
