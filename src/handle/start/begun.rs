//! An instance that was started, and who has to hear of it.

use std::sync::Arc;

use crate::actor::Shared;
use crate::clock::Millis;
use crate::engine::Moment;
use crate::ids::InstanceId;

/// What others have to know of a start when it is durable.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) instance: InstanceId,
    pub(super) workflow: String,
    /// When it begins, if that is later.
    pub(super) begin_at_ms: Option<Millis>,
    pub(super) at_gate: bool,
    /// When its time is over, if it waits for its turn until then.
    pub(super) deadline_at_ms: Option<Millis>,
}

impl Begun {
    /// Tells whom it concerns.
    pub(super) fn telling(self) -> impl FnOnce(&Arc<Shared>) + Send + 'static {
        move |shared| {
            shared.happened(&self.instance, &self.workflow, Moment::Started);
            let at = self.begin_at_ms.or(self.deadline_at_ms.filter(|_| self.at_gate));
            if let (Some(at), Some(alarms)) = (at, shared.alarms.get()) {
                alarms.armed(at, &self.instance);
            }
            if self.begin_at_ms.is_none() {
                shared.directory.wake(&self.instance);
            }
            self.nudge_courier(shared);
            shared.changes.tell(&self.instance);
        }
    }

    /// Has the courier let it through its gate, if it comes to one.
    pub(super) fn nudge_courier(&self, shared: &Shared) {
        if let (true, Some(courier)) = (self.at_gate, shared.courier.get()) {
            courier.nudge();
        }
    }
}
