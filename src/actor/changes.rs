//! Who waits for an instance to change.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::Notify;

use crate::ids::InstanceId;

/// Tells waiters that something of an instance was committed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiters: DashMap<InstanceId, Arc<Notify>>,
}

impl Changes {
    /// Whom to wait for. Register with [`Notify::notified`] before looking at the store, so that no change is missed.
    pub(crate) fn of(&self, instance: &InstanceId) -> Arc<Notify> {
        Arc::clone(&self.waiters.entry(instance.clone()).or_default())
    }

    /// Something of an instance was committed.
    pub(crate) fn tell(&self, instance: &InstanceId) {
        if let Some(waiters) = self.waiters.get(instance) {
            waiters.notify_waiters();
        }
    }

    /// Forgets an instance that nobody waits for.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        self.waiters
            .remove_if(instance, |_, waiters| Arc::strong_count(waiters) == 1);
    }
}
