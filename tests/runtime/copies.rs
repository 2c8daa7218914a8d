//! A copy of an instance that was exported and imported elsewhere: what others owed the original they owe the copy, as far
//! as they are there; and who is not there is named.

use std::sync::Arc;
use std::time::Duration;

use everstep::storage::OpenOptions;
use everstep::storage::record::Status;
use everstep::{Builder, Ctx, Message, Result, Runtime, Simulated, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, in_virtual_time, settle};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
struct Grown(u32);

/// Waits for two events, one after the other.
#[workflow]
async fn listens(ctx: Ctx<Listens>) -> Result<u32> {
    let Rang(first) = ctx.wait_event::<Rang>().await?;
    let Rang(second) = ctx.wait_event::<Rang>().await?;
    ok(first * 10 + second)
}

#[workflow(accepts(Grown))]
async fn child(ctx: Ctx<Child>) -> Result<u32> {
    let Grown(by) = ctx.receive::<Grown>().await?;
    ok(by)
}

#[workflow]
async fn parent(ctx: Ctx<Parent>) -> Result<u32> {
    let (one, two) = tokio::join!(ctx.child(child, ()).id("one"), ctx.child(child, ()).id("two"));
    ok(one? * 10 + two?)
}

fn everyone() -> Builder {
    Runtime::builder().workflow(listens).workflow(child).workflow(parent)
}

/// A store elsewhere, with these files imported in their order.
fn elsewhere(machine: &Machine, files: &[&String]) -> Simulated {
    for file in files {
        let engine = Arc::new(machine.disk.clone());
        let imported = OpenOptions::new().shards(3).import_engine(engine, &mut file.as_bytes());
        drop(imported.unwrap());
    }
    machine.simulated(machine.disk.clone())
}

async fn pass(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
    settle().await;
}

/// Found in a walk through what is promised: a copy stood in no list of a topic, and waited for ever.
#[test]
fn a_copy_hears_of_events_that_are_published_where_it_is() {
    in_virtual_time(async {
        let here = everyone()
            .open_simulated(Machine::new().simulated(Machine::new().disk))
            .await
            .unwrap();
        let order = here.start(listens, ()).id("order").await.unwrap();
        let other = here.start(listens, ()).id("other").await.unwrap();
        settle().await;
        here.publish(Rang(1)).await.unwrap();
        settle().await;
        let (file, too) = (order.export().await.unwrap(), other.export().await.unwrap());
        here.stop().await;

        let machine = Machine::new();
        let there = everyone()
            .open_simulated(elsewhere(&machine, &[&file, &too]))
            .await
            .unwrap();
        settle().await;
        // Through another life of the process, and out of memory: it is told of once.
        drop(there);
        let there = everyone()
            .open_simulated(machine.simulated(machine.disk.clone()))
            .await
            .unwrap();
        settle().await;
        there.passivate("order").await.unwrap();
        there.publish(Rang(7)).to_one().await.unwrap();
        there.publish(Rang(8)).to_one().await.unwrap();
        pass(Duration::from_secs(60)).await;
        let mut sums = Vec::new();
        for id in ["order", "other"] {
            let copy = there.handle(listens, id).unwrap();
            sums.push(copy.result().timeout("1m").await.unwrap());
        }
        sums.sort_unstable();
        assert_eq!(sums, [17, 18]);
        // Nobody waits there any more, and nothing was handed out twice.
        let late = there.start(listens, ()).id("late").await.unwrap();
        there.publish(Rang(2)).await.unwrap();
        settle().await;
        there.publish(Rang(3)).await.unwrap();
        assert_eq!(late.result().timeout("1m").await.unwrap(), 23);
        assert!(there.store().verify().unwrap().is_clean());
    });
}

/// Found in the same walk: a copy was never told of the end of a child, and nothing said so. In every order in which they
/// can be imported, with one child that ended before and one that ends there.
#[test]
fn a_copy_hears_of_its_children_that_were_imported_too() {
    in_virtual_time(async {
        let here = everyone()
            .open_simulated(Machine::new().simulated(Machine::new().disk))
            .await
            .unwrap();
        let family = here.start(parent, ()).id("parent").await.unwrap();
        settle().await;
        let parent_file = family.export().await.unwrap();
        let one = here.handle(child, "one").unwrap();
        one.send(Grown(4)).await.unwrap();
        assert_eq!(one.result().await.unwrap(), 4);
        let one_file = one.export().await.unwrap();
        let two_file = here.handle(child, "two").unwrap().export().await.unwrap();
        here.stop().await;

        let orders: [&[&[&String]]; 4] = [
            &[&[&parent_file, &one_file, &two_file]],
            &[&[&two_file, &one_file, &parent_file]],
            &[&[&parent_file], &[&one_file], &[&two_file]],
            &[&[&parent_file], &[&two_file, &one_file]],
        ];
        for (number, order) in orders.into_iter().enumerate() {
            let machine = Machine::new();
            for (at, files) in order.iter().enumerate() {
                let there = everyone().open_simulated(elsewhere(&machine, files)).await.unwrap();
                pass(Duration::from_secs(60)).await;
                let copy = there.handle(parent, "parent").unwrap();
                let status = copy.status().await.unwrap();
                assert_eq!(status.status, Status::Waiting, "{number}");
                let missing: Vec<_> = status.children.iter().filter(|child| child.missing).collect();
                let imported: usize = order[..=at].iter().map(|files| files.len()).sum();
                assert_eq!(missing.len(), 3 - imported, "{number}: {:?}", status.children);
                if imported == 3 {
                    let ended = status.children.iter().filter(|child| child.ended).count();
                    assert_eq!(ended, 1, "{number}: {:?}", status.children);
                    there.handle(child, "two").unwrap().send(Grown(2)).await.unwrap();
                    assert_eq!(copy.result().timeout("1m").await.unwrap(), 42, "{number}");
                    let ended = copy.status().await.unwrap().children;
                    assert!(ended.iter().all(|child| !child.missing), "{number}");
                    assert!(there.store().verify().unwrap().is_clean(), "{number}");
                }
            }
        }
    });
}
