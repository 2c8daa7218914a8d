//! Which instances are resident.

#[cfg(feature = "testing")]
mod lost;

use std::sync::{Arc, OnceLock, Weak};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use ractor::ActorRef;

use crate::actor::load;
use crate::actor::shared::Shared;
use crate::actor::signal::{Leave, Signal};
use crate::actor::workflow::{Nudge, Pumping, WorkflowActor};
use crate::ids::InstanceId;
use crate::scheduler::Place;
use crate::telemetry;

/// Who has an instance.
#[derive(Debug)]
enum Slot {
    /// Its actor. The signal lies in front of the mailbox.
    Resident {
        actor: ActorRef<Nudge>,
        signal: Arc<Signal>,
        /// Given back with the slot.
        _place: Place,
    },
    /// An operator, for the time of one commit. Nobody activates it meanwhile.
    Held(Arc<Signal>),
}

impl Slot {
    fn signal(&self) -> &Arc<Signal> {
        match self {
            Self::Resident { signal, .. } | Self::Held(signal) => signal,
        }
    }

    /// Tells that there is news. Whoever has an instance alone wakes it afterwards anyway.
    fn nudge(&self) {
        if let Self::Resident { actor, signal, .. } = self
            && signal.raise()
        {
            // A mailbox that is closed belongs to an actor that is being ended: it will find the signal raised and
            // stay, or be activated again by whoever ended it.
            let _ = actor.cast(Nudge);
        }
    }
}

/// What became of the wish to wake somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It is resident and knows, or waits for its place.
    Told,
    /// There is no room in this lane of those who wait.
    Full(Arc<str>),
    /// Nobody is let in any more.
    Closed,
}

/// The residents. Beginning and ending one happens under the lock of its entry, so there are never two.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    slots: DashMap<InstanceId, Slot>,
    shared: OnceLock<Weak<Shared>>,
    #[cfg(feature = "testing")]
    lost: lost::Lost,
}

impl Directory {
    /// Gives the directory what actors need. Called once, when the runtime is put together.
    pub(crate) fn connect(&self, shared: &Arc<Shared>) {
        self.shared
            .set(Arc::downgrade(shared))
            .expect("the directory is connected once");
    }

    /// Tells an instance that there is news, and has it activated if it is not resident. If there is no room now, its
    /// row in the store is read when there is.
    pub(crate) fn wake(&self, instance: &InstanceId) {
        #[cfg(feature = "testing")]
        if self.lost.loses() {
            return;
        }
        if let Woken::Full(lane) = self.try_wake(instance)
            && let Some(shared) = self.shared()
        {
            shared.admission.turn_away(lane);
        }
    }

    /// The same for those who can wait, and ask again: says whether there was room.
    pub(crate) fn try_wake(&self, instance: &InstanceId) -> Woken {
        if let Some(slot) = self.slots.get(instance) {
            slot.nudge();
            return Woken::Told;
        }
        let Some(shared) = self.shared() else {
            return Woken::Closed;
        };
        if let Some(place) = shared.admission.at_once() {
            self.activate(instance, place);
            return Woken::Told;
        }
        let (workflow, priority) = load::standing(&shared.store, instance);
        let lane = shared.admission.lane(&workflow);
        if shared.admission.offer(&lane, priority, instance) {
            Woken::Told
        } else if shared.admission.is_closed() {
            Woken::Closed
        } else {
            Woken::Full(lane)
        }
    }

    /// Brings an instance into memory. If somebody was faster, it is told that there is news.
    pub(crate) fn activate(&self, instance: &InstanceId, place: Place) {
        let Some(shared) = self.shared() else {
            return;
        };
        let mut began = false;
        match self.slots.entry(instance.clone()) {
            Entry::Occupied(slot) => slot.get().nudge(),
            Entry::Vacant(vacant) => {
                let signal = Arc::new(Signal::default());
                // Where the pump is, its actor is: the pump runs user code.
                let _here = shared.workers.enter();
                let pumping = Pumping::begin(Arc::clone(&shared), instance.clone(), Arc::clone(&signal));
                match ractor::ActorRuntime::spawn_instant(None, WorkflowActor, pumping) {
                    Ok((actor, _)) => {
                        let _place = place;
                        drop(vacant.insert(Slot::Resident { actor, signal, _place }));
                        began = true;
                    }
                    Err(error) => tracing::error!(%instance, %error, "an instance could not be activated"),
                }
            }
        }
        // Outside of the lock of the entry, which counting takes as well.
        if began {
            telemetry::residents(self.residents());
        }
    }

