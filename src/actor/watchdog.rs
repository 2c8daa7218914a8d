//! Reports code that runs for long without awaiting anything.
//!
//! Functions and steps are polled by workers of their own. One that loops or blocks keeps its worker, and nobody can take
//! it back; the committer, the alarms, the courier and every caller are elsewhere and go on, and so does this. All that
//! can be done is to say who it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dashmap::DashMap;

use crate::actor::shared::Shared;
use crate::engine::Whereabouts;
use crate::ids::InstanceId;

/// Who is being polled.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    polls: AtomicU64,
    polled: DashMap<u64, Polled>,
}

#[derive(Debug, Clone)]
struct Polled {
    instance: InstanceId,
    workflow: Arc<str>,
    at: At,
    /// Whether it was there when the watchdog last looked, and whether that was reported.
    seen: u8,
}

/// What is being polled.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// The function of a workflow, which is there now.
    Function(Whereabouts),
    /// An attempt at the step of this path.
    Step(Arc<str>),
}

impl Watch {
    /// A poll begins; it ends when what this gives is dropped.
    pub(crate) fn poll(&self, instance: &InstanceId, workflow: &Arc<str>, at: At) -> Watched<'_> {
        let number = self.polls.fetch_add(1, Ordering::Relaxed);
        let polled = Polled {
            instance: instance.clone(),
            workflow: Arc::clone(workflow),
            at,
            seen: 0,
        };
        self.polled.insert(number, polled);
        Watched { watch: self, number }
    }

    /// Reports every poll that was there at the last look already, once.
    fn look(&self) -> usize {
        // Told when the lock is released: whoever begins or ends a poll does not wait for those who hear of it.
        let mut long = Vec::new();
        for mut polled in self.polled.iter_mut() {
            polled.seen = polled.seen.saturating_add(1);
            if polled.seen == 2 {
                long.push(polled.clone());
            }
        }
        long.iter().for_each(Polled::report);
        long.len()
    }
}

impl Polled {
    fn report(&self) {
        crate::telemetry::long_poll();
        let (instance, workflow) = (&self.instance, &*self.workflow);
        match &self.at {
            At::Function(whereabouts) => {
                let last = whereabouts.last_asked();
                let last = last.as_deref().unwrap_or("nothing");
                tracing::warn!(
                    %instance,
                    workflow,
                    last,
                    "a workflow has run for long without awaiting anything; what takes long belongs into a step"
                );
            }
            At::Step(step) => tracing::warn!(
                %instance,
                workflow,
                step = &**step,
                "a step has run for long without awaiting anything; what blocks belongs into `step_blocking`"
            ),
        }
    }
}

/// A poll that lasts until this is dropped.
pub(crate) struct Watched<'a> {
    watch: &'a Watch,
    number: u64,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.watch.polled.remove(&self.number);
    }
}

/// Looks again and again, until the runtime is gone or the other side of `stop` is.
pub(crate) fn run(shared: &Weak<Shared>, every: Duration, stop: &Receiver<()>) {
    while stop.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.watch.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 35, 36.
    #[test]
    fn a_poll_that_outlasts_a_look_is_reported_once() {
        let watch = Watch::default();
        let (instance, workflow) = (InstanceId::new("a").unwrap(), Arc::from("w"));
        let step = || At::Step(Arc::from("charge"));
        let short = watch.poll(&instance, &workflow, step());
        assert_eq!(watch.look(), 0);
        drop(short);
        let _long = watch.poll(&instance, &workflow, step());
        assert_eq!((watch.look(), watch.look(), watch.look()), (0, 1, 0));
    }
}
