//! Deleting instances that ended long enough ago, and what else was kept for long enough.

use std::sync::Arc;

use crate::clock::{Clock, Millis, whole_ms};
use crate::config::{Outcome, Retention};
use crate::ids::InstanceId;
use crate::limits::{SWEEP_EVERY, TOMBSTONE_KEPT};
use crate::storage::key::{Local, Meta};
use crate::storage::record::{IndexRow, Origin, State, Status, Tombstone};
use crate::storage::{Commit, Condition, Cursor, Error, Refusal, Store, forget_most_seen, set_before_all};

/// Hears of every instance that is deleted.
pub(crate) type Gone = dyn Fn(&InstanceId) + Send + Sync;

/// Sweeps again and again. Ended from outside.
pub(crate) async fn run(store: Store, clock: Arc<dyn Clock>, retention: Retention, gone: Arc<Gone>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let mut swept = Swept::default();
        if let Err(error) = sweep(&store, clock.now_ms(), &retention, &*gone, &mut swept).await {
            tracing::error!(%error, "a sweep was not finished; the next one goes on");
        }
        let Swept { deleted, damaged } = swept;
        if deleted > 0 {
            crate::telemetry::deleted(deleted);
            tracing::info!(deleted, "instances were deleted, as configured");
        }
        if damaged > 0 {
            tracing::error!(
                damaged,
                "a sweep has left alone what it could not read; a verify names it"
            );
        }
    }
}

/// What came of a sweep.
#[derive(Debug, Default, PartialEq, Eq)]
struct Swept {
    deleted: u64,
    /// Rows and instances that could not be read.
    damaged: u64,
}

