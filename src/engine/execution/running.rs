//! The steps that the code waits for: which of them run, and when the others are due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::clock::Millis;
use crate::engine::attempt::{AttemptId, Pulse};
use crate::engine::request::{StepOptions, Work};
use crate::location::Location;

/// A step that the code waits for.
pub(crate) struct RunningStep {
    /// Shared with the attempt that is running: calling it is the attempt's own business.
    pub(super) work: Arc<Mutex<Work>>,
    pub(super) options: StepOptions,
    /// The attempt that is running, or the next one.
    pub(super) number: u32,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    /// An attempt is running.
    Running {
        id: AttemptId,
        since_ms: Millis,
        pulse: Arc<Pulse>,
        /// When its progress was last stored.
        saved_at_ms: Option<Millis>,
    },
    /// The next attempt is due then.
    Due { at_ms: Millis },
}

impl RunningStep {
    /// Nobody waits for it any more.
    pub(super) fn cancel(&self) {
        if let Phase::Running { pulse, .. } = &self.phase {
            pulse.cancel();
        }
    }

    /// When it is due, unless an attempt is running.
    fn due_at_ms(&self) -> Option<Millis> {
        match self.phase {
            Phase::Running { .. } => None,
            Phase::Due { at_ms } => Some(at_ms),
        }
    }
}

/// The steps that the code waits for. Those that are due have an order of their own, so that a turn costs nothing for
/// each step that just runs.
#[derive(Default)]
pub(crate) struct Steps {
    /// In boxes: a step is large, and is taken out and put back as it goes on.
    all: BTreeMap<Location, Box<RunningStep>>,
    due: BTreeSet<(Millis, Location)>,
}

impl Steps {
    pub(super) fn insert(&mut self, location: Location, step: Box<RunningStep>) {
        if let Some(at_ms) = step.due_at_ms() {
            self.due.insert((at_ms, location.clone()));
        }
        self.all.insert(location, step);
    }

    pub(super) fn get(&self, location: &Location) -> Option<&RunningStep> {
        self.all.get(location).map(|step| &**step)
    }

    /// Forgets a step.
    pub(super) fn remove(&mut self, location: &Location) -> Option<Box<RunningStep>> {
        let step = self.all.remove(location)?;
        if let Some(at_ms) = step.due_at_ms() {
            self.due.remove(&(at_ms, location.clone()));
        }
        Some(step)
    }

    /// Takes the next step out that is due by now.
    pub(super) fn take_due(&mut self, now: Millis) -> Option<(Location, Box<RunningStep>)> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, location) = self.due.pop_first()?;
        let step = self.all.remove(&location)?;
        Some((location, step))
    }

    /// When the next step is due.
    pub(super) fn next_due_ms(&self) -> Option<Millis> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether an attempt is running.
    pub(super) fn any_runs(&self) -> bool {
        self.due.len() < self.all.len()
    }

    /// Those whose attempts are running, to look at.
    pub(super) fn running(&mut self) -> impl Iterator<Item = (&Location, &mut RunningStep)> {
        let all = self.all.iter_mut().map(|(at, step)| (at, &mut **step));
        all.filter(|(_, step)| step.due_at_ms().is_none())
    }

    /// Forgets all of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Location, Box<RunningStep>)> {
        self.due.clear();
        std::mem::take(&mut self.all).into_iter()
    }
}
