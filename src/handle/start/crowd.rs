//! A start that minds how many wait already.

use crate::actor;
use crate::handle::start::{Crowded, Starting};
use crate::handle::{Error, Existing, Result, look, wait};
use crate::scheduler;

/// A start that is counted among those who wait, until this is dropped.
pub(super) enum Passed<'a> {
    Gate(actor::Coming<'a>),
    Memory(scheduler::Coming),
}

impl Passed<'_> {
    /// It has come, and is to be seen among them.
    pub(super) fn came(self) {
        match self {
            Self::Gate(coming) => coming.came(),
            Self::Memory(coming) => drop(coming),
        }
    }
}

/// Lets a start pass if fewer than `waiting` wait; otherwise it is refused, or waits for that.
pub(super) async fn pass(starting: &Starting, waiting: usize, crowded: Crowded) -> Result<Option<Passed<'_>>> {
    let Starting { shared, flow, .. } = starting;
    loop {
        wait::goes_on(shared)?;
        // Whoever exists already adds nobody, unless it is to begin anew.
        if let Some((state, _)) = look::state(shared, &starting.instance)?
            && !(starting.existing == Existing::NewRun && state.status.is_terminal())
        {
            return Ok(None);
        }
        match &flow.gate {
            Some(gate) => {
                let left = shared.gates.left().notified();
                tokio::pin!(left);
                left.as_mut().enable();
                let fewer_than = waiting + gate.limit as usize;
                if let Some(coming) = shared.gates.come(&shared.store, &gate.key, fewer_than)? {
                    return Ok(Some(Passed::Gate(coming)));
                }
                refuse(starting, waiting, crowded)?;
                wait::goes_on(shared)?;
                left.await;
            }
            None => {
                if shared.admission.is_closed() {
                    return Err(Error::Stopped);
                }
                let lane = shared.admission.lane(&starting.origin.workflow);
                if let Some(coming) = shared.admission.come(&lane, waiting) {
                    return Ok(Some(Passed::Memory(coming)));
                }
                refuse(starting, waiting, crowded)?;
                let failure = shared.store.failure()?;
                tokio::select! {
                    biased;
                    () = shared.admission.room_for(&lane, waiting) => {}
                    () = failure.told() => {}
                }
            }
        }
    }
}

fn refuse(starting: &Starting, waiting: usize, crowded: Crowded) -> Result<()> {
    match crowded {
        Crowded::Refuse => {
            let key = starting.flow.gate.as_ref().map(|gate| gate.key.clone());
            Err(Error::Crowded { key, waiting })
        }
        Crowded::Wait => Ok(()),
    }
}
