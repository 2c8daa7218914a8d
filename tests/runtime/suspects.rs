//! FAULTS 34: whoever may be what the process dies of runs alone for a while. The others of its kind wait for that, and
//! nobody waits for them.

use std::sync::Mutex;
use std::time::Duration;

use everstep::limits::{DEATHS_BEFORE_PROBATION, PROBATION_TIME};
use everstep::storage::Commit;
use everstep::storage::record::{Runnable, Status};
use everstep::{Attempt, Config, Ctx, InstanceId, Result, Runtime, ok, workflow};

use crate::machine::{Machine, in_virtual_time, settle};

/// Whose step has begun, in order.
static BEGUN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn begun() -> Vec<String> {
    BEGUN.lock().unwrap().clone()
}

/// Never gets anywhere.
#[workflow]
async fn suspect(ctx: Ctx<Suspect>) -> Result<()> {
    let work = |attempt: Attempt| async move {
        BEGUN.lock().unwrap().push(attempt.instance().to_string());
        std::future::pending::<()>().await;
        ok(())
    };
    ok(ctx.step("work", work).await?)
}

#[workflow]
async fn other(ctx: Ctx<Other>) -> Result<u32> {
    ok(ctx.step("work", || async { ok(1) }).await?)
}

/// As many deaths as make suspects of them, as the next start would write.
async fn accuse(runtime: &Runtime, ids: &[&str]) {
    for id in ids {
        let namespace = runtime.store().namespace(&InstanceId::new(*id).unwrap());
        let mut commit = Commit::new(namespace.shard());
        commit.set_runnable(&namespace, Some(&Runnable::new("suspect", DEATHS_BEFORE_PROBATION)));
        runtime.store().commit(commit).await.unwrap();
    }
}

/// Found in review: suspects waited for their turn in memory, for as long as the steps of those before them took. They had
/// all places, heard of no operator, and kept a runtime from stopping.
#[test]
fn suspects_run_one_after_the_other_and_keep_nobody_waiting() {
    in_virtual_time(async {
        let machine = Machine::new();
        let builder = || Runtime::builder().workflow(suspect).workflow(other);
        let ids = ["a", "b", "c", "d"];
        {
            let runtime = machine.open(builder(), Config::default()).await;
            for id in ids {
                runtime.start(suspect, ()).id(id).await.unwrap();
            }
            settle().await;
            drop(runtime);
            let runtime = machine.open(builder(), Config::default().residents_max(1)).await;
            accuse(&runtime, &ids).await;
        }
        BEGUN.lock().unwrap().clear();
        let config = Config::default().residents_max(2).grace(Duration::from_secs(3600));
        let runtime = machine.open(builder(), config).await;
        settle().await;
        let first = begun();
        assert_eq!(first.len(), 1, "one of them runs: {first:?}");
        assert_eq!(runtime.stats().residents, 1, "the others are not in memory");
        let free = runtime.start(other, ()).await.unwrap();
        assert_eq!(free.result().await.unwrap(), 1);
        let waits = ids.iter().find(|id| !first.contains(&id.to_string())).unwrap();
        runtime.instance(waits).unwrap().terminate("enough").await.unwrap();
        // Those that are left have their turn when the one before them has gone well for long enough.
        let _ = tokio::time::timeout(PROBATION_TIME * 3 / 2, std::future::pending::<()>()).await;
        assert_eq!(begun().len(), 2, "{:?}", begun());
        runtime.instance(&first[0]).unwrap().terminate("enough").await.unwrap();
        let _ = tokio::time::timeout(PROBATION_TIME, std::future::pending::<()>()).await;
        let all = begun();
        assert_eq!(all.len(), 3, "{all:?}");
        for id in &all[1..] {
            runtime.instance(id).unwrap().terminate("enough").await.unwrap();
        }
        for id in ids {
            let status = runtime.instance(id).unwrap().status().await.unwrap().status;
            assert_eq!(status, Status::Terminated, "{id}");
        }
        settle().await;
        assert_eq!(runtime.stats().residents, 0);
    });
}
