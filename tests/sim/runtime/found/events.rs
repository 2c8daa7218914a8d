//! Bugs of events that are for one.

use everstep::storage::record::FailureKind;
use everstep::{Config, Ctx, Message, Result, Runtime, Workflow, ok};
use futures_util::future::join;
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

/// Takes a while.
struct Child;

impl Workflow for Child {
    const NAME: &'static str = "child";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        ctx.sleep("a while", "1m").await?;
        ok(7)
    }
}

/// Waits for a child first of all, as an ear waits for an event.
struct Mother;

impl Workflow for Mother {
    const NAME: &'static str = "mother";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        ok(ctx.child(Child, ()).await?)
    }
}

/// An instance was deleted while an event was on its way to it, and another one was started under its id. There the entry
/// with the number of the wait was a child: the event was taken for what the child had ended with, and where that was of
/// another type the instance was stuck. BEHAVIOUR 37.
#[test]
fn an_event_for_who_was_deleted_is_not_taken_for_the_end_of_a_child_of_the_next_one() {
    const MOMENTS: u32 = 48;
    play(|machine| async {
        let builder = Runtime::builder().workflow(Ear).workflow(Mother).workflow(Child);
        let builder = builder.config(Config::default().shards(3));
        let runtime = builder.open_simulated(slow(machine)).await.unwrap();
        for moment in 0..MOMENTS {
            let id = format!("ear {moment}");
            let ear = runtime.start(Ear, ()).id(&id).await.unwrap();
            tokio::time::sleep(COMMIT * 20).await;
            let publishing = async {
                tokio::time::sleep(COMMIT / 4 * (moment % 24)).await;
                runtime.publish(Word(moment)).await.unwrap();
            };
            let replacing = async {
                ear.terminate("enough").await.unwrap();
                ear.delete().await.unwrap();
                runtime.start(Mother, ()).id(&id).await.unwrap()
            };
            let ((), mother) = join(publishing, replacing).await;
            assert_eq!(mother.result().await.unwrap(), 7, "moment {moment}");
        }
    });
}
