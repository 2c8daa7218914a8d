//! A year of slots: every one starts its instance, and what is kept of the schedule stays as small as it was.

use std::ops::ControlFlow;
use std::time::Duration;

use everstep::storage::engine::{Direction, Scan};
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{Origin, State};
use everstep::storage::{Commit, Store};
use everstep::{Ctx, Every, InstanceId, Overlap, Result, Runtime, ok, workflow};

use crate::ground::{carries, pass, size, small};

const YEAR_S: u64 = 365 * 24 * 60 * 60;

/// Slots after which those that have ended are removed.
const PART: u64 = 50;

#[workflow]
async fn slot(ctx: Ctx<Slot>) -> Result<()> {
    ok(ctx.step("work", || async { ok(()) }).await?)
}

/// Rows of the store, and those of them that belong to the schedule.
fn rows(store: &Store) -> (usize, usize) {
    let (mut all, mut own) = (0, 0);
    let scan = Scan {
        start: &[],
        end: &[0xff],
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    for shard in store.shards() {
        let snapshot = store.snapshot(shard).unwrap();
        let mut visit = |key: &[u8], _: &[u8]| {
            all += 1;
            own += usize::from(key.windows(10).any(|part| part == b"__schedule"));
            ControlFlow::Continue(())
        };
        snapshot.scan(&scan, &mut visit).unwrap();
    }
    (all, own)
}

/// Removes every instance that has ended, without a trace. Tells how many there were.
async fn remove_ended(runtime: &Runtime) -> u64 {
    let (store, mut removed) = (runtime.store(), 0);
    loop {
        let page = runtime.list().limit(1024).await.unwrap();
        for row in &page.rows {
            let instance = InstanceId::new(row.id.as_str()).unwrap();
            let namespace = store.namespace(&instance);
            let snapshot = store.snapshot(namespace.shard()).unwrap();
            let origin: Origin = namespace.get(&*snapshot, &Local::Meta(Meta::Origin)).unwrap().unwrap();
            let state: State = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap();
            drop(snapshot);
            assert!(state.status.is_terminal(), "{} has had its time", row.id);
            let mut commit = Commit::new(namespace.shard());
            commit.purge(&namespace, &origin, &state);
            store.commit(commit).await.unwrap();
            removed += 1;
        }
        if page.next.is_none() {
            return removed;
        }
    }
}

/// FAULTS 65 for schedules, with the policy that hears of every end and the one that does not.
#[test]
fn a_million_slots_in_a_year_leave_a_schedule_as_small_as_it_was() {
    for overlap in [Overlap::Skip, Overlap::Allow] {
        carries(
            &format!("slots ({overlap:?})"),
            size(400, 1_000_000),
            0,
            async |ground, slots| {
                let runtime = ground.open(Runtime::builder().workflow(slot), small()).await;
                let interval = Duration::from_secs(YEAR_S / (slots + 1));
                let schedule = runtime.schedule("s", Every::new(interval)).starts(slot, ());
                let schedule = schedule.overlap(overlap).await.unwrap();
                pass(interval / 2).await;
                let (mut started, mut few) = (0, None);
                for part in 0..slots / PART {
                    pass(interval * u32::try_from(PART).unwrap()).await;
                    started += remove_ended(&runtime).await;
                    let now = rows(runtime.store());
                    assert_eq!(*few.get_or_insert(now), now, "{overlap:?}, part {part}");
                }
                // Whether there is one in the first half of an interval depends on how it lies.
                let expected = slots / PART * PART;
                assert!((expected..=expected + 1).contains(&started), "one each: {started}");
                assert_eq!(schedule.describe().await.unwrap().started, started);
            },
        );
    }
}