/// Deletes what ended long enough ago, a page at a time.
async fn sweep(store: &Store, now: Millis, retention: &Retention, gone: &Gone, swept: &mut Swept) -> Result<(), Error> {
    // Whoever was started later has not been over for long enough.
    let before_ms = retention
        .shortest()
        .map_or(0, |shortest| now.saturating_sub(whole_ms(shortest)).saturating_add(1));
    for shard in store.shards() {
        let mut after: Option<Cursor> = None;
        loop {
            let page = store.index(shard, before_ms, after.as_ref())?;
            for (instance, row) in page.rows {
                let Some(row) = row else {
                    swept.damaged += 1;
                    continue;
                };
                if !is_over(retention, &row, now) {
                    continue;
                }
                match delete(store, &instance, retention, now).await {
                    Ok(true) => {
                        swept.deleted += 1;
                        gone(&instance);
                    }
                    Ok(false) => {}
                    Err(Error::Corrupt(_) | Error::Decode { .. } | Error::InvalidKey(_)) => swept.damaged += 1,
                    Err(error) => return Err(error),
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
            // Reading a long list must not keep others from their turn.
            tokio::task::yield_now().await;
        }
        loop {
            let page = store.tombstones(shard, after.as_ref())?;
            let mut commit = Commit::new(shard);
            for (instance, tombstone) in page.rows {
                let Some(tombstone) = tombstone else {
                    swept.damaged += 1;
                    continue;
                };
                if now.saturating_sub(tombstone.deleted_at_ms) >= whole_ms(TOMBSTONE_KEPT) {
                    commit.forget_tombstone(&instance);
                }
            }
            if !commit.is_empty() {
                store.commit(commit).await?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if let Some(period) = retention.dead_letters {
            let forgotten = store
                .forget_dead_letters(shard, now.saturating_sub(whole_ms(period)))
                .await?;
            if forgotten > 0 {
                tracing::info!(
                    forgotten,
                    "messages that were not delivered were given up, as configured"
                );
            }
        }
    }
    Ok(())
}

/// Whether an instance with this listing row has been kept for long enough.
fn is_over(retention: &Retention, row: &IndexRow, now: Millis) -> bool {
    let Some(ended) = outcome(row.status) else {
        return false;
    };
    let period = retention.period(&row.workflow, ended);
    period.is_some_and(|period| now.saturating_sub(row.updated_at_ms) >= whole_ms(period))
}

/// How an instance with this status has ended, if it has.
fn outcome(status: Status) -> Option<Outcome> {
    match status {
        Status::Completed => Some(Outcome::Completed),
        Status::Failed => Some(Outcome::Failed),
        Status::Cancelled => Some(Outcome::Cancelled),
        Status::Terminated => Some(Outcome::Terminated),
        Status::Compensated => Some(Outcome::Compensated),
        Status::Pending
        | Status::Running
        | Status::Sleeping
        | Status::Waiting
        | Status::BackingOff
        | Status::Paused
        | Status::Compensating
        | Status::Quarantined
        | Status::Stuck
        | Status::Parked => None,
    }
}

/// Deletes an instance, unless it began another run since its listing row was read, be it that this has ended too: what
/// counts is how long ago that was.
async fn delete(store: &Store, instance: &InstanceId, retention: &Retention, now: Millis) -> Result<bool, Error> {
    let namespace = store.namespace(instance);
    loop {
        let (commit, all) = {
            let snapshot = store.snapshot(namespace.shard())?;
            let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
            let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
            let (Some(state), Some(origin)) = (state, origin) else {
                return Ok(false);
            };
            if !is_over(retention, &IndexRow::of(&origin, &state), now) {
                return Ok(false);
            }
            let mut commit = Commit::new(namespace.shard());
            commit.require(Condition::Revision(instance.clone(), state.revision));
            let sent = set_before_all(&mut commit, &namespace, &*snapshot)?;
            let all = forget_most_seen(&mut commit, &namespace, (&state, now), &*snapshot)? && sent;
            if all {
                commit
                    .purge(&namespace, &origin, &state)
                    .leave_tombstone(&namespace, &Tombstone { deleted_at_ms: now });
            }
            (commit, all)
        };
        match store.commit(commit).await {
            Ok(_) if all => return Ok(true),
            // What it had on its way is seen to first, or something of that has got there meanwhile.
            Ok(_) | Err(Error::Refused(Refusal::NotPosted)) => {}
            Err(Error::Refused(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::ids::Shard;
    use crate::storage::OpenOptions;
    use crate::storage::engines::Memory;

    /// FAULTS 70: found in review. A listing row is read, the instance runs again and ends; only then it is its turn.
    #[tokio::test]
    async fn what_ended_anew_since_its_row_was_read_is_kept() {
        const HOUR_MS: Millis = 3_600_000;
        let store = OpenOptions::new().open_engine(Arc::new(Memory::new())).unwrap();
        let retention = Config::default()
            .keep_completed(Duration::from_millis(HOUR_MS))
            .retention;
        let namespace = store.namespace(&InstanceId::new("again").unwrap());
        let origin = Origin::new("w", 1, 0, 1);
        let ended = State {
            status: Status::Completed,
            ..State::begun(2 * HOUR_MS)
        };
        let mut commit = Commit::new(Shard(0));
        commit
            .set(&namespace, &Local::Meta(Meta::Origin), &origin)
            .set_state(&namespace, None, &ended)
            .set_index(&namespace, &origin, &ended);
        store.commit(commit).await.unwrap();
        let instance = namespace.instance();
        let mut deleted = BTreeMap::new();
        for now in [2 * HOUR_MS, 3 * HOUR_MS - 1, 3 * HOUR_MS, 3 * HOUR_MS + 1] {
            deleted.insert(
                now - 2 * HOUR_MS,
                delete(&store, instance, &retention, now).await.unwrap(),
            );
        }
        let expected = [(0, false), (HOUR_MS - 1, false), (HOUR_MS, true), (HOUR_MS + 1, false)];
        assert_eq!(deleted, expected.into());
    }

    /// FAULTS 15: an instance that has seen very many messages is deleted in several commits. Until the last of them it is
    /// there as a whole.
    #[tokio::test]
    async fn what_an_instance_has_seen_goes_in_commits_of_its_own() {
        use crate::ids::MessageId;
        use crate::limits::SEEN_AT_ONCE_MAX;
        use crate::storage::record::Seen;

        let store = OpenOptions::new().open_engine(Arc::new(Memory::new())).unwrap();
        let retention = Config::default().keep_completed(Duration::from_secs(1)).retention;
        let namespace = store.namespace(&InstanceId::new("old").unwrap());
        let origin = Origin::new("w", 1, 0, 1);
        let ended = State {
            status: Status::Completed,
            ..State::begun(0)
        };
        let mut commit = Commit::new(Shard(0));
        commit
            .set(&namespace, &Local::Meta(Meta::Origin), &origin)
            .set_state(&namespace, None, &ended)
            .set_index(&namespace, &origin, &ended);
        for number in 0..SEEN_AT_ONCE_MAX * 5 / 2 {
            let message = MessageId::new(number.to_string()).unwrap();
            commit.set_seen(&namespace, &message, &Seen::TOO_LATE);
        }
        store.commit(commit).await.unwrap();
        let before = store.commits();
        assert!(delete(&store, namespace.instance(), &retention, 5_000).await.unwrap());
        assert_eq!(store.commits() - before, 3);
        let report = store.verify().unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.instances, 0);
    }

    /// FAULTS 70: an instance begins another run just when it is deleted. That was decided before, and is not written
    /// behind the run.
    #[cfg(feature = "testing")]
    #[tokio::test]
    async fn a_run_that_begins_meanwhile_is_not_deleted() {
        use crate::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan};

        let plan = Plan::new();
        let engine = Faulty::new(Arc::new(Memory::new()), plan.clone());
        let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
        let retention = Config::default().keep_completed(Duration::from_secs(1)).retention;
        let namespace = store.namespace(&InstanceId::new("again").unwrap());
        let origin = Origin::new("w", 1, 0, 1);
        let ended = State {
            status: Status::Completed,
            ..State::begun(0)
        };
        let mut commit = Commit::new(Shard(0));
        commit
            .set(&namespace, &Local::Meta(Meta::Origin), &origin)
            .set_state(&namespace, None, &ended)
            .set_index(&namespace, &origin, &ended);
        store.commit(commit).await.unwrap();
        // The run begins in front of the deletion, which was decided when nothing of it could be seen.
        let gate = Gate::new();
        plan.at_commit(1, CommitFault::Delay(gate.latch()));
        let begun = State {
            revision: ended.revision + 1,
            ..State::begun(5_000)
        };
        let mut commit = Commit::new(Shard(0));
        commit
            .require(Condition::Revision(namespace.instance().clone(), ended.revision))
            .set_state(&namespace, None, &begun);
        let begins = store.try_submit(commit).unwrap();
        gate.wait(1);
        let deletes = delete(&store, namespace.instance(), &retention, 5_000);
        let (deleted, ()) = tokio::join!(deletes, async { gate.open() });
        assert!(!deleted.unwrap());
        begins.durable().await.unwrap();
        let snapshot = store.snapshot(Shard(0)).unwrap();
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap();
        assert_eq!(state, Some(begun));
    }
}
