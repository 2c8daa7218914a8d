//! Who waits for an instance to change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use tokio::sync::{Notify, broadcast};

use crate::ids::InstanceId;
use crate::limits::WATCH_CHANGES_MAX;

/// Tells waiters that something of an instance was committed.
#[derive(Debug)]
pub(crate) struct Changes {
    waiters: DashMap<InstanceId, Arc<Waiters>>,
    /// Those who want to hear of everybody, and at the end of nobody any more.
    all: broadcast::Sender<Option<InstanceId>>,
    /// Whether nothing changes any more: the runtime has stopped.
    over: AtomicBool,
}

/// Those who wait for one instance.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// For anything.
    pub(crate) any: Notify,
    /// For its end. They are most of all, and the commits before it do not wake them.
    pub(crate) end: Notify,
}

impl Default for Changes {
    fn default() -> Self {
        let (all, _) = broadcast::channel(WATCH_CHANGES_MAX);
        Self {
            waiters: DashMap::new(),
            all,
            over: AtomicBool::new(false),
        }
    }
}

impl Changes {
    /// Whom to wait for. Register with [`Notify::notified`] before looking at the store, so that no change is missed.
    pub(crate) fn of(&self, instance: &InstanceId) -> Arc<Waiters> {
        Arc::clone(&self.waiters.entry(instance.clone()).or_default())
    }

    /// The changes of all instances, from now on.
    pub(crate) fn all(&self) -> broadcast::Receiver<Option<InstanceId>> {
        self.all.subscribe()
    }

    /// Something of an instance was committed.
    pub(crate) fn tell(&self, instance: &InstanceId) {
        self.tell_of(instance, true);
    }

    /// The same, by who knows whether it can have been its end.
    pub(crate) fn tell_of(&self, instance: &InstanceId, ended: bool) {
        if let Some(waiters) = self.waiters.get(instance) {
            waiters.any.notify_waiters();
            if ended {
                waiters.end.notify_waiters();
            }
        }
        if self.all.receiver_count() > 0 && !self.are_over() {
            // Nobody is left to hear it: whoever was there has gone meanwhile.
            let _ = self.all.send(Some(instance.clone()));
        }
    }

    /// Nothing changes any more. Whoever waits is told so: they are woken and find that it is over.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Has everybody who waits look again, though nothing was committed.
    pub(crate) fn wake(&self) {
        let mut instances: Vec<_> = self.waiters.iter().map(|waiters| waiters.key().clone()).collect();
        // Not in the order of the map, which is another one in each process.
        instances.sort();
        for instance in instances {
            if let Some(waiters) = self.waiters.get(&instance) {
                waiters.any.notify_waiters();
                waiters.end.notify_waiters();
            }
        }
        let _ = self.all.send(None);
    }

    /// Whether nothing changes any more. Who looks here after registering misses no end.
    pub(crate) fn are_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Forgets an instance that nobody waits for.
    pub(crate) fn forget(&self, instance: &InstanceId) {
        self.waiters
            .remove_if(instance, |_, waiters| Arc::strong_count(waiters) == 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::{Context, Wake, Waker};

    use super::*;

    /// Writes down that it was woken.
    struct Bell(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    /// Found by the simulation: when the store failed, those who waited were told in the order of a hash map, and a seed
    /// gave two different traces.
    #[test]
    fn all_who_wait_are_woken_in_the_same_order_each_time() {
        const MANY: usize = 50;
        let (changes, rung) = (Changes::default(), Arc::default());
        let id = |number| InstanceId::new(format!("i{number:02}")).unwrap();
        let waiters: Vec<_> = (0..MANY).map(|number| changes.of(&id(number))).collect();
        let mut waits: Vec<_> = waiters.iter().map(|waiters| Box::pin(waiters.any.notified())).collect();
        for (number, wait) in waits.iter_mut().enumerate() {
            let bell = Waker::from(Arc::new(Bell(number, Arc::clone(&rung))));
            assert!(wait.as_mut().poll(&mut Context::from_waker(&bell)).is_pending());
        }
        changes.wake();
        assert_eq!(*rung.lock().unwrap(), (0..MANY).collect::<Vec<_>>());
    }
}
