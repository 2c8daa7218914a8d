//! Several workflows in one harness: children, messages between instances, questions, events, promises.

use everstep::storage::record::Status;
use everstep::testing::Harness;
use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::{assert_says, report};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Word(String);

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(usize))]
struct HowMany;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Rang {
    times: u32,
}

#[workflow(accepts(Word, HowMany))]
async fn listens(ctx: Ctx<Listens>, count: usize) -> Result<Vec<String>> {
    let mut words = Vec::new();
    while words.len() < count {
        ctx.set("heard", words.len())?;
        words.push(ctx.receive::<Word>().await?.0);
    }
    let question = ctx.question::<HowMany>().await?;
    question.reply(&words.len())?;
    ok(words)
}

#[workflow]
async fn speaks(ctx: Ctx<Speaks>, to: String) -> Result<()> {
    ctx.send(listens, to, Word("from an instance".into())).await?;
    ok(())
}

#[workflow]
async fn parent(ctx: Ctx<Parent>) -> Result<u32> {
    let naps = ctx.child(child, 3).await?;
    ok(naps + 1)
}

#[workflow]
async fn child(ctx: Ctx<Child>, days: u32) -> Result<u32> {
    ctx.sleep("nap", format!("{days}d").as_str()).await?;
    ok(days)
}

#[workflow]
async fn hears(ctx: Ctx<Hears>) -> Result<u32> {
    ok(ctx.wait_event::<Rang>().await?.times)
}

#[workflow]
async fn trusts(ctx: Ctx<Trusts>) -> Result<String> {
    let promise = ctx.promise::<String>("word")?;
    ctx.set("token", promise.token())?;
    ok(promise.await?)
}

fn all() -> Harness {
    let builder = Runtime::builder().workflow(listens).workflow(speaks).workflow(parent);
    Harness::new(builder.workflow(child).workflow(hears).workflow(trusts))
}

#[test]
fn messages_come_from_the_test_and_from_instances() {
    let harness = all();
    let listens = harness.start(listens, 2);
    listens.assert_waits_for("Word");
    listens.send(Word("from the test".into()));
    assert_eq!(listens.query::<usize>("heard"), Some(1));
    harness.start(speaks, listens.id().to_owned());
    assert_eq!(listens.ask(HowMany), 2);
    assert_eq!(
        listens.run_until_complete().unwrap(),
        ["from the test", "from an instance"]
    );
    listens.try_send(Word("too late".into())).unwrap_err();
    let says = report(|| listens.send(Word("too late".into())));
    assert_says(&says, &["sending Word to `listens-1`", "has ended"]);
}

#[test]
fn a_question_that_nobody_answers_is_told() {
    let harness = all();
    let listens = harness.start(listens, 1);
    let says = report(|| listens.ask(HowMany));
    assert_says(
        &says,
        &[
            "`listens-1` never answers HowMany",
            "waits for `Word~0` (receive), at tests/testing/relations.rs:",
        ],
    );
}

#[test]
fn children_run_and_can_be_looked_at() {
    let harness = all();
    let parent = harness.start(parent, ());
    let children = parent.describe().children;
    let child = harness.handle(child, &children[0].id);
    child.assert_status(Status::Sleeping);
    harness.crash();
    harness.evict();
    assert_eq!(parent.run_until_complete().unwrap(), 4);
    assert_eq!(child.result().unwrap().unwrap(), 3);
    assert_eq!(harness.instances().len(), 2);
}

#[test]
fn events_reach_everyone_who_waits() {
    let harness = all();
    let both = [harness.start(hears, ()), harness.start(hears, ())];
    harness.publish(Rang { times: 3 });
    for hears in both {
        assert_eq!(hears.result().unwrap().unwrap(), 3);
    }
}

#[test]
fn promises_are_kept_and_broken() {
    let harness = all();
    let (kept, broken) = (harness.start(trusts, ()), harness.start(trusts, ()));
    let token: String = kept.query("token").unwrap();
    assert!(harness.resolve(&token, &"yes"));
    assert!(!harness.resolve(&token, &"no"), "the first decision holds");
    assert_eq!(kept.run_until_complete().unwrap(), "yes");
    assert!(harness.reject(&broken.query::<String>("token").unwrap(), "changed my mind"));
    assert!(
        broken
            .run_until_complete()
            .unwrap_err()
            .message
            .contains("changed my mind")
    );
}

#[test]
fn instances_are_held_and_ended() {
    let harness = all();
    let listens = harness.start(listens, 1);
    listens.pause();
    listens.send(Word("later".into()));
    assert_eq!(listens.query::<usize>("heard"), Some(0));
    listens.resume();
    harness.run_until_idle();
    listens.assert_waits_for("HowMany");
    assert!(listens.cancel("enough").is_done());
    listens.assert_status(Status::Cancelled);
    let other = harness.start(parent, ());
    assert!(other.terminate("at once").is_done());
    other.assert_status(Status::Terminated);
}
