//! FAULTS 63: a start with very many who have something to do. They are let in a few at a time, and reads and others are
//! answered meanwhile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::bystander::{SERVED, bystands, nobody_waits_for_all, serve, served};
use crate::ground::{carries, each, pass, size, small, until};

#[workflow]
async fn works(ctx: Ctx<Works>) -> Result<()> {
    ok(ctx.step("serve", serve).await?)
}

/// Keeps the only place there is.
#[workflow]
async fn occupies(ctx: Ctx<Occupies>) -> Result<()> {
    let never = || async {
        std::future::pending::<()>().await;
        ok(())
    };
    ok(ctx.step("never", never).await?)
}

#[test]
fn a_hundred_thousand_who_could_not_run_are_caught_up_with() {
    carries(
        "runnable at the start",
        size(6_000, 100_000),
        0,
        async |ground, many| {
            SERVED.store(0, Ordering::Relaxed);
            let builder = || Runtime::builder().workflow(works).workflow(bystands);
            let runtime = ground
                .open(builder().workflow(occupies), small().residents_max(1))
                .await;
            runtime.start(bystands, ()).id("old").await.unwrap();
            pass(Duration::from_secs(1)).await;
            runtime.start(occupies, ()).id("occupies").await.unwrap();
            pass(Duration::from_secs(1)).await;
            each(many, async |number| {
                runtime.start(works, ()).id(format!("w{number}")).await.unwrap();
            })
            .await;
            pass(Duration::from_secs(1)).await;
            assert_eq!(served(), 0);
            drop(runtime);

            // Whoever kept the place is not known any more, and is left alone.
            let runtime = ground.open(builder(), small()).await;
            until(|| served() > 0).await;
            let last = runtime.handle(works, &format!("w{}", many - 1)).unwrap();
            last.status().await.unwrap();
            assert!(served() < many / 4, "a read: after {} of {many}", served());
            nobody_waits_for_all(&runtime, "old", many).await;
            pass(Duration::from_secs(60 * 60)).await;
            assert_eq!(served(), many);
        },
    );
}
