//! What becomes of an instance whose pump broke down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use crate::actor::breaker::Breaker;
use crate::actor::load;
use crate::actor::shared::Shared;
use crate::actor::{alone, hold};
use crate::ids::InstanceId;
use crate::limits::{PUMP_FAILURES_MAX, RESTART_BACKOFF, RESTARTS_APART};
use crate::spawn;
use crate::storage::record::Status;
use crate::storage::{Error, Health};
use crate::telemetry;

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
    failures: DashMap<InstanceId, Failures>,
    /// Restarts that wait for their turn.
    queued: Mutex<u32>,
    breaker: Breaker,
}

/// Breakdowns of an instance.
#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    all: u32,
    /// Those that it was to blame for.
    own: u32,
    /// Whether it is about to be restarted.
    waits: bool,
}

impl Supervisor {
    /// The instance came to rest or ended, so it works.
    pub(crate) fn rested(&self, instance: &InstanceId) {
        if !self.failures.is_empty() {
            self.failures.remove(instance);
        }
    }

    /// How often an instance broke down of its own since it last came to rest.
    pub(crate) fn breakdowns(&self, instance: &InstanceId) -> u32 {
        self.failures.get(instance).map_or(0, |failures| failures.own)
    }

    /// Whether an instance that broke down waits for its restart.
    pub(crate) fn waits(&self, instance: &InstanceId) -> bool {
        self.failures.get(instance).is_some_and(|failures| failures.waits)
    }

    /// How many instances broke down that nothing good followed for.
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
        let Failures { all, own, .. } = supervisor.count(instance, blame);
        telemetry::broke_down();
        tracing::error!(%instance, count = all, reason, "an instance broke down");
        hold_back(shared, instance, blame);
        let (first, most) = RESTART_BACKOFF;
        let wait = first.saturating_mul(1 << (all - 1).min(20)).min(most);
        // Spread, so that those that broke down together do not come back together.
        let spread = u64::try_from(wait.as_millis() / 2 + 1).unwrap_or(u64::MAX);
        let wait = wait + Duration::from_millis(shared.chance.draw() % spread);
        let turn = supervisor.queue();
        let (shared, instance) = (Arc::downgrade(shared), instance.clone());
        spawn::task(async move {
            tokio::time::sleep(wait.max(RESTARTS_APART * turn)).await;
            let Some(shared) = shared.upgrade() else {
                return;
            };
            shared.supervisor.unqueue();
            shared.supervisor.restarts(&instance);
            if own < PUMP_FAILURES_MAX || blame == Blame::Store {
                shared.directory.wake(&instance);
                return;
            }
            shared.supervisor.failures.remove(&instance);
            let reason = format!("it broke down {own} times: {reason}");
            if let Err(error) = quarantine(&shared, &instance, &reason).await {
                tracing::error!(%instance, %error, "an instance could not be put into quarantine");
            }
        });
    }

    fn count(&self, instance: &InstanceId, blame: Blame) -> Failures {
        let mut failures = self.failures.entry(instance.clone()).or_default();
        failures.all += 1;
        failures.own += u32::from(blame == Blame::Instance);
        failures.waits = true;
        *failures
    }

    fn restarts(&self, instance: &InstanceId) {
        if let Some(mut failures) = self.failures.get_mut(instance) {
            failures.waits = false;
        }
    }

    /// Takes the last place among those who wait to be restarted, and says which that is.
    fn queue(&self) -> u32 {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        *queued += 1;
        *queued - 1
    }

    fn unqueue(&self) {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

/// Has nobody of the same workflow let in for a while, if too many of them broke down; nobody at all, if it was the
/// store.
fn hold_back(shared: &Arc<Shared>, instance: &InstanceId, blame: Blame) {
    let lane = match blame {
        Blame::Store => None,
        Blame::Instance => Some(shared.admission.lane(&load::workflow(&shared.store, instance))),
    };
    let Some(wait) = shared.supervisor.breaker.broke_down(lane.as_ref()) else {
        return;
    };
    tracing::error!(
        workflow = lane.as_deref(),
        ?wait,
        "too many instances broke down; the next ones are held back"
    );
    shared.admission.hold_back(lane.as_ref());
    let shared = Arc::downgrade(shared);
    spawn::task(async move {
        tokio::time::sleep(wait).await;
        if let Some(shared) = shared.upgrade() {
            shared.supervisor.breaker.try_again(lane.as_ref());
            shared.admission.let_go_on(lane.as_ref());
        }
    });
}

/// Puts an instance into quarantine, whoever has it.
pub(crate) async fn quarantine(shared: &Arc<Shared>, instance: &InstanceId, reason: &str) -> Result<(), Error> {
    let quarantined = hold::Held {
        status: Status::Quarantined,
        reason: reason.to_owned(),
        report: None,
    };
    let sharing = Arc::clone(shared);
    let act = |activation| async move { hold::put_aside(&sharing, &activation, &quarantined).await };
    alone::exclusively(shared, instance, act).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in review: they shared one count, and a store that could not be reached for a while put whoever broke down
    /// once of its own after that into quarantine.
    #[test]
    fn what_the_store_is_to_blame_for_is_not_the_fault_of_the_instance() {
        let (supervisor, instance) = (Supervisor::default(), InstanceId::new("a").unwrap());
        for _ in 0..PUMP_FAILURES_MAX {
            assert_eq!(supervisor.count(&instance, Blame::Store).own, 0);
        }
        let Failures { all, own, .. } = supervisor.count(&instance, Blame::Instance);
        assert_eq!((all, own), (PUMP_FAILURES_MAX + 1, 1));
    }
}
