//! FAULTS 28: very many alarms in the same second. They are served a few at a time, and nobody else waits for them all.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use everstep::{Ctx, Result, Runtime, ok, workflow};

use crate::bystander::{SERVED, bystands, nobody_waits_for_all, serve, served};
use crate::ground::{carries, each, pass, size, small, until};

const HOUR: Duration = Duration::from_secs(60 * 60);

#[workflow]
async fn rises(ctx: Ctx<Rises>, morning: SystemTime) -> Result<()> {
    ctx.sleep_until("night", morning).await?;
    ok(ctx.step("serve", serve).await?)
}

#[test]
fn a_hundred_thousand_alarms_in_a_second_keep_nobody_waiting() {
    carries("alarms in one second", size(6_000, 100_000), 0, async |ground, many| {
        SERVED.store(0, Ordering::Relaxed);
        let builder = Runtime::builder().workflow(rises).workflow(bystands);
        let runtime = ground.open(builder, small()).await;
        runtime.start(bystands, ()).id("old").await.unwrap();
        let morning = ground.now() + HOUR;
        each(many, async |_| drop(runtime.start(rises, morning).await.unwrap())).await;
        pass(morning.duration_since(ground.now()).unwrap()).await;
        until(|| served() > 0).await;
        nobody_waits_for_all(&runtime, "old", many).await;
        pass(HOUR).await;
        assert_eq!(served(), many);
    });
}
