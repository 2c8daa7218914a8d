//! Suspects: those who may be what the process dies of. One at a time, so that whoever is to blame is charged alone.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Sleep;

use crate::actor::directory::Woken;
use crate::actor::shared::Shared;
use crate::ids::InstanceId;
use crate::limits::{DEATHS_BEFORE_PROBATION, PROBATION_TIME};

/// Whether an instance with so many deaths is a suspect. Before the death that would put it aside it has run alone.
pub(crate) fn is_suspect(deaths: u32, crash_limit: u32) -> bool {
    deaths > 0 && deaths >= DEATHS_BEFORE_PROBATION.min(crash_limit - 1)
}

/// Which suspect is on trial, and who is next. Those who wait for it are not in memory: they take no place of others, and
/// an operator who wants them has them at once.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    inner: Mutex<Inner>,
    /// Whether somebody was called who has not come yet.
    calls: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    on_trial: bool,
    called: Option<InstanceId>,
    waiting: VecDeque<InstanceId>,
    known: HashSet<InstanceId>,
}

impl Inner {
    fn wait(&mut self, instance: &InstanceId, was_called: bool) {
        if !self.known.insert(instance.clone()) {
            return;
        }
        if was_called {
            self.waiting.push_front(instance.clone());
        } else {
            self.waiting.push_back(instance.clone());
        }
    }

    /// Somebody has come without being called.
    fn forget(&mut self, instance: &InstanceId) {
        if self.known.remove(instance) {
            self.waiting.retain(|waiting| waiting != instance);
        }
    }

    fn next(&mut self) -> Option<InstanceId> {
        let next = self.waiting.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}

impl Probation {
    /// Puts a suspect on trial. If another one is, it is woken when its turn has come, and has to leave until then.
    pub(crate) fn enter<'a>(&self, shared: &'a Arc<Shared>, instance: &InstanceId) -> Option<Trial<'a>> {
        let mut inner = self.inner();
        let was_called = self.answer(&mut inner, instance);
        if inner.on_trial {
            inner.wait(instance, was_called);
            return None;
        }
        inner.on_trial = true;
        inner.forget(instance);
        drop(inner);
        Some(Trial {
            shared,
            over: Box::pin(tokio::time::sleep(PROBATION_TIME)),
        })
    }

    /// An instance leaves memory. If it was called and is no suspect any more, the next one is.
    pub(crate) fn left(&self, shared: &Arc<Shared>, instance: &InstanceId) {
        if self.calls.load(Ordering::Acquire) && self.answer(&mut self.inner(), instance) {
            self.call(shared);
        }
    }

    /// Whether it was this one who was called.
    fn answer(&self, inner: &mut Inner, instance: &InstanceId) -> bool {
        let answers = inner.called.as_ref() == Some(instance);
        if answers {
            inner.called = None;
            self.calls.store(false, Ordering::Release);
        }
        answers
    }

    /// Calls the next one. Whoever there is no room for comes by itself when there is.
    fn call(&self, shared: &Arc<Shared>) {
        loop {
            let next = {
                let mut inner = self.inner();
                if inner.on_trial {
                    return;
                }
                let Some(next) = inner.next() else { return };
                inner.called = Some(next.clone());
                self.calls.store(true, Ordering::Release);
                next
            };
            match shared.directory.try_wake(&next) {
                Woken::Told | Woken::Closed => return,
                Woken::Full(lane) => shared.admission.turn_away(lane),
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A suspect that runs while no other does. The next one is called when it is dropped.
pub(crate) struct Trial<'a> {
    shared: &'a Arc<Shared>,
    over: std::pin::Pin<Box<Sleep>>,
}

impl Trial<'_> {
    /// Waits until it has gone well for long enough.
    pub(crate) async fn over(&mut self) {
        self.over.as_mut().await;
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let probation = &self.shared.probation;
        probation.inner().on_trial = false;
        probation.call(self.shared);
    }
}
