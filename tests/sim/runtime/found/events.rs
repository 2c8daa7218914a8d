//! Bugs of events that are for one.

use everstep::storage::record::FailureKind;
use everstep::{Config, Ctx, Message, Result, Runtime, Workflow, ok};
use serde::{Deserialize, Serialize};

use super::{COMMIT, play, slow};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Word(u32);

/// Publishes one event for one.
struct Herald;

impl Workflow for Herald {
    const NAME: &'static str = "herald";
    type Input = u32;
    type Output = ();

    async fn run(ctx: Ctx<Self>, number: u32) -> Result<()> {
        ok(ctx.publish(Word(number)).to_one().await?)
    }
}

/// Hears one event, if there is one.
struct Ear;

impl Workflow for Ear {
    const NAME: &'static str = "ear";
    type Input = ();
    type Output = Option<u32>;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<Option<u32>> {
        match ctx.wait_event::<Word>().timeout("1h").await {
            Ok(Word(number)) => ok(Some(number)),
            Err(failure) if failure.kind == FailureKind::TimedOut => ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// An instance was deleted while its note to a topic in another shard was being carried. What it had on its way was
/// written anew then; the note had come to the topic, and the topic was told that it could not come again. It came again,
/// and an event for one was heard by two. BEHAVIOUR 37, FAULTS 1.
#[test]
fn a_note_is_known_again_when_its_sender_was_deleted_on_its_way() {
    const HERALDS: u32 = 12;
    play(|machine| async {
        let builder = Runtime::builder().workflow(Herald).workflow(Ear);
        let builder = builder.config(Config::default().shards(3));
        let runtime = builder.open_simulated(slow(machine)).await.unwrap();
        for number in 0..HERALDS {
            let herald = runtime.start(Herald, number).id(format!("herald {number}")).await;
            let herald = herald.unwrap();
            herald.result().await.unwrap();
            // As many moments of the carrying as there are heralds.
            tokio::time::sleep(COMMIT / 4 * (number % 8)).await;
            herald.delete().await.unwrap();
        }
        assert_eq!(heard(&runtime, HERALDS).await, (0..HERALDS).collect::<Vec<_>>());
    });
}

/// The same, found by reading what had mended it: that there is somebody with the sender's id does not mean that the sender
/// is there, nor that what it has on its way is where it was.
#[test]
fn a_note_is_known_again_when_its_sender_was_deleted_and_started_anew_on_its_way() {
    const HERALDS: u32 = 24;
    play(|machine| async {
        let builder = Runtime::builder().workflow(Herald).workflow(Ear);
        let builder = builder.config(Config::default().shards(3));
        let runtime = builder.open_simulated(slow(machine)).await.unwrap();
        for number in 0..HERALDS {
            let id = format!("herald {}", number / 2);
            let herald = runtime.start(Herald, number).id(&id).await.unwrap();
            herald.result().await.unwrap();
            tokio::time::sleep(COMMIT / 4 * (number / 2 % 8)).await;
            if number % 2 == 0 {
                herald.delete().await.unwrap();
            }
        }
        assert_eq!(heard(&runtime, HERALDS).await, (0..HERALDS).collect::<Vec<_>>());
    });
}

/// What is heard of so many events until nothing more comes, in order.
async fn heard(runtime: &Runtime, events: u32) -> Vec<u32> {
    let mut heard = Vec::new();
    while let Some(number) = runtime.start(Ear, ()).await.unwrap().result().await.unwrap() {
        heard.push(number);
        assert!(heard.len() <= events as usize, "heard twice: {heard:?}");
    }
    heard.sort_unstable();
    heard
}
