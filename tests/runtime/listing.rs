//! BEHAVIOUR 48, FAULTS 71: listings show what there is, by what it is, and stay whole while things change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Ctx, List, Listed, Result, Runtime, ok, workflow};

use crate::kit::{Word, after, echo, everyone, machine, naps, open, waits};

/// Reads all pages, doing something between any two.
async fn pages<'a>(list: impl Fn() -> List, between: impl AsyncFn(usize) + 'a) -> Vec<Listed> {
    let (mut rows, mut next, mut page) = (Vec::new(), None::<String>, 0);
    loop {
        let list = match next.take() {
            Some(cursor) => list().after(cursor),
            None => list(),
        };
        let found = list.limit(7).await.unwrap();
        assert!(found.rows.len() <= 7);
        rows.extend(found.rows);
        next = found.next;
        if next.is_none() {
            return rows;
        }
        between(page).await;
        page += 1;
    }
}

async fn populate(runtime: &Runtime) {
    for number in 0..30 {
        let start = runtime.start(waits, 1).id(format!("w{number:02}"));
        start.tag("parity", (number % 2).to_string()).await.unwrap();
        crate::kit::pass(Duration::from_millis(u64::from(number % 3 == 0))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn everyone_who_stays_is_listed_once_while_others_come_go_and_change() {
    let runtime = open().await;
    for newest_first in [true, false] {
        populate(&runtime).await;
        let list = || {
            let list = runtime.list().workflow("waits");
            if newest_first { list } else { list.oldest_first() }
        };
        let changes = async |page: usize| {
            // One ends that was shown, one that was not; one goes; one comes.
            for number in [page, 29 - page] {
                runtime
                    .handle(waits, &format!("w{number:02}"))
                    .unwrap()
                    .send(Word(1))
                    .await
                    .unwrap();
            }
            let gone = runtime.instance(&format!("w{:02}", 15 + page)).unwrap();
            gone.delete_anyway("in the way").await.unwrap();
            runtime
                .start(waits, 1)
                .id(format!("x{newest_first}{page}"))
                .await
                .unwrap();
        };
        let rows = pages(list, changes).await;
        let mut seen = BTreeMap::new();
        for row in &rows {
            *seen.entry(row.id.as_str()).or_insert(0) += 1;
            assert!(
                matches!(
                    row.status,
                    Status::Pending | Status::Waiting | Status::Running | Status::Completed
                ),
                "{row:?}"
            );
        }
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        for number in (0..15).chain(20..30) {
            assert!(
                seen.contains_key(format!("w{number:02}").as_str()),
                "w{number:02} is missing"
            );
        }
        let times: Vec<_> = rows.iter().map(|row| row.created_at_ms).collect();
        assert!(times.is_sorted_by(|one, two| if newest_first { one >= two } else { one <= two }));
        for row in runtime.list().limit(1_000).await.unwrap().rows {
            runtime
                .instance(&row.id)
                .unwrap()
                .delete_anyway("next round")
                .await
                .unwrap();
        }
        assert_eq!(runtime.list().count().await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn filters_let_through_what_they_say() {
    let runtime = open().await;
    populate(&runtime).await;
    crate::kit::pass(Duration::from_secs(10)).await;
    runtime
        .start(naps, 60)
        .id("n")
        .tag("parity", "1")
        .tag("late", "yes")
        .await
        .unwrap();
    runtime.start(echo, 1).id("e").await.unwrap().result().await.unwrap();
    let ids = async |list: List| -> BTreeSet<String> {
        list.limit(1_000)
            .await
            .unwrap()
            .rows
            .into_iter()
            .map(|row| row.id)
            .collect()
    };
    let only = |ids: &[&str]| -> BTreeSet<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
    assert_eq!(ids(runtime.list().workflow("echo")).await, only(&["e"]));
    assert_eq!(ids(runtime.list().status(Status::Completed)).await, only(&["e"]));
    let late = runtime.list().started_from(after(Duration::from_secs(5)));
    assert_eq!(ids(late).await, only(&["e", "n"]));
    let early = runtime.list().started_before(after(Duration::from_secs(5)));
    assert_eq!(early.count().await.unwrap(), 30);
    assert_eq!(
        ids(runtime.list().tag("parity", "1").tag("late", "yes")).await,
        only(&["n"])
    );
    assert_eq!(runtime.list().tag("parity", "1").count().await.unwrap(), 16);
    assert_eq!(
        runtime
            .list()
            .status(Status::Sleeping)
            .status(Status::Completed)
            .count()
            .await
            .unwrap(),
        2
    );
    assert_eq!(runtime.list().parent("n").count().await.unwrap(), 0);
    let changed = runtime.list().changed_from(after(Duration::from_secs(5)));
    assert_eq!(ids(changed).await, only(&["e", "n"]));
    let unchanged = runtime.list().changed_before(after(Duration::from_secs(5)));
    assert_eq!(unchanged.count().await.unwrap(), 30);
    let next = runtime.list().limit(1).await.unwrap().next.unwrap();
    assert_eq!(
        runtime.list().oldest_first().after(next).await.unwrap_err().code(),
        "ES0412"
    );
}

#[workflow]
async fn raises(ctx: Ctx<Raises>, children: u64) -> Result<()> {
    for number in 0..children {
        ctx.child(naps, 600)
            .id(format!("{}-{number}", ctx.id()))
            .start()
            .await?
            .detach();
    }
    ctx.sleep("long", "1h").await?;
    ok(())
}

/// The children of one are found by their parent, in every shard, in pages of any size and in both orders.
#[tokio::test(start_paused = true)]
async fn children_are_listed_by_their_parent_across_shards() {
    let config = Config::default().shards(4);
    let builder = everyone().workflow(raises).config(config);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    for parent in ["one", "two"] {
        runtime.start(raises, 20).id(parent).await.unwrap();
    }
    crate::kit::pass(Duration::from_secs(1)).await;
    let expected: BTreeSet<String> = (0..20).map(|number| format!("two-{number}")).collect();
    for newest_first in [true, false] {
        let children = || {
            let list = runtime.list().parent("two").status(Status::Sleeping);
            if newest_first { list } else { list.oldest_first() }
        };
        let rows = pages(children, async |_| ()).await;
        assert_eq!(rows.len(), 20);
        let found: BTreeSet<String> = rows.iter().map(|row| row.id.clone()).collect();
        assert_eq!(found, expected);
        let places: Vec<_> = rows.iter().map(|row| (row.created_at_ms, &row.id)).collect();
        assert!(places.is_sorted_by(|one, two| if newest_first { one >= two } else { one <= two }));
        assert_eq!(children().count().await.unwrap(), 20);
    }
    assert_eq!(runtime.list().count().await.unwrap(), 42);
}
