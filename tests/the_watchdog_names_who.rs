//! FAULTS 35, 36: code that keeps its thread is named in the log: the instance, the workflow, and the step, or what the
//! function asked for last. Everybody's log is set for a whole process, so this test has one of its own.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::sync::{Condvar, Mutex};

use everstep::{Config, Ctx, Result, Runtime, ok, workflow};
use tracing::field::{Field, Visit};
use tracing::span;

/// The warnings so far.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
static TOLD: Condvar = Condvar::new();

struct Log;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().contains("watchdog")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        HEARD.lock().unwrap().push(text.0);
        TOLD.notify_all();
    }

    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Whether a warning is about an instance.
fn names(warning: &str, instance: &str) -> bool {
    warning.contains(&format!("instance={instance} "))
}

/// Keeps its thread until a warning names an instance.
fn keep_the_thread_of(instance: &str) {
    let is_told = |heard: &mut Vec<String>| heard.iter().any(|warning| names(warning, instance));
    drop(TOLD.wait_while(HEARD.lock().unwrap(), |heard| !is_told(heard)).unwrap());
}

#[workflow]
async fn loops(ctx: Ctx<Loops>) -> Result<()> {
    ctx.step("before", || async { ok(()) }).await?;
    keep_the_thread_of("one");
    ok(())
}

#[workflow]
async fn loops_in_a_step(ctx: Ctx<LoopsInAStep>) -> Result<()> {
    ok(ctx
        .step("compute", || async {
            keep_the_thread_of("two");
            ok(())
        })
        .await?)
}

#[tokio::test]
async fn the_warning_has_the_instance_the_workflow_and_the_place() {
    tracing::subscriber::set_global_default(Log).unwrap();
    let builder = Runtime::builder().workflow(loops).workflow(loops_in_a_step);
    let config = Config::default().poll_warn("500ms");
    let runtime = builder.config(config).open("memory:").await.unwrap();
    runtime
        .start(loops, ())
        .id("one")
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    let two = runtime.start(loops_in_a_step, ()).id("two").await.unwrap();
    two.result().await.unwrap();
    let heard = HEARD.lock().unwrap();
    let about = |instance: &str| heard.iter().find(|warning| names(warning, instance)).unwrap();
    let function = ["workflow=\"loops\" ", "last=\"before\" ", "belongs into a step"];
    let step = ["workflow=\"loops_in_a_step\" ", "step=\"compute\" ", "step_blocking"];
    for (warning, parts) in [(about("one"), function), (about("two"), step)] {
        for part in parts {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }
}
