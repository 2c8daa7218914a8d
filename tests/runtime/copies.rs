//! A copy of an instance that was exported and imported elsewhere: what others owed the original they owe the copy, as far
//! as they are there; and who is not there is named.

use std::sync::Arc;
use std::time::Duration;

use everstep::storage::OpenOptions;
use everstep::storage::record::{FailureKind, Status};
use everstep::{Builder, ClosePolicy, Config, Ctx, Message, Result, Runtime, Simulated, ok, workflow};
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

/// Lets go of two children, and waits for something else.
#[workflow(accepts(Grown))]
async fn lets_go(ctx: Ctx<LetsGo>) -> Result<u32> {
    drop(ctx.child(child, ()).id("one").start().await?.detach());
    let two = ctx.child(child, ()).id("two").close(ClosePolicy::Abandon);
    drop(two.start().await?);
    let Grown(by) = ctx.receive::<Grown>().await?;
    ok(by)
}

/// Waits for one event, and for something else.
#[workflow(accepts(Grown))]
async fn hears_once(ctx: Ctx<HearsOnce>) -> Result<u32> {
    let Rang(heard) = ctx.wait_event::<Rang>().await?;
    let Grown(by) = ctx.receive::<Grown>().await?;
    ok(heard * 10 + by)
}

#[workflow]
async fn works(ctx: Ctx<Works>, time: String) -> Result<()> {
    ok(ctx.sleep("work", time.as_str()).await?)
}

/// As much as fits into one value, or nearly.
const MUCH: usize = 1_900_000;

#[workflow(accepts(Grown))]
async fn tells_much(ctx: Ctx<TellsMuch>) -> Result<String> {
    let Grown(by) = ctx.receive::<Grown>().await?;
    ok("x".repeat(MUCH * by as usize))
}

#[workflow]
async fn hears_much(ctx: Ctx<HearsMuch>) -> Result<usize> {
    let mut children = Vec::new();
    for number in 0..5 {
        children.push(ctx.child(tells_much, ()).id(format!("much-{number}")).start().await?);
    }
    let mut heard = 0;
    for child in children {
        heard += child.await?.len();
    }
    ok(heard)
}

