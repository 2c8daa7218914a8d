//! FAULTS 66 and 67: floods of messages and of starts are bounded, and others do not notice them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep::{Ctx, Error, Loop, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::bystander::{SERVED, bystands, nobody_waits_for_all, serve, served};
use crate::ground::{carries, each, pass, size, small, until};

const INBOX: usize = 1_000;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Drop(Vec<u8>);

/// Takes one message a minute.
#[workflow(accepts(Drop))]
async fn sips(ctx: Ctx<Sips>) -> Result<()> {
    let body = |ctx: Ctx<Sips>, ()| async move {
        ctx.receive::<Drop>().await?;
        ctx.sleep("digest", "1min").await?;
        ok(Loop::<(), ()>::Continue(()))
    };
    ok(ctx.repeat("sips", (), body).await?)
}

#[workflow]
async fn floods(ctx: Ctx<Floods>) -> Result<()> {
    ok(ctx.step("serve", serve).await?)
}

/// One inbox is full; the sender is told, and the memory of the runtime is that of the inbox.
#[test]
fn messages_that_come_faster_than_they_are_taken_are_refused() {
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    carries("messages to one", size(8_000, 1_000_000), 0, async |ground, many| {
        SERVED.store(0, Ordering::Relaxed);
        REFUSED.store(0, Ordering::Relaxed);
        let builder = Runtime::builder().workflow(sips).workflow(bystands);
        let runtime = ground.open(builder, small().inbox_max(INBOX)).await;
        let sips = runtime.start(sips, ()).await.unwrap();
        runtime.start(bystands, ()).id("old").await.unwrap();
        let flood = each(many, async |number| {
            match sips.send(Drop(vec![number as u8; 1_000])).await {
                Err(Error::InboxFull { .. }) => drop(REFUSED.fetch_add(1, Ordering::Relaxed)),
                sent => drop(sent.unwrap()),
            }
            SERVED.fetch_add(1, Ordering::Relaxed);
            // One thread has all: whoever is refused is so at once, and has to let others go on.
            tokio::task::yield_now().await;
        });
        let other = async {
            until(|| served() > 0).await;
            nobody_waits_for_all(&runtime, "old", many).await;
        };
        // The other first: whoever comes second has what the flood leaves of the turn of their task.
        futures_util::future::join(other, flood).await;
        let refused = REFUSED.load(Ordering::Relaxed);
        assert!(refused > 0 && many - refused >= INBOX as u64, "{refused} of {many}");
    });
}

/// One workflow is started very often; what else there is has its turn.
#[test]
fn a_workflow_that_is_started_too_often_keeps_nobody_waiting() {
    carries(
        "starts of one workflow",
        size(6_000, 100_000),
        0,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let builder = Runtime::builder().workflow(floods).workflow(bystands);
            let config = small().workflow_attempts_max("floods", 8);
            let runtime = ground.open(builder, config).await;
            runtime.start(bystands, ()).id("old").await.unwrap();
            let flood = each(many, async |_| drop(runtime.start(floods, ()).await.unwrap()));
            let other = async {
                until(|| served() > 0).await;
                nobody_waits_for_all(&runtime, "old", many).await;
            };
            // The other first: whoever comes second has what the flood leaves of the turn of their task.
            futures_util::future::join(other, flood).await;
            pass(Duration::from_secs(60 * 60)).await;
            assert_eq!(served(), many);
        },
    );
}
