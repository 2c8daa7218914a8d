//! An inbox that is full.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Ctx, Effect, Message, Result, Runtime, Sent, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::kit::{machine, pass};
use crate::machine::{Machine, in_virtual_time};

const MOST: u32 = 5;

#[derive(Message, Serialize, Deserialize)]
struct Word(u32);

/// Takes its messages only after an hour, one by one.
#[workflow(accepts(Word))]
async fn late(ctx: Ctx<Late>, words: u32) -> Result<Vec<u32>> {
    ctx.sleep("an hour", "1h").await?;
    let mut heard = Vec::new();
    for _ in 0..words {
        heard.push(ctx.receive::<Word>().await?.0);
    }
    ok(heard)
}

/// Sends so many words to `late`.
#[workflow]
async fn talking(ctx: Ctx<Talking>, words: u32) -> Result<()> {
    for word in 0..words {
        ctx.send(late, "late", Word(word)).await?;
    }
    ok(())
}

fn builder() -> everstep::Builder {
    Runtime::builder().workflow(late).workflow(talking)
}

fn config() -> Config {
    Config::default().inbox_max(MOST as usize)
}

/// FAULTS 66: messages come faster than they are taken. Past the bound the sender is refused, also by the next
/// process; duplicates are still recognised, operators are still heard, other instances notice nothing, and what is
/// taken makes room.
#[test]
fn a_flood_is_refused() {
    in_virtual_time(async {
        let machine = Machine::new();
        {
            let runtime = machine.open(builder(), config()).await;
            let handle = runtime.start(late, MOST + 2).id("late").await.unwrap();
            for word in 0..MOST {
                let sent = handle.send(Word(word)).id(format!("w{word}")).await.unwrap();
                assert_eq!(sent, Sent::Accepted);
            }
            for _ in 0..3 {
                assert_eq!(handle.send(Word(99)).await.unwrap_err().code(), "ES0414");
            }
        }
        let runtime = machine.open(builder(), config()).await;
        let handle = runtime.handle(late, "late").unwrap();
        let refused = handle.send(Word(99)).await.unwrap_err();
        assert_eq!(refused.code(), "ES0414", "{refused}");
        let again = handle.send(Word(0)).id("w0").await.unwrap();
        assert_eq!(again, Sent::Duplicate);
        assert_eq!(handle.pause().await.unwrap().effect, Effect::Done);
        assert_eq!(handle.resume().await.unwrap().effect, Effect::Done);
        let other = runtime.start(late, 1).id("other").await.unwrap();
        other.send(Word(7)).await.unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        // It has taken them all.
        for word in MOST..MOST + 2 {
            handle.send(Word(word)).await.unwrap();
        }
        assert_eq!(handle.result().await.unwrap(), (0..MOST + 2).collect::<Vec<_>>());
        assert_eq!(other.result().await.unwrap(), [7]);
    });
}

#[derive(Message, Serialize, Deserialize)]
struct Parcel(Vec<u8>);

/// Takes its parcels only after an hour, one by one.
#[workflow(accepts(Parcel))]
async fn depot(ctx: Ctx<Depot>, parcels: u32) -> Result<usize> {
    ctx.sleep("an hour", "1h").await?;
    let mut bytes = 0;
    for _ in 0..parcels {
        bytes += ctx.receive::<Parcel>().await?.0.len();
    }
    ok(bytes)
}

/// FAULTS 66, found in an audit: an inbox was bounded by the number of its messages alone. 10,000 of the largest were
/// gigabytes, and all of them were in memory when their instance ran. Bytes are counted as messages are: across a restart,
/// and what is taken makes room.
#[test]
fn a_flood_of_large_messages_is_refused() {
    const BYTES: usize = 1_000;

    in_virtual_time(async {
        let machine = Machine::new();
        let config = || Config::default().inbox_bytes_max(4 * BYTES);
        let builder = || Runtime::builder().workflow(depot);
        let parcel = || Parcel(vec![7; BYTES / 2]);
        let accepted = {
            let runtime = machine.open(builder(), config()).await;
            // One is taken however large it is.
            let small = runtime.start(depot, 1).id("small").await.unwrap();
            small.send(Parcel(vec![7; 10 * BYTES])).await.unwrap();
            assert_eq!(small.send(Parcel(Vec::new())).await.unwrap_err().code(), "ES0414");
            let handle = runtime.start(depot, 12).id("depot").await.unwrap();
            let mut accepted = 0;
            let refused = loop {
                match handle.send(parcel()).await {
                    Ok(_) => accepted += 1,
                    Err(error) => break error,
                }
                assert!(accepted < 10, "nothing bounds it");
            };
            assert_eq!(refused.code(), "ES0414", "{refused}");
            assert!(
                refused.to_string().contains(&format!("{accepted} messages")),
                "{refused}"
            );
            accepted
        };
        assert!(accepted > 2, "{accepted} fit");
        let runtime = machine.open(builder(), config()).await;
        let handle = runtime.handle(depot, "depot").unwrap();
        assert_eq!(handle.send(parcel()).await.unwrap_err().code(), "ES0414");
        tokio::time::advance(Duration::from_secs(3600)).await;
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        // What was taken makes room, again and again: nothing of it is counted for ever.
        for _ in accepted..12 {
            handle.send(parcel()).await.unwrap();
            handle.reached(|status| status != Status::Running).await.unwrap();
        }
        assert_eq!(handle.result().await.unwrap(), 12 * BYTES / 2);
    });
}

