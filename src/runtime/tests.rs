//! What can only be broken from inside.

use std::sync::Arc;

use super::{Runtime, Simulated};
use crate::chance::SystemChance;
use crate::clock::SystemClock;
use crate::engine::{Accepts, Ctx, Message, Result, Workflow};
use crate::storage::Pace;
use crate::storage::engines::Memory;
use crate::storage::record::Status;

#[derive(serde::Serialize, serde::Deserialize)]
struct Word(u32);

impl Message for Word {
    const NAME: &'static str = "word";
}

/// Returns the first word that it is sent.
struct Waits;

impl Workflow for Waits {
    const NAME: &'static str = "waits";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        Ok(ctx.receive::<Word>().await?.0)
    }
}

impl Accepts<Word> for Waits {}

/// FAULTS 54: a resident whose activation is over writes nothing, whatever it comes to. It finds out by its next commit,
/// and leaves; what it was about to do is done by whoever has the instance next.
#[tokio::test(start_paused = true)]
async fn a_resident_whose_activation_is_over_writes_nothing() {
    let machine = Simulated {
        engine: Arc::new(Memory::new()),
        clock: Arc::new(SystemClock),
        chance: Arc::new(SystemChance),
        pace: Pace::new(|| Box::pin(tokio::task::yield_now())),
    };
    let runtime = Runtime::builder()
        .workflow(Waits)
        .open_simulated(machine)
        .await
        .unwrap();
    let waits = runtime.start(Waits, ()).await.unwrap();
    waits.reached(|status| status == Status::Waiting).await.unwrap();
    let shared = runtime.shared();
    assert!(shared.directory.is_resident(waits.id()));
    let next = shared.store.activate(waits.id());
    waits.send(Word(7)).await.unwrap();
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
    assert!(!shared.directory.is_resident(waits.id()), "it left");
    assert_eq!(waits.status().await.unwrap().status, Status::Waiting);
    assert_eq!(waits.history().await.unwrap().entries.len(), 0, "and wrote nothing");
    shared.store.deactivate(&next);
    shared.directory.wake(waits.id());
    assert_eq!(waits.result().await.unwrap(), 7);
}
