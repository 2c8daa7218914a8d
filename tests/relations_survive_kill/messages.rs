//! Instances write to each other from shard to shard, and the process dies between the commit that delivers a message and
//! the one that takes it out of the outbox, or anywhere near: each is taken once, in the order of its sender.

use std::collections::BTreeSet;

use everstep::storage::key::{Key, Local};
use everstep::{Config, Ctx, InstanceId, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::life::{self, Life};

const TEST: &str = "messages::a_killed_courier_delivers_each_message_once";

const SENDERS: u32 = 6;
const RECEIVERS: u32 = 3;
/// Messages of each sender to each receiver.
const EACH: u32 = 8;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Note {
    from: u32,
    number: u32,
}

#[workflow]
async fn sender(ctx: Ctx<Sender>, from: u32) -> Result<()> {
    for number in 0..EACH {
        for to in 0..RECEIVERS {
            let note = Note { from, number };
            ctx.send(receiver, format!("receiver-{to}"), note).await?;
        }
    }
    ok(())
}

/// Takes as many as it should get, and looks whether there is more.
#[workflow(accepts(Note))]
async fn receiver(ctx: Ctx<Receiver>) -> Result<Vec<(u32, u32)>> {
    let mut notes = Vec::new();
    while notes.len() < (SENDERS * EACH) as usize {
        let Note { from, number } = ctx.receive().await?;
        notes.push((from, number));
    }
    while let Some(Note { from, number }) = ctx.receive().within("1h").await? {
        notes.push((from, number));
    }
    ok(notes)
}

/// Whether a commit is about something on its way.
fn carries(key: &Key<'_>) -> bool {
    matches!(key, Key::Outbox(..) | Key::Instance(_, _, Local::Inbox(_)))
}

async fn live(life: Life) {
    life.arm();
    let builder = Runtime::builder().workflow(sender).workflow(receiver);
    let runtime = life.open(builder, Config::default().shards(4), carries).await;
    life::is_sound(&runtime);
    let mut receivers = Vec::new();
    for number in 0..RECEIVERS {
        let starting = runtime.start(receiver, ()).id(format!("receiver-{number}"));
        receivers.push(starting.await.unwrap());
    }
    for number in 0..SENDERS {
        let id = format!("sender-{number}");
        runtime.start(sender, number).id(id).await.unwrap();
    }
    let shard = |id: String| runtime.store().shard_of(&InstanceId::new(id).unwrap()).0;
    let homes: BTreeSet<_> = (0..SENDERS).map(|number| shard(format!("sender-{number}"))).collect();
    assert!(homes.len() > 2, "they live apart: {homes:?}");
    for receiver in receivers {
        let notes = receiver.result().await.unwrap();
        for from in 0..SENDERS {
            let own: Vec<_> = notes.iter().filter(|note| note.0 == from).map(|note| note.1).collect();
            crate::process::say(&format!("{own:?}"));
        }
    }
    life::is_sound(&runtime);
}

/// FAULTS 1 and 16, for what instances send.
#[test]
fn a_killed_courier_delivers_each_message_once() {
    if Life::play(live) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let places = [
        "after 1", "after 2", "after 3", "before 2", "before 4", "after 5", "after 6", "after 7", "before 9",
        "after 8", "after 11", "after 14",
    ];
    let said = life::lives(TEST, &directory.path().join("store"), &places);
    let each = format!("{:?}", (0..EACH).collect::<Vec<_>>());
    let expected = vec![each; (SENDERS * RECEIVERS) as usize];
    assert_eq!(said.last(), Some(&expected));
}
