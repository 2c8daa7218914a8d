//! FAULTS 65: a loop of a million iterations leaves the store and the memory as they were after the first thousand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep::{Ctx, Loop, Result, Runtime, ok, workflow};

use crate::ground::{carries, pass, size, small};

static ITERATIONS: AtomicU64 = AtomicU64::new(0);

#[workflow]
async fn turns(ctx: Ctx<Turns>, many: u64) -> Result<u64> {
    let body = move |ctx: Ctx<Turns>, turn: u64| async move {
        let count = || async {
            ITERATIONS.fetch_add(1, Ordering::Relaxed);
            ok(())
        };
        ctx.step("count", count).await?;
        if turn % 100 == 99 {
            ctx.sleep("rest", "1s").await?;
        }
        let next = turn + 1;
        ok(if next == many {
            Loop::Break(next)
        } else {
            Loop::Continue(next)
        })
    };
    ok(ctx.repeat("turns", 0, body).await?)
}

#[test]
fn a_million_iterations_leave_nothing_behind() {
    carries("iterations", size(8_000, 1_000_000), 0, async |ground, many| {
        ITERATIONS.store(0, Ordering::Relaxed);
        let open = || ground.open(Runtime::builder().workflow(turns), small());
        let mut runtime = open().await;
        runtime.start(turns, many).id("turns").await.unwrap();
        let mut small = None;
        // A hundred iterations a second, and the machine dies ten times on the way.
        for part in 0..10 {
            pass(Duration::from_millis(many * 10 / 10)).await;
            let held = ground.store.held();
            let first = *small.get_or_insert(held);
            assert!(held <= first + first / 2, "part {part}: {held} bytes, {first} at first");
            drop(runtime);
            runtime = open().await;
        }
        let result = runtime.handle(turns, "turns").unwrap().result().await.unwrap();
        assert_eq!(result, many);
        let repeated = ITERATIONS.load(Ordering::Relaxed) - many;
        assert!(
            repeated <= 10,
            "an attempt is repeated at most once for each death: {repeated}"
        );
    });
}
