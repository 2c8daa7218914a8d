//! A start that minds how many wait already.

use crate::handle::start::{Crowded, Starting};
use crate::handle::{Error, Result, look};

/// Starts if fewer than `waiting` wait; otherwise it is refused, or waits for that.
pub(super) async fn start(starting: &Starting, waiting: usize, crowded: Crowded) -> Result<()> {
    loop {
        // Whoever exists already adds nobody.
        if look::instance(&starting.shared, &starting.instance)?.is_some() {
            return starting.begin().await;
        }
        let left = match &starting.flow.gate {
            Some(gate) => {
                let left = starting.shared.gates.left().notified();
                let fewer_than = waiting + gate.limit as usize;
                let coming = starting
                    .shared
                    .gates
                    .come(&starting.shared.store, &gate.key, fewer_than)?;
                if let Some(_coming) = coming {
                    return starting.begin().await;
                }
                Some(left)
            }
            None if starting.shared.admission.waiting() < waiting => return starting.begin().await,
            None => None,
        };
        if crowded == Crowded::Refuse {
            let key = starting.flow.gate.as_ref().map(|gate| gate.key.clone());
            return Err(Error::Crowded { key, waiting });
        }
        match left {
            Some(left) => left.await,
            None => starting.shared.admission.fewer_than(waiting).await,
        }
    }
}
