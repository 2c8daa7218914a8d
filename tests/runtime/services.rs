//! What keeps a runtime going keeps going itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everstep::clock::{Clock, Millis};
use everstep::{Config, Ctx, Message, Result, Runtime, Simulated, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::kit;
use crate::machine::in_virtual_time;

#[derive(Message, Serialize, Deserialize)]
struct Word(u32);

#[workflow(accepts(Word))]
async fn hears(ctx: Ctx<Hears>) -> Result<u32> {
    ok(ctx.receive::<Word>().await?.0)
}

/// Sleeps for a moment, and says so to another one.
#[workflow]
async fn says(ctx: Ctx<Says>) -> Result<()> {
    ctx.sleep("a moment", "1ms").await?;
    ok(ctx.send(hears, "ear", Word(7)).await?)
}

/// Found in review: alarms, courier, feed and admission lived on the executor that the runtime was opened on, and ended with
/// it. Starts were accepted as before, and nothing became of them.
#[test]
fn a_runtime_outlives_the_executor_that_it_was_opened_on() {
    let executor = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = executor();
    let builder = Runtime::builder().workflow(hears).workflow(says);
    let runtime = first
        .block_on(builder.config(Config::default()).open("memory:"))
        .unwrap();
    drop(first);
    executor().block_on(async {
        let ear = runtime.start(hears, ()).id("ear").await.unwrap();
        runtime.start(says, ()).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(60), ear.result()).await;
        assert_eq!(
            heard.expect("somebody wakes the one and carries to the other").unwrap(),
            7
        );
        runtime.stop().await;
    });
}

/// Panics once, when somebody who has been told so waits for a time.
#[derive(Debug)]
struct Failing(Arc<dyn Clock>, AtomicBool);

impl Clock for Failing {
    fn now_ms(&self) -> Millis {
        self.0.now_ms()
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        assert!(!self.1.swap(false, Ordering::SeqCst), "a clock that fails");
        self.0.wait_until(at_ms)
    }
}

/// Found in review: a panic ended a service for good.
#[test]
fn a_service_that_panics_begins_again() {
    in_virtual_time(async {
        let machine = kit::machine();
        let clock = Arc::new(Failing(Arc::clone(&machine.clock), AtomicBool::new(false)));
        let machine = Simulated {
            clock: Arc::<Failing>::clone(&clock),
            ..machine
        };
        let runtime = kit::everyone().open_simulated(machine).await.unwrap();
        kit::pass(Duration::from_secs(1)).await;
        clock.1.store(true, Ordering::SeqCst);
        let naps = runtime.start(kit::naps, 60).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(120), naps.result()).await;
        woken.expect("its alarm rings").unwrap();
        assert!(!clock.1.load(Ordering::SeqCst), "it has panicked");
    });
}