/// FAULTS 66: what an instance sends to a full inbox is not lost. It waits in the outbox of the sender, and arrives in
/// its order when there is room.
#[test]
fn instances_wait_for_room() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), config()).await;
        let words = 3 * MOST;
        let handle = runtime.start(late, words).id("late").await.unwrap();
        let talking = runtime.start(talking, words).id("t").await.unwrap();
        talking.result().await.unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        let refused = handle.send(Word(99)).await.unwrap_err();
        assert_eq!(refused.code(), "ES0414", "{refused}");
        assert_eq!(handle.result().await.unwrap(), (0..words).collect::<Vec<_>>());
    });
}

/// Sends ten words to `late`, and five more a second after that one has begun to listen.
#[workflow]
async fn talking_on(ctx: Ctx<TalkingOn>) -> Result<()> {
    for word in 0..2 * MOST {
        ctx.send(late, "late", Word(word)).await?;
    }
    ctx.sleep("a little more than an hour", "3601s").await?;
    for word in 2 * MOST..3 * MOST {
        ctx.send(late, "late", Word(word)).await?;
    }
    ok(())
}

/// Found in review: some of what a sender had on its way waited for room. When there was some, what came behind it, which
/// the courier had not read with it, was tried first: it overtook it.
#[test]
fn what_waits_for_room_is_not_overtaken() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder().workflow(talking_on), config()).await;
        let handle = runtime.start(late, 3 * MOST).id("late").await.unwrap();
        runtime.start(talking_on, ()).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), (0..3 * MOST).collect::<Vec<_>>());
    });
}

/// Found in review: a sender was deleted with something on its way, and another one with its id counted its revisions from
/// the beginning: what it sent took the place of what was there.
#[test]
fn what_a_deleted_sender_has_on_its_way_is_heard_first() {
    for shards in [1, 4] {
        in_virtual_time(async {
            let machine = Machine::new();
            let runtime = machine.open(builder(), config().shards(shards)).await;
            let handle = runtime.start(late, 3 * MOST * 2).id("late").await.unwrap();
            for _ in 0..3 {
                let talking = runtime.start(talking, 2 * MOST).id("t").await.unwrap();
                talking.result().await.unwrap();
                talking.delete().await.unwrap();
            }
            let once = 0..2 * MOST;
            let expected: Vec<_> = once.clone().chain(once.clone()).chain(once).collect();
            assert_eq!(handle.result().timeout("1d").await.unwrap(), expected);
        });
    }
}

/// An instance that is deleted leaves no count behind: the next one with its id begins with an empty inbox.
#[test]
fn a_new_instance_has_an_empty_inbox() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), config()).await;
        for _ in 0..2 {
            let handle = runtime.start(late, MOST).id("late").await.unwrap();
            for word in 0..MOST {
                handle.send(Word(word)).await.unwrap();
            }
            handle.send(Word(99)).await.unwrap_err();
            handle.terminate("enough").await.unwrap();
            handle.delete().await.unwrap();
        }
    });
}

/// Found in review: a message that went back to the inbox of an instance which had been loaded without one was read again
/// with the next that came, and was delivered twice.
#[tokio::test(start_paused = true)]
async fn what_goes_back_to_the_inbox_is_taken_once() {
    #[workflow(accepts(Word))]
    async fn looks_late(ctx: Ctx<LooksLate>) -> Result<Vec<Option<u32>>> {
        {
            let mut wait = Box::pin(ctx.receive::<Word>());
            let tick = futures_util::future::select(wait.as_mut(), ctx.sleep("tick", "1s")).await;
            assert!(matches!(tick, futures_util::future::Either::Right(_)));
            ctx.sleep("work", "10s").await?;
        }
        ctx.sleep("more work", "2s").await?;
        let mut words = Vec::new();
        for _ in 0..3 {
            words.push(ctx.receive::<Word>().within("1h").await?.map(|word| word.0));
        }
        ok(words)
    }

    let config = Config::default().idle(Duration::from_secs(3));
    let builder = Runtime::builder().workflow(looks_late).config(config);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let looks = runtime.start(looks_late, ()).await.unwrap();
    pass(Duration::from_secs(5)).await;
    looks.send(Word(1)).await.unwrap();
    pass(Duration::from_secs(5)).await;
    assert_eq!(
        runtime.stats().residents,
        0,
        "it is loaded again, with nothing in its inbox"
    );
    pass(Duration::from_secs(2)).await;
    looks.send(Word(2)).await.unwrap();
    assert_eq!(looks.result().await.unwrap(), [Some(1), Some(2), None]);
}
