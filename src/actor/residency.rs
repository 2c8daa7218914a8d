//! Which residents have nothing to do, longest first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::actor::signal::{Leave, Signal};
use crate::scheduler::MakesRoom;

/// Residents at rest without a running attempt. When memory is full, the one that has rested longest makes room; if
/// nobody rests, the next one that does.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    resting: BTreeMap<u64, Resting>,
    /// Places that are wanted: any one, or one of a lane; and who was asked to leave for it.
    wanted: BTreeMap<Option<Arc<str>>, Option<Arc<Signal>>>,
}

#[derive(Debug)]
struct Resting {
    signal: Arc<Signal>,
    lane: Option<Arc<str>>,
}

impl Idle {
    /// A resident of this lane comes to rest. It is idle until what this gives is dropped.
    pub(crate) fn rest(&self, signal: &Arc<Signal>, lane: Option<&Arc<str>>) -> Rest<'_> {
        let mut inner = self.inner();
        inner.last += 1;
        let number = inner.last;
        let resting = Resting {
            signal: Arc::clone(signal),
            lane: lane.cloned(),
        };
        inner.resting.insert(number, resting);
        inner.ask(&None);
        if lane.is_some() {
            inner.ask(&lane.cloned());
        }
        Rest { idle: self, number }
    }

    /// Somebody who was asked to leave has something to do after all.
    pub(crate) fn ask_another(&self) {
        let mut inner = self.inner();
        let wanted: Vec<_> = inner.wanted.keys().cloned().collect();
        wanted.iter().for_each(|lane| inner.ask(lane));
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.inner().resting.len()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MakesRoom for Idle {
    fn want(&self, lane: Option<&Arc<str>>) {
        let (mut inner, lane) = (self.inner(), lane.cloned());
        inner.wanted.entry(lane.clone()).or_default();
        inner.ask(&lane);
    }

    fn want_no_more(&self, lane: Option<&Arc<str>>) {
        self.inner().wanted.remove(&lane.cloned());
    }
}

impl Inner {
    /// Asks the one that has rested longest to leave, if its place is wanted and nobody is on the way out for it.
    fn ask(&mut self, lane: &Option<Arc<str>>) {
        let Some(asked) = self.wanted.get_mut(lane) else { return };
        if asked.as_ref().is_some_and(|signal| signal.is_leaving()) {
            return;
        }
        let may = |resting: &Resting| lane.is_none() || resting.lane == *lane;
        let longest = self.resting.iter().find(|(_, resting)| may(resting));
        let Some(number) = longest.map(|(number, _)| *number) else {
            return;
        };
        if let Some(Resting { signal, .. }) = self.resting.remove(&number) {
            signal.ask_to_leave(Leave::IfIdle);
            *asked = Some(signal);
        }
    }
}

/// A rest that lasts until it is dropped.
pub(crate) struct Rest<'a> {
    idle: &'a Idle,
    number: u64,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.idle.inner().resting.remove(&self.number);
    }
}
