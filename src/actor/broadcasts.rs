//! Who listens to what an instance says without storing it.

use dashmap::DashMap;
use tokio::sync::broadcast;

use crate::ids::InstanceId;
use crate::limits::BROADCASTS_BEHIND_MAX;
use crate::storage::payload::Payload;

/// Hands what instances broadcast to whoever listens right now.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    listeners: DashMap<InstanceId, broadcast::Sender<Payload>>,
}

impl Broadcasts {
    /// Listens from now on. Who falls behind misses the oldest.
    pub(crate) fn listen(&self, instance: &InstanceId) -> broadcast::Receiver<Payload> {
        let listeners = self.listeners.entry(instance.clone());
        let listeners = listeners.or_insert_with(|| broadcast::channel(BROADCASTS_BEHIND_MAX).0);
        listeners.subscribe()
    }

    /// An instance says something. When nobody listens any more, the instance is forgotten.
    pub(crate) fn tell(&self, instance: &InstanceId, item: Payload) {
        let Some(listeners) = self.listeners.get(instance) else {
            return;
        };
        let unheard = listeners.send(item).is_err();
        drop(listeners);
        if unheard {
            self.forget(instance);
        }
    }

    /// Somebody has stopped listening: an instance that nobody listens to is forgotten.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        self.listeners
            .remove_if(instance, |_, listeners| listeners.receiver_count() == 0);
    }

    /// An instance has ended and says nothing any more: who listens is told so.
    pub(crate) fn close(&self, instance: &InstanceId) {
        self.listeners.remove(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::payload::Codecs;

    #[test]
    fn who_listens_hears_and_nobody_is_remembered_for_ever() {
        let (broadcasts, instance) = (Broadcasts::default(), InstanceId::new("i").unwrap());
        let item = Codecs::plain().pack(&1).unwrap();
        broadcasts.tell(&instance, item.clone());
        let mut listener = broadcasts.listen(&instance);
        broadcasts.tell(&instance, item.clone());
        assert_eq!(listener.try_recv().unwrap(), item);
        assert!(listener.try_recv().is_err(), "what was said before is gone");
        drop(listener);
        broadcasts.tell(&instance, item);
        assert!(broadcasts.listeners.is_empty());
        let mut listener = broadcasts.listen(&instance);
        broadcasts.close(&instance);
        assert_eq!(listener.try_recv(), Err(broadcast::error::TryRecvError::Closed));
    }
}
