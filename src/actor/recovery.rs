//! What a start finds, and who is woken by it.

use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};

use crate::actor::load;
use crate::actor::shared::Shared;
use crate::actor::supervisor;
use crate::clock::Millis;
use crate::limits::CHARGES_MAX;
use crate::scheduler::Admission;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Runnable, State, Status};
use crate::storage::{Commit, Condition, Cursor, Error, Flown};

/// What was found in the store when the runtime was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Instances that have something to do.
    pub runnable: u64,
    /// Those of them whose workflow this process does not know.
    pub unknown: u64,
    /// Sleeping instances whose time has come.
    pub due: u64,
    /// Sleeping instances whose time has not come.
    pub later: u64,
    /// Instances that had attempts running when the process before this one died.
    pub crashed: u64,
    /// Those of them that were put into quarantine, since that had happened too often.
    pub quarantined: u64,
}

/// Charges those who were running when the process before this one died, and counts what there is to do.
pub(crate) async fn recover(shared: &Arc<Shared>, flown: Vec<Flown>) -> Result<Recovery, Error> {
    let mut report = Recovery::default();
    // So many at once share a sync; one after the other, a process that died with thousands in flight would take as many
    // syncs to open again.
    let charges = stream::iter(&flown).map(|flown| async move { (flown, charge(shared, flown).await) });
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
    shared.flight.clear();
    count(shared, &mut report)?;
    Ok(report)
}

/// Charges an instance, if it was running. Tells whether it was put into quarantine for it.
async fn charge(shared: &Arc<Shared>, flown: &Flown) -> Result<Option<bool>, Error> {
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
        (workflow, load::activations(&namespace, &*snapshot)? + 1, state.revision)
    };
    if activations >= shared.config.crash_limit {
        let reason = format!("the process died {activations} times while it ran this instance, which got nowhere");
        supervisor::quarantine(shared, &flown.instance, &reason).await?;
        return Ok(Some(true));
    }
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Revision(flown.instance.clone(), revision))
        .set_runnable(&namespace, Some(&Runnable::new(&*workflow, activations)));
    shared.store.commit(commit).await?;
    if flown.attempts {
        shared.charged.insert(flown.instance.clone(), revision);
    }
    Ok(Some(false))
}

fn count(shared: &Shared, report: &mut Recovery) -> Result<(), Error> {
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
        }
        loop {
            let page = shared.store.alarms(shard, after.as_ref())?;
            let due = page.rows.iter().filter(|(at, ..)| *at <= now).count() as u64;
            report.due += due;
            report.later += page.rows.len() as u64 - due;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Whether this process can run the workflow; one that is not named is looked up when its instance is loaded.
pub(super) fn knows(shared: &Shared, workflow: &str) -> bool {
    workflow.is_empty() || shared.definitions.contains_key(workflow)
}

/// Activates whoever waits, one after the other, as there are places.
pub(crate) async fn admit(shared: Weak<Shared>, admission: Arc<Admission>) {
    loop {
        let crowded = || {
            if let Some(shared) = shared.upgrade() {
                shared.idle.make_room();
            }
        };
        let (instance, place) = admission.next(crowded).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.directory.activate(&instance, place);
    }
}
