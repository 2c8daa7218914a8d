//! How much an instance may hold is said by the runtime, and by its workflow before that.

use everstep::{Bounds, Config, Ctx, Error, Result, Runtime, Workflow, ok, workflow};

use crate::kit::machine;

async fn count<W: Workflow>(ctx: &Ctx<W>, steps: u64) -> Result<u64> {
    for number in 0..steps {
        ctx.step(&format!("{number}"), || async { ok(()) }).await?;
    }
    ok(steps)
}

/// As many steps as it is told to make.
#[workflow]
async fn counts(ctx: Ctx<Counts>, steps: u64) -> Result<u64> {
    count(&ctx, steps).await
}

/// The same with a bound of its own.
#[workflow(bounds(history_entries_max = 5, history_entries_warn = 2))]
async fn counts_less(ctx: Ctx<CountsLess>, steps: u64) -> Result<u64> {
    count(&ctx, steps).await
}

fn code(error: Error) -> Option<String> {
    match error {
        Error::Failed(failure) => failure.code.clone(),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_workflow_comes_before_the_runtime_and_the_runtime_before_the_default() {
    let bounds = Bounds {
        history_entries_max: 10,
        history_entries_warn: 10,
        ..Bounds::default()
    };
    let builder = Runtime::builder().workflow(counts).workflow(counts_less);
    let runtime = builder.config(Config::default().bounds(bounds));
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let most = async |steps: u64| runtime.start(counts, steps).await.unwrap().result().await;
    assert_eq!(most(10).await.unwrap(), 10);
    assert_eq!(code(most(11).await.unwrap_err()).as_deref(), Some("ES0302"));
    let most = async |steps: u64| runtime.start(counts_less, steps).await.unwrap().result().await;
    assert_eq!(most(5).await.unwrap(), 5);
    assert_eq!(code(most(6).await.unwrap_err()).as_deref(), Some("ES0302"));
    let runtime = Runtime::builder()
        .workflow(counts)
        .open_simulated(machine())
        .await
        .unwrap();
    assert_eq!(runtime.start(counts, 11).await.unwrap().result().await.unwrap(), 11);
}

#[workflow(bounds(payload_bytes_max = 4_000_000, scope_entries_max = 50_000))]
async fn holds_much(ctx: Ctx<HoldsMuch>) -> Result<()> {
    ctx.sleep("nap", "1s").await?;
    ok(())
}

/// FAULTS 80.
#[tokio::test(start_paused = true)]
async fn bounds_that_can_not_be_are_refused_all_at_once() {
    let bounds = Bounds {
        history_entries_max: 0,
        ..Bounds::default()
    };
    let builder = Runtime::builder().workflow(holds_much).workflow(counts);
    let refused = builder
        .config(Config::default().bounds(bounds))
        .open_simulated(machine())
        .await;
    let Err(Error::Config(problems)) = refused else {
        panic!("it opens");
    };
    let text = problems.to_string();
    for part in [
        "history_entries_max is 0",
        "history_entries_warn is 20000",
        "payload_bytes_max of `holds_much` is 4000000",
        "scope_entries_max of `holds_much` is 50000",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(problems.problems.len(), 4, "each is said once: {text}");
}