fn everyone() -> Builder {
    let builder = Runtime::builder().workflow(listens).workflow(child).workflow(parent);
    let builder = builder.workflow(lets_go).workflow(hears_once).workflow(works);
    builder.workflow(tells_much).workflow(hears_much)
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

/// Found in review: the ends of children that a copy had let go before it was exported were sent to it whenever it came to
/// memory, it had seen them, and its code did not run again. Children that end where it is, and children that ended before.
#[test]
fn a_copy_that_let_children_go_goes_on() {
    in_virtual_time(async {
        for ended_before in [false, true] {
            let here = everyone()
                .open_simulated(Machine::new().simulated(Machine::new().disk))
                .await
                .unwrap();
            let family = here.start(lets_go, ()).id("parent").await.unwrap();
            settle().await;
            let mut files = vec![family.export().await.unwrap()];
            for id in ["one", "two"] {
                let left = here.handle(child, id).unwrap();
                if ended_before {
                    left.send(Grown(4)).await.unwrap();
                    settle().await;
                }
                files.push(left.export().await.unwrap());
            }
            here.stop().await;

            let machine = Machine::new();
            let files: Vec<_> = files.iter().collect();
            let there = everyone().open_simulated(elsewhere(&machine, &files)).await.unwrap();
            pass(Duration::from_secs(60)).await;
            if !ended_before {
                for id in ["one", "two"] {
                    let left = there.handle(child, id).unwrap();
                    left.send(Grown(4)).await.unwrap();
                    settle().await;
                    assert_eq!(left.status().await.unwrap().status, Status::Completed);
                }
            }
            let copy = there.handle(lets_go, "parent").unwrap();
            there.passivate("parent").await.unwrap();
            copy.send(Grown(7)).await.unwrap();
            settle().await;
            // Nobody waits for it here: that would be for ever.
            let status = copy.status().await.unwrap().status;
            assert_eq!(status, Status::Completed, "ended before: {ended_before}");
            assert_eq!(copy.result().await.unwrap(), 7);
            assert!(there.store().verify().unwrap().is_clean());
        }
    });
}

/// Found in review: all that a copy had missed went into one commit, and the copy was in quarantine when that was too much.
#[test]
fn a_copy_hears_of_much_in_pieces() {
    in_virtual_time(async {
        let here = everyone()
            .open_simulated(Machine::new().simulated(Machine::new().disk))
            .await
            .unwrap();
        let family = here.start(hears_much, ()).id("parent").await.unwrap();
        settle().await;
        let mut files = vec![family.export().await.unwrap()];
        for number in 0..5 {
            let told = here.handle(tells_much, &format!("much-{number}")).unwrap();
            told.send(Grown(1)).await.unwrap();
            told.result().await.unwrap();
            files.push(told.export().await.unwrap());
        }
        here.stop().await;

        let machine = Machine::new();
        let files: Vec<_> = files.iter().collect();
        let there = everyone().open_simulated(elsewhere(&machine, &files)).await.unwrap();
        pass(Duration::from_secs(600)).await;
        let copy = there.handle(hears_much, "parent").unwrap();
        let status = copy.status().await.unwrap();
        assert_eq!(status.status, Status::Completed, "{:?}", status.hold);
        assert_eq!(copy.result().await.unwrap(), 5 * MUCH);
        assert!(there.store().verify().unwrap().is_clean());
    });
}

/// Found in review: a copy of an instance that waited for its turn and had a deadline was taken for one that begins later. It
/// did not come to the gate, and failed at its deadline.
#[test]
fn a_copy_that_waits_for_its_turn_and_has_a_deadline_comes_to_the_gate() {
    in_virtual_time(async {
        let here = everyone()
            .open_simulated(Machine::new().simulated(Machine::new().disk))
            .await
            .unwrap();
        let holder = here.start(works, "365d".to_owned()).at_most(1, "k");
        holder.await.unwrap();
        let waits = here.start(works, "1s".to_owned()).id("waits").deadline("1d");
        let waits = waits.at_most(1, "k").await.unwrap();
        settle().await;
        assert_eq!(waits.status().await.unwrap().status, Status::Pending);
        let file = waits.export().await.unwrap();
        here.stop().await;

        for way in ["free", "taken", "taken for long"] {
            let machine = Machine::new();
            if way != "free" {
                let there = everyone()
                    .open_simulated(machine.simulated(machine.disk.clone()))
                    .await
                    .unwrap();
                let holder = there.start(works, "365d".to_owned()).id("holder");
                holder.at_most(1, "k").await.unwrap();
                settle().await;
                there.stop().await;
            }
            let there = everyone().open_simulated(elsewhere(&machine, &[&file])).await.unwrap();
            pass(Duration::from_secs(5)).await;
            let copy = there.handle(works, "waits").unwrap();
            if way != "free" {
                let status = copy.status().await.unwrap();
                let stands = (status.status, status.waits_for_turn.as_deref());
                assert_eq!(stands, (Status::Pending, Some("k")), "{way}");
            }
            if way == "taken for long" {
                pass(Duration::from_secs(2 * 24 * 3600)).await;
                let failed = copy.status().await.unwrap();
                assert_eq!(failed.status, Status::Failed);
                assert_eq!(failed.failure.unwrap().kind, FailureKind::DeadlineExceeded);
                continue;
            }
            if way == "taken" {
                let holder = there.handle(works, "holder").unwrap();
                holder.terminate("away").await.unwrap();
                pass(Duration::from_secs(5)).await;
            }
            assert_eq!(copy.status().await.unwrap().status, Status::Completed, "{way}");
            assert!(there.store().verify().unwrap().is_clean(), "{way}");
        }
    });
}

/// Found in review: a copy that an event for all had brought to memory told the topic once more that it waits, for what it
/// took in the same commit. While it was paused, an event for one was kept for it, and others who waited did not get it.
#[test]
fn a_copy_that_has_heard_waits_no_more() {
    in_virtual_time(async {
        // In the shard of the topic, and in others.
        for id in ["a", "b", "c", "d", "e", "f"] {
            let here = everyone()
                .open_simulated(Machine::new().simulated(Machine::new().disk))
                .await
                .unwrap();
            let original = here.start(hears_once, ()).id(id).await.unwrap();
            settle().await;
            let file = original.export().await.unwrap();
            here.stop().await;

            let machine = Machine::new();
            // Whoever waits leaves memory at once.
            let leaving = everyone().config(Config::default().idle(Duration::ZERO));
            let there = leaving.open_simulated(elsewhere(&machine, &[&file])).await.unwrap();
            settle().await;
            there.publish(Rang(1)).await.unwrap();
            settle().await;
            let copy = there.handle(hears_once, id).unwrap();
            copy.pause().await.unwrap();
            let late = there.start(hears_once, ()).id("late").await.unwrap();
            settle().await;
            there.publish(Rang(5)).to_one().await.unwrap();
            late.send(Grown(2)).await.unwrap();
            pass(Duration::from_secs(60)).await;
            let told = late.status().await.unwrap();
            assert_eq!(told.status, Status::Completed, "{id}: {:?}", told.current);
            assert_eq!(late.result().await.unwrap(), 52, "{id}");
            copy.resume().await.unwrap();
            copy.send(Grown(3)).await.unwrap();
            assert_eq!(copy.result().timeout("1m").await.unwrap(), 13, "{id}");
            assert!(there.store().verify().unwrap().is_clean(), "{id}");
        }
    });
}
