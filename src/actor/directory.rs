//! Which instances are resident.

use std::sync::{Arc, OnceLock, Weak};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use ractor::ActorRef;

use crate::actor::pump::Shared;
use crate::actor::signal::Signal;
use crate::actor::workflow::{Nudge, WorkflowActor};
use crate::ids::InstanceId;

/// A resident instance: its actor, and the signal in front of its mailbox.
#[derive(Debug)]
struct Resident {
    actor: ActorRef<Nudge>,
    signal: Arc<Signal>,
}

/// The residents. Beginning and ending one happens under the lock of its entry, so there are never two.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    residents: DashMap<InstanceId, Resident>,
    shared: OnceLock<Weak<Shared>>,
}

impl Directory {
    /// Gives the directory what actors need. Called once, when the runtime is put together.
    pub(crate) fn connect(&self, shared: &Arc<Shared>) {
        self.shared
            .set(Arc::downgrade(shared))
            .expect("the directory is connected once");
    }

    /// Tells an instance that there is news, and activates it if it is not resident.
    pub(crate) fn wake(&self, instance: &InstanceId) {
        match self.residents.entry(instance.clone()) {
            Entry::Occupied(resident) => {
                let resident = resident.get();
                if resident.signal.raise() {
                    // A mailbox that is closed belongs to an actor that is being ended under this lock's successor:
                    // it will find the signal raised and stay.
                    let _ = resident.actor.cast(Nudge);
                }
            }
            Entry::Vacant(vacant) => {
                let Some(shared) = self.shared.get().and_then(Weak::upgrade) else {
                    return;
                };
                let signal = Arc::new(Signal::default());
                let arguments = (shared, instance.clone(), Arc::clone(&signal));
                match ractor::ActorRuntime::spawn_instant(None, WorkflowActor, arguments) {
                    Ok((actor, _)) => drop(vacant.insert(Resident { actor, signal })),
                    Err(error) => tracing::error!(%instance, %error, "an instance could not be activated"),
                }
            }
        }
    }

    /// Ends a resident, unless there is news for it.
    pub(crate) fn retire(&self, instance: &InstanceId, signal: &Arc<Signal>) -> bool {
        let quiet = |resident: &Resident| Arc::ptr_eq(&resident.signal, signal) && !resident.signal.is_raised();
        let Some((_, resident)) = self.residents.remove_if(instance, |_, resident| quiet(resident)) else {
            return false;
        };
        resident.actor.stop(None);
        true
    }

    /// Ends every resident, where it stands. What is durable stays, the rest never happened.
    pub(crate) fn stop_all(&self) {
        self.residents.retain(|_, resident| {
            resident.actor.stop(None);
            false
        });
    }
}
