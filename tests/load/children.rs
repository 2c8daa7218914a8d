//! One parent with ten thousand children.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::bystander::{SERVED, bystands, nobody_waits_for_all, serve, served};
use crate::ground::{carries, pass, size, small, until};

/// What a parent may hold for a child: its entry in the history, its future, its outcome.
const CHILD_BYTES: usize = 4 * 1024;

#[workflow]
async fn child(ctx: Ctx<Child>, (number, nap): (u64, bool)) -> Result<u64> {
    if nap {
        ctx.sleep("nap", "1d").await?;
    }
    ctx.step("serve", serve).await?;
    ok(number)
}

#[workflow]
async fn parent(ctx: Ctx<Parent>, (many, nap): (u64, bool)) -> Result<u64> {
    let mut children = Vec::new();
    for number in 0..many {
        children.push(ctx.child(child, (number, nap)).start().await?);
    }
    let mut sum = 0;
    for child in children {
        sum += child.await?;
    }
    ok(sum)
}

fn builder() -> everstep::Builder {
    Runtime::builder().workflow(parent).workflow(child).workflow(bystands)
}

#[test]
fn ten_thousand_children_finish_and_keep_nobody_waiting() {
    carries(
        "children of one parent",
        size(1_000, 10_000),
        CHILD_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let runtime = ground.open(builder(), small()).await;
            runtime.start(bystands, ()).id("old").await.unwrap();
            let parent = runtime.start(parent, (many, false)).await.unwrap();
            until(|| served() > 0).await;
            nobody_waits_for_all(&runtime, "old", many).await;
            assert_eq!(parent.result().await.unwrap(), many * (many - 1) / 2);
            assert_eq!(served(), many);
        },
    );
}

/// The machine dies in the middle of it, and it is carried on.
#[test]
fn ten_thousand_children_are_cancelled_with_their_parent() {
    carries(
        "children that are cancelled",
        size(1_000, 10_000),
        CHILD_BYTES,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let runtime = ground.open(builder(), small()).await;
            let handle = runtime.start(parent, (many, true)).id("parent").await.unwrap();
            pass(Duration::from_secs(60)).await;
            assert_eq!(runtime.list().parent("parent").count().await.unwrap(), many);
            handle.cancel("enough").await.unwrap();
            assert!(handle.result().await.is_err());
            drop((handle, runtime));
            let runtime = ground.open(builder(), small()).await;
            let cancelled = runtime.list().parent("parent").status(Status::Cancelled);
            assert!(
                cancelled.count().await.unwrap() < many,
                "the machine died in the middle of it"
            );
            pass(Duration::from_secs(60)).await;
            let cancelled = runtime.list().parent("parent").status(Status::Cancelled);
            assert_eq!(cancelled.count().await.unwrap(), many);
            assert_eq!(served(), 0, "nobody went on");
        },
    );
}
