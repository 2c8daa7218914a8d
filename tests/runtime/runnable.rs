//! Who is woken after a crash.

use std::time::Duration;

use everstep::storage::Commit;
use everstep::storage::record::{self, Content, Status};
use everstep::{Config, Ctx, InstanceId, Message, MessageId, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, in_virtual_time, settle};

#[derive(Message, Serialize, Deserialize)]
struct Word(String);

#[workflow(accepts(Word))]
async fn listening(ctx: Ctx<Listening>) -> Result<String> {
    ok(ctx.receive::<Word>().await?.0)
}

/// FAULTS 18, 20, 21: a message is acknowledged, the process ends before anybody is told of it, and the instance's own
/// commit, decided without the message, says afterwards that it waits. The next process wakes the instance by itself.
/// The two commits are handed over by hand, in just this order.
#[test]
fn an_acknowledged_message_wakes_its_instance_after_a_crash() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().idle(Duration::from_secs(3600));
        {
            let builder = Runtime::builder().workflow(listening);
            let runtime = machine.open(builder, config.clone()).await;
            let handle = runtime.start(listening, ()).id("a").await.unwrap();
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            settle().await;
            let store = runtime.store();
            let namespace = store.namespace(&InstanceId::new("a").unwrap());
            let shard = namespace.shard();
            let seen = store.delivered(shard);
            let message = record::Message {
                id: MessageId::new("m").unwrap(),
                sent_at_ms: 1,
                from: None,
                content: Content::Told {
                    name: Word::NAME.into(),
                    payload: store.codecs().pack(&Word("hello".into())).unwrap(),
                },
            };
            let delivery = store.submit_delivery(shard, |arrivals| {
                let mut commit = Commit::new(shard);
                commit.deliver(&namespace, arrivals.next_place(), &message);
                commit
            });
            delivery.await.unwrap().durable().await.unwrap();
            let mut rest = Commit::new(shard);
            rest.set_runnable(&namespace, None).seen(seen);
            store.commit(rest).await.unwrap();
        }
        let runtime = machine.open(Runtime::builder().workflow(listening), config).await;
        let handle = runtime.handle(listening, "a").unwrap();
        let result = tokio::time::timeout(Duration::from_secs(60), handle.result()).await;
        assert_eq!(result.expect("nobody woke it").unwrap(), "hello");
    });
}

/// Takes words until it has so many.
#[workflow(accepts(Word))]
async fn collecting(ctx: Ctx<Collecting>, count: usize) -> Result<usize> {
    for _ in 0..count {
        ctx.receive::<Word>().await?;
    }
    ok(count)
}

/// Found in review: a message that was taken in the commit after which its instance waits again left the row behind that
/// says who has to run, and every start after that woke the instance for nothing.
#[test]
fn a_message_that_was_taken_at_once_leaves_nothing_to_do() {
    in_virtual_time(async {
        let machine = Machine::new();
        let open = || machine.open(Runtime::builder().workflow(collecting), Config::default());
        let runtime = open().await;
        let handle = runtime.start(collecting, 3).id("a").await.unwrap();
        handle.reached(|status| status == Status::Waiting).await.unwrap();
        handle.send(Word("one".into())).await.unwrap();
        settle().await;
        runtime.stop().await;
        drop((handle, runtime));
        let runtime = open().await;
        assert_eq!(runtime.recovery().runnable, 0);
        let handle = runtime.handle(collecting, "a").unwrap();
        for _ in 0..2 {
            handle.send(Word("another".into())).await.unwrap();
        }
        assert_eq!(handle.result().await.unwrap(), 3);
    });
}
