//! Instances that start and message each other in a real runtime: BEHAVIOUR 34, 35, 36.

use everstep::storage::record::Status;
use everstep::{ClosePolicy, Ctx, Error, Message, Result, Runtime, Sent, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Amount(u32);

#[workflow(accepts(Amount))]
async fn shop(ctx: Ctx<Shop>, bills: u32) -> Result<u32> {
    let mut total = 0;
    for _ in 0..bills {
        let Amount(amount) = ctx.receive().await?;
        total += amount;
    }
    ok(total)
}

#[workflow]
async fn double(ctx: Ctx<Double>, number: u32) -> Result<u32> {
    ok(ctx.step("double", move || async move { ok(number * 2) }).await?)
}

#[workflow]
async fn order(ctx: Ctx<Order>, numbers: Vec<u32>) -> Result<u32> {
    let mut children = Vec::new();
    for number in numbers {
        children.push(ctx.child(double, number).start().await?);
    }
    let mut sum = 0;
    for child in children {
        let doubled = child.await?;
        ctx.send(shop, "shop", Amount(doubled)).dead_letter().await?;
        sum += doubled;
    }
    ok(sum)
}

#[workflow]
async fn closes(ctx: Ctx<Closes>) -> Result<()> {
    let cancelled = ctx.child(shop, 1).id("cancelled").start().await?;
    let terminated = ctx
        .child(shop, 1)
        .id("terminated")
        .close(ClosePolicy::Terminate)
        .start()
        .await?;
    ctx.child(shop, 1).id("let go").detach().await?;
    drop((cancelled, terminated));
    ok(())
}

async fn open(url: &str) -> Runtime {
    let builder = Runtime::builder()
        .workflow(shop)
        .workflow(double)
        .workflow(order)
        .workflow(closes);
    builder.open(url).await.unwrap()
}

/// In memory and on disk.
#[tokio::test(flavor = "multi_thread")]
async fn children_and_messages_go_through_the_courier() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    for url in ["memory:", path.to_str().unwrap()] {
        let runtime = open(url).await;
        let shop = runtime.start(shop, 3).id("shop").await.unwrap();
        let order = runtime.start(order, vec![1, 2, 3]).id("order").await.unwrap();
        assert_eq!(order.result().await.unwrap(), 12, "on {url}");
        assert_eq!(shop.result().await.unwrap(), 12, "on {url}");
        runtime.stop().await;
    }
}

/// Waits for a child that may still be on its way: a parent can end before the courier has come.
async fn arrived(runtime: &Runtime, id: &str, wanted: impl Fn(Status) -> bool + Copy + Send) -> Status {
    let child = runtime.handle(shop, id).unwrap();
    loop {
        match child.reached(wanted).await {
            Err(Error::Unknown(_)) => tokio::task::yield_now().await,
            status => return status.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_closed_by_policy() {
    let runtime = open("memory:").await;
    runtime.start(closes, ()).await.unwrap().result().await.unwrap();
    for (id, expected) in [("cancelled", Status::Cancelled), ("terminated", Status::Terminated)] {
        assert_eq!(arrived(&runtime, id, Status::is_terminal).await, expected, "{id}");
    }
    arrived(&runtime, "let go", |status| status == Status::Waiting).await;
    let let_go = runtime.handle(shop, "let go").unwrap();
    let_go.send(Amount(3)).await.unwrap();
    assert_eq!(let_go.result().await.unwrap(), 3);
}

/// BEHAVIOUR 36: listed, inspected, replayed to the same instance and to another, discarded.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_can_be_replayed_and_discarded() {
    let runtime = open("memory:").await;
    let order = runtime.start(order, vec![1, 2, 3]).id("order").await.unwrap();
    assert_eq!(order.result().await.unwrap(), 12);
    let letters = loop {
        let page = runtime.dead_letters().list(None).await.unwrap();
        if page.letters.len() == 3 {
            break page.letters;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((letters[0].to(), letters[0].from()), ("shop", Some("order")));
    assert_eq!(letters[0].reason(), "there is no such instance");
    assert_eq!(letters[0].content().unwrap().0, "Amount");
    let dead = runtime.dead_letters();
    assert!(
        matches!(dead.replay(&letters[0]).await, Err(Error::Unknown(_))),
        "nobody is there yet"
    );
    let shop_1 = runtime.start(shop, 1).id("shop").await.unwrap();
    let shop_2 = runtime.start(shop, 1).id("other").await.unwrap();
    assert_eq!(dead.replay(&letters[0]).await.unwrap(), Sent::Accepted);
    let again = [
        dead.replay(&letters[0]).await.unwrap_err(),
        dead.replay_to(&letters[0], "other").await.unwrap_err(),
        dead.discard(&letters[0]).await.unwrap_err(),
    ];
    assert!(again.iter().all(|error| error.code() == "ES0423"), "{again:?}");
    runtime.start(closes, ()).id("deaf").await.unwrap();
    let deaf = dead.replay_to(&letters[1], "deaf").await.unwrap_err();
    assert_eq!(deaf.code(), "ES0417", "it would lie there for ever");
    assert_eq!(dead.replay_to(&letters[1], "other").await.unwrap(), Sent::Accepted);
    let sum = shop_1.result().await.unwrap() + shop_2.result().await.unwrap();
    assert_eq!(dead.discard_before(std::time::UNIX_EPOCH).await.unwrap(), 0);
    dead.discard(&letters[2]).await.unwrap();
    assert_eq!(dead.replay(&letters[2]).await.unwrap_err().code(), "ES0423");
    assert_eq!(dead.list(Some("nowhere")).await.unwrap_err().code(), "ES0412");
    assert!(dead.list(None).await.unwrap().letters.is_empty());
    assert!((6..=10).contains(&sum), "two of 2, 4 and 6: {sum}");
}
