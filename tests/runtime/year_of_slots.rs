//! A year of slots: every one starts its instance, and what is kept of the schedule stays as small as it was.

use std::ops::ControlFlow;
use std::time::Duration;

use everstep::storage::engine::{Direction, Scan};
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{Origin, State};
use everstep::storage::{Commit, Store};
use everstep::{Every, InstanceId, Overlap, Runtime};

use crate::kit::{echo, open, pass};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Slots in that year, unless the environment says otherwise. A million take minutes, and are for a release build.
const SLOTS: u32 = 300;

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
async fn remove_ended(runtime: &Runtime) -> u32 {
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
#[tokio::test(start_paused = true)]
async fn a_year_of_slots_leaves_a_schedule_as_small_as_it_was() {
    const PARTS: u32 = 10;
    let slots: u32 = std::env::var("EVERSTEP_SLOTS").map_or(SLOTS, |text| text.parse().unwrap());
    for overlap in [Overlap::Skip, Overlap::Allow] {
        let runtime = open().await;
        let interval = YEAR / slots;
        let schedule = runtime.schedule("s", Every::new(interval)).starts(echo, 7);
        let schedule = schedule.overlap(overlap).await.unwrap();
        pass(interval / 2).await;
        let (mut started, mut small) = (0, None);
        for part in 0..PARTS {
            pass(interval * (slots / PARTS)).await;
            started += remove_ended(&runtime).await;
            let now = rows(runtime.store());
            assert_eq!(*small.get_or_insert(now), now, "{overlap:?}, part {part}");
            report(overlap, part, started);
        }
        // Whether there is one in the first half of an interval depends on how it lies.
        let expected = slots / PARTS * PARTS;
        assert!((expected..=expected + 1).contains(&started), "one each: {started}");
        assert_eq!(schedule.describe().await.unwrap().started, u64::from(started));
    }
}

/// Tells how much memory the process has, where it can be read: for whoever counts to a million.
fn report(overlap: Overlap, part: u32, started: u32) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|line| line.starts_with("VmRSS"));
    println!(
        "{overlap:?}, part {part}: {started} slots, {}",
        memory.unwrap_or_default()
    );
}
