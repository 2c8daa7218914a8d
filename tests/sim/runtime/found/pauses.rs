//! Bugs of instances that are held.

use std::time::Duration;

use everstep::{Ctx, Result, Runtime, Workflow, ok};

use super::play;
use crate::runtime::ledger;

/// Looks something up in passing, and then works.
struct Passing;

impl Workflow for Passing {
    const NAME: &'static str = "passing";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let found = ctx.step("look up", || async { ok(1) }).ephemeral().await?;
        let work = move || async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ok(found + 1)
        };
        ok(ctx.step("work", work).ephemeral().await?)
    }
}

/// An instance was paused while a step ran, and had seen the result of an ephemeral one before. That this was not durable
/// yet was worth a commit when the step had ended, and again after each of these commits: they were made without end, and
/// the resumption was the only thing that ended them. BEHAVIOUR 10, 44.
#[test]
fn what_was_seen_in_passing_is_stored_once_when_the_instance_is_held() {
    play(|machine| async {
        let opening = Runtime::builder().workflow(Passing).open_simulated(machine);
        let runtime = opening.await.unwrap();
        let passing = runtime.start(Passing, ()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        passing.pause().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // One that begins it, one that holds it, one with what the step came to.
        let commits = ledger::with(|ledger| ledger.commits);
        assert!(commits <= 10, "it goes round in circles: {commits} commits");
        passing.resume().await.unwrap();
        assert_eq!(passing.result().await.unwrap(), 2);
    });
}