    /// Loses the nudges that `lost` says.
    #[cfg(feature = "testing")]
    pub(crate) fn lose_nudges(&self, lost: Box<dyn Fn() -> bool + Send + Sync>) {
        self.lost.set(lost);
    }

    /// How many instances are in memory.
    pub(crate) fn residents(&self) -> usize {
        self.slots.len()
    }

    /// Whether an instance is in memory.
    pub(crate) fn is_resident(&self, instance: &InstanceId) -> bool {
        let slot = self.slots.get(instance);
        slot.is_some_and(|slot| matches!(*slot, Slot::Resident { .. }))
    }

    /// What the code of an instance waits for, if it is in memory: paths and kinds.
    pub(crate) fn awaited(&self, instance: &InstanceId) -> Vec<(String, &'static str)> {
        // Not under the lock of the entry: the journal has one of its own.
        let at = self.slots.get(instance).map(|slot| slot.signal().at());
        at.unwrap_or_default().awaited()
    }

    /// Who is in memory.
    #[cfg(feature = "testing")]
    pub(crate) fn everyone(&self) -> Vec<InstanceId> {
        self.slots.iter().map(|slot| slot.key().clone()).collect()
    }

    /// Asks every resident to leave.
    pub(crate) fn ask_all_to_leave(&self, leave: Leave) {
        self.slots.iter().for_each(|slot| slot.signal().ask_to_leave(leave));
    }

    /// Waits until nobody is resident.
    pub(crate) async fn emptied(&self) {
        loop {
            let first = self.slots.iter().next().map(|slot| Arc::clone(slot.signal()));
            match first {
                Some(signal) => {
                    // Again: it may have been activated just when all were asked.
                    signal.ask_to_leave(Leave::Settled);
                    signal.gone().await;
                }
                None => return,
            }
        }
    }

    /// Ends a resident, unless there is news for it. Says whether it is over; it is too if it was ended from outside.
    pub(crate) fn retire(&self, instance: &InstanceId, signal: &Arc<Signal>) -> bool {
        let own = |slot: &Slot| Arc::ptr_eq(slot.signal(), signal);
        self.remove_if(instance, |slot| own(slot) && !signal.is_raised())
            || !self.slots.get(instance).is_some_and(|slot| own(&slot))
    }

    /// Ends a resident, whatever news there is: whoever it leaves for, or whoever restarts it, wakes the instance.
    pub(crate) fn leave(&self, instance: &InstanceId, signal: &Arc<Signal>) -> bool {
        self.remove_if(instance, |slot| Arc::ptr_eq(slot.signal(), signal))
    }

    /// Takes an instance that nobody has; nobody activates it until [`Directory::leave`]. Whoever has it is told that it
    /// is wanted, and is what this gives instead.
    pub(crate) fn take(&self, instance: &InstanceId) -> Result<Arc<Signal>, Arc<Signal>> {
        match self.slots.entry(instance.clone()) {
            Entry::Occupied(slot) => {
                let signal = Arc::clone(slot.get().signal());
                signal.want();
                Err(signal)
            }
            Entry::Vacant(vacant) => {
                let signal = Arc::new(Signal::default());
                vacant.insert(Slot::Held(Arc::clone(&signal)));
                Ok(signal)
            }
        }
    }

    /// Ends every resident, where it stands. What is durable stays, the rest never happened.
    pub(crate) fn stop_all(&self) {
        self.slots.retain(|_, slot| {
            if let Slot::Resident { actor, signal, .. } = slot {
                actor.stop(None);
                signal.say_farewell();
            }
            matches!(slot, Slot::Held(_))
        });
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.get().and_then(Weak::upgrade)
    }

    fn remove_if(&self, instance: &InstanceId, leaves: impl Fn(&Slot) -> bool) -> bool {
        let Some((_, slot)) = self.slots.remove_if(instance, |_, slot| leaves(slot)) else {
            return false;
        };
        if let Slot::Resident { actor, .. } = &slot {
            actor.stop(None);
        }
        slot.signal().say_farewell();
        telemetry::residents(self.residents());
        true
    }
}
