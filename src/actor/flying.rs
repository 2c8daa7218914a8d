//! What the flight recorder is told of one resident.

use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use crate::actor::attempts::Entering;
use crate::actor::shared::{Charged, Shared};
use crate::engine::AttemptId;
use crate::ids::InstanceId;
use crate::storage::{FlightSlot, InFlight};

/// A resident's slot in the flight recorder, from when it runs for the first time.
pub(crate) struct Flying<'a> {
    shared: &'a Shared,
    instance: &'a InstanceId,
    slot: Option<Arc<FlightSlot>>,
    /// Attempts whose ends wait to be stored.
    ended: Vec<AttemptId>,
    /// The attempts of the process before, until it is stored that they count.
    charged: Option<Charged>,
}

impl<'a> Flying<'a> {
    pub(crate) fn new(shared: &'a Shared, instance: &'a InstanceId) -> Self {
        Self {
            shared,
            instance,
            slot: None,
            ended: Vec::new(),
            charged: None,
        }
    }

    /// It runs at one of these revisions, and has been charged for so many deaths.
    pub(crate) fn running(&mut self, revisions: RangeInclusive<u64>, deaths: u32) {
        if self.slot.is_none() {
            self.slot = self.shared.flight.slot(self.instance);
        }
        if let Some(slot) = &self.slot {
            slot.running(revisions, deaths);
        }
    }

    /// These begin. Whoever only waits for its turn is not recorded: it can't be what the process dies of.
    pub(crate) fn begins(&self, entering: &[Entering]) {
        let Some(slot) = &self.slot else { return };
        for Entering { attempt, .. } in entering.iter().filter(|entering| !entering.has_to_wait()) {
            slot.begins(attempt.id.number(), &attempt.location);
        }
    }

    /// Where those say so who begin later.
    pub(crate) fn slot(&self) -> Weak<FlightSlot> {
        self.slot.as_ref().map_or_else(Weak::new, Arc::downgrade)
    }

    /// An attempt has ended.
    pub(crate) fn ended(&mut self, attempt: AttemptId) {
        if self.slot.is_some() {
            self.ended.push(attempt);
        }
    }

    /// What was told of attempts is durable.
    pub(crate) fn stored(&mut self) {
        let Some(slot) = &self.slot else { return };
        self.ended.drain(..).for_each(|attempt| slot.is_over(attempt.number()));
        if self.charged.take().is_some() {
            slot.is_counted();
        }
    }

    /// It is no suspect any more.
    pub(crate) fn is_cleared(&self) {
        if let Some(slot) = &self.slot {
            slot.is_cleared();
        }
    }

    pub(crate) fn rests(&self) {
        if let Some(slot) = &self.slot {
            slot.rests();
        }
    }

    /// Takes over what the process before is to be counted for, at this revision.
    pub(crate) fn take_charge(&mut self, revision: u64) {
        if let Some((_, charged)) = self.shared.charged.remove(self.instance)
            && charged.revision == revision
        {
            self.slot = Some(Arc::clone(&charged.slot));
            self.charged = Some(charged);
        }
    }

    /// The attempts that the process before had begun.
    pub(crate) fn crashed(&self) -> InFlight {
        self.charged
            .as_ref()
            .map(|charged| charged.attempts)
            .unwrap_or_default()
    }

    /// It leaves. What is not counted by then is when it comes again.
    pub(crate) fn leave(&mut self) {
        if let Some(charged) = self.charged.take() {
            charged.slot.waits(charged.revision, charged.deaths);
            self.shared.charged.insert(self.instance.clone(), charged);
        }
    }
}
