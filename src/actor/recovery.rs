//! What a start finds, and who is woken by it.

use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};

use crate::actor::directory::Woken;
use crate::actor::load;
use crate::actor::probation::is_suspect;
use crate::actor::residency::Idle;
use crate::actor::shared::{Charged, Shared};
use crate::actor::supervisor;
use crate::clock::Millis;
use crate::ids::InstanceId;
use crate::limits::CHARGES_MAX;
use crate::scheduler::Admission;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Runnable, State, Status};
use crate::storage::{Commit, Condition, Cursor, Error, FlightSlot, Flown};

/// What was found in the store when the runtime was opened: who has something to do. Who rests is counted by
/// [`Runtime::resting`](crate::Runtime::resting), for those who ask: there may be millions of them, and the start does not
/// wait for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Instances that have something to do.
    pub runnable: u64,
    /// Those of them whose workflow this process does not know.
    pub unknown: u64,
    /// Instances with an alarm whose time has come: they sleep, back off, wait for so long, or were started for later.
    pub due: u64,
    /// Instances that had attempts running when the process before this one died.
    pub crashed: u64,
    /// Those of them that were put into quarantine by this start, since that had happened too often.
    pub quarantined: u64,
}

/// Charges those who were running when the process before this one died, and counts what there is to do.
pub(crate) async fn recover(shared: &Arc<Shared>, flown: Vec<(Flown, Arc<FlightSlot>)>) -> Result<Recovery, Error> {
    let recovered = charge_all(shared, &flown).await;
    let Ok(mut report) = recovered else {
        // Nothing is lost by it: the next start charges them.
        shared.flight.close(flown.iter().map(|(_, slot)| &**slot));
        return recovered;
    };
    drop(flown);
    count(shared, &mut report).await?;
    Ok(report)
}

async fn charge_all(shared: &Arc<Shared>, flown: &[(Flown, Arc<FlightSlot>)]) -> Result<Recovery, Error> {
    let mut report = Recovery::default();
    let suspects = flown.iter().filter(|(flown, _)| suspect(shared, flown)).count();
    // So many at once share a sync; one after the other, a process that died with thousands in flight would take as many
    // syncs to open again.
    let charges = stream::iter(flown).map(|(flown, slot)| async move {
        // It may have been somebody else who ran beside it.
        let blamed = !(flown.cleared && suspect(shared, flown) && suspects > 1);
        (flown, charge(shared, flown, slot, blamed).await)
    });
    let mut charges = std::pin::pin!(charges.buffered(CHARGES_MAX));
    while let Some((flown, outcome)) = charges.next().await {
        match outcome {
            Ok(None) => {}
            Ok(Some(quarantined)) => {
                report.crashed += 1;
                report.quarantined += u64::from(quarantined);
            }
            // It concerns this instance alone, and shows again when it is loaded.
            Err(error @ (Error::Corrupt(_) | Error::Decode { .. } | Error::InvalidKey(_) | Error::Refused(_))) => {
                tracing::error!(instance = %flown.instance, %error, "an instance could not be charged for a crash");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

fn suspect(shared: &Shared, flown: &Flown) -> bool {
    is_suspect(flown.deaths, shared.config.crash_limit)
}

/// Charges an instance, if it was running: for the attempts that had begun, and if it is to be blamed for the death of the
/// process too. Tells whether it was put into quarantine. Done again, it changes nothing.
async fn charge(
    shared: &Arc<Shared>,
    flown: &Flown,
    slot: &Arc<FlightSlot>,
    blamed: bool,
) -> Result<Option<bool>, Error> {
    let namespace = shared.store.namespace(&flown.instance);
    let (workflow, activations, revision) = {
        let snapshot = shared.store.snapshot(namespace.shard())?;
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
        let still = |state: &State| {
            flown.revisions.contains(&state.revision)
                && !state.status.is_terminal()
                && state.status != Status::Quarantined
        };
        let Some(state) = state.filter(still) else {
            return Ok(None);
        };
        let workflow = load::workflow(&shared.store, &flown.instance);
        // Fewer than when it ran: it got somewhere. More: it was charged, and the process died again before it ran.
        let before = load::activations(&namespace, &*snapshot)?.min(flown.deaths);
        (workflow, before + u32::from(blamed), state.revision)
    };
    if blamed && activations >= shared.config.crash_limit {
        let reason = format!("the process died {activations} times while it ran this instance, which got nowhere");
        supervisor::quarantine(shared, &flown.instance, &reason).await?;
        return Ok(Some(true));
    }
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(flown.instance.clone(), revision))
        .set_runnable(&namespace, Some(&Runnable::new(&*workflow, activations)));
    shared.store.commit(commit).await?;
    if !flown.attempts.is_empty() {
        let charged = Charged {
            revision,
            deaths: flown.deaths,
            attempts: flown.attempts,
            slot: Arc::clone(slot),
        };
        shared.charged.insert(flown.instance.clone(), charged);
    }
    Ok(Some(false))
}

async fn count(shared: &Shared, report: &mut Recovery) -> Result<(), Error> {
    let now: Millis = shared.clock.now_ms();
    for shard in shared.store.shards() {
        let mut after: Option<Cursor> = None;
        loop {
            let page = shared.store.runnable(shard, after.as_ref())?;
            let unknown = |(_, runnable): &&(_, Runnable)| !knows(shared, &runnable.workflow);
            report.unknown += page.rows.iter().filter(unknown).count() as u64;
            report.runnable += page.rows.len() as u64;
            after = page.next;
            if after.is_none() {
                break;
            }
            // A long list is read in pieces, and the others have their turn in between.
            tokio::task::yield_now().await;
        }
        loop {
            let page = shared.store.alarms(shard, after.as_ref())?;
            let due = page.rows.iter().take_while(|(at, ..)| *at <= now).count();
            report.due += due as u64;
            // They are in the order of their times.
            after = page.next.filter(|_| due == page.rows.len());
            if after.is_none() {
                break;
            }
            // A long list is read in pieces, and the others have their turn in between.
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Whether this process can run the workflow; one that is not named is looked up when its instance is loaded.
pub(super) fn knows(shared: &Shared, workflow: &str) -> bool {
    workflow.is_empty() || shared.definitions.contains_key(workflow)
}

/// Rings what is due until the runtime is gone. What came due when nobody rang is found in the store.
pub(crate) async fn ring(shared: Weak<Shared>) {
    let alarms = {
        let Some(shared) = shared.upgrade() else { return };
        let Some(alarms) = shared.alarms.get().cloned() else {
            return;
        };
        alarms.begin();
        shared.admission.turn_all_away();
        alarms
    };
    let wake = move |instance: &InstanceId| {
        let shared = shared.upgrade()?;
        match shared.directory.try_wake(instance) {
            Woken::Told | Woken::Closed => None,
            Woken::Full(lane) => {
                shared.admission.turn_away(Arc::clone(&lane));
                Some(lane)
            }
        }
    };
    alarms.run(&wake).await;
}

/// Activates whoever waits, one after the other, as there are places.
pub(crate) async fn admit(shared: Weak<Shared>, admission: Arc<Admission>, idle: Arc<Idle>) {
    loop {
        let (instance, place) = admission.next(&*idle).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.directory.activate(&instance, place);
    }
}
