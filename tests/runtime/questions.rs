//! BEHAVIOUR 19: whoever asks gets one answer, and gets the same again under the same id.

use everstep::{Builder, Ctx, Error, Message, Result, Runtime, ok, workflow};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::kit::{Word, machine};

#[derive(Message, Serialize, Deserialize)]
#[message(reply(u64))]
struct Price(u64);

/// Takes a question, says so, and answers when it is given a word: with an error if that is zero, not at all if it is
/// one. Answers as many as it was told to.
#[workflow(accepts(Price, Word))]
async fn clerk(ctx: Ctx<Clerk>, questions: u64) -> Result<u64> {
    for _ in 0..questions {
        let asked = ctx.question::<Price>().await?;
        ctx.emit(asked.0)?;
        match ctx.receive::<Word>().await?.0 {
            0 => asked.refuse("no such item")?,
            1 => return ok(1),
            word => {
                let price = asked.0 * word;
                asked.reply(&price)?;
            }
        }
    }
    ok(0)
}

fn clerks() -> Builder {
    Runtime::builder().workflow(clerk)
}

#[tokio::test(start_paused = true)]
async fn everybody_who_asks_under_one_id_gets_the_same_answer() {
    let runtime = clerks().open_simulated(machine()).await.unwrap();
    let clerk = runtime.start(clerk, 2).await.unwrap();
    let late = clerk.ask(Price(2)).id("a").timeout("1h").await.unwrap_err();
    assert_eq!(late.code(), "ES0410");
    let askers = (2..12).map(|number| clerk.ask(Price(number)).id("a").timeout("1h").into_future());
    let (answers, sent) = tokio::join!(join_all(askers), clerk.send(Word(10)).into_future());
    sent.unwrap();
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers, [20; 10], "the first question was asked, and no other");
    clerk.send(Word(100)).await.unwrap();
    assert_eq!(
        clerk.ask(Price(3)).timeout("1h").await.unwrap(),
        300,
        "without an id it is another"
    );
    clerk.result().await.unwrap();
    assert_eq!(
        clerk.ask(Price(9)).id("a").timeout("1h").await.unwrap(),
        20,
        "also when it has ended"
    );
    assert_eq!(
        clerk.ask(Price(9)).id("b").timeout("1h").await.unwrap_err().code(),
        "ES0407"
    );
    assert_eq!(clerk.ask(Price(9)).timeout("soon").await.unwrap_err().code(), "ES0104");
    clerk.delete().await.unwrap();
    assert_eq!(
        clerk.ask(Price(9)).id("a").timeout("1h").await.unwrap_err().code(),
        "ES0408"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_and_what_is_not_answered_are_two_errors() {
    let runtime = clerks().open_simulated(machine()).await.unwrap();
    let clerk = runtime.start(clerk, 2).await.unwrap();
    clerk.send(Word(0)).await.unwrap();
    for _ in 0..2 {
        let Err(Error::Refused(failure)) = clerk.ask(Price(2)).id("refused").timeout("1h").await else {
            panic!("it was refused");
        };
        assert_eq!(failure.message, "no such item");
    }
    clerk.send(Word(1)).await.unwrap();
    // The second is still in the inbox when the code ends.
    let (taken, waiting) = tokio::join!(
        clerk.ask(Price(2)).id("taken").timeout("1h").into_future(),
        clerk.ask(Price(3)).id("waiting").timeout("1h").into_future()
    );
    assert!(matches!(&taken, Err(Error::Unanswered(_))), "{taken:?}");
    assert_eq!(waiting.unwrap_err().code(), "ES0415");
    assert_eq!(clerk.result().await.unwrap(), 1);
    assert_eq!(
        clerk.ask(Price(2)).id("taken").timeout("1h").await.unwrap_err().code(),
        "ES0415"
    );
}

/// On the disk, with the process' own clock: the runtime is gone between the question and the answer, and between the
/// answer and the second time that it is asked for.
#[tokio::test]
async fn an_answer_reaches_who_asks_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let url = path.to_str().unwrap();
    let runtime = clerks().open(url).await.unwrap();
    let first = runtime.start(clerk, 1).id("one").await.unwrap();
    let mut taken = first.stream::<u64>();
    tokio::select! {
        answer = first.ask(Price(2)).id("a").into_future() => panic!("nobody answered: {answer:?}"),
        item = taken.next() => assert_eq!(item.unwrap().unwrap().value, 2),
    }
    drop((first, taken));
    runtime.stop().await;
    drop(runtime);
    let runtime = clerks().open(url).await.unwrap();
    let second = runtime.handle(clerk, "one").unwrap();
    let (answer, sent) = tokio::join!(
        second.ask(Price(5)).id("a").into_future(),
        second.send(Word(10)).into_future()
    );
    sent.unwrap();
    assert_eq!(answer.unwrap(), 20);
    second.result().await.unwrap();
    drop(second);
    runtime.stop().await;
    drop(runtime);
    // Whoever knows how to ask need not know how to run it.
    let runtime = Runtime::open(url).await.unwrap();
    let third = runtime.handle(clerk, "one").unwrap();
    assert_eq!(third.ask(Price(5)).id("a").await.unwrap(), 20);
    runtime.stop().await;
}

#[derive(Message, Serialize, Deserialize)]
#[message(reply(String))]
struct Name(u64);

/// Answers two questions, and takes a word.
#[workflow(accepts(Price, Name, Word))]
async fn porter(ctx: Ctx<Porter>) -> Result<()> {
    ctx.receive::<Word>().await?;
    let (price, name) = (ctx.question::<Price>().await?, ctx.question::<Name>().await?);
    price.reply(&7)?;
    name.reply(&"bread".to_owned())?;
    ok(())
}

/// Found in a review: a question under an id that something had been sent under waited for ever, and another question
/// under the id of the first was given the answer to that.
#[tokio::test(start_paused = true)]
async fn an_id_belongs_to_the_question_that_is_asked_under_it() {
    let runtime = Runtime::builder().workflow(porter);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let porter = runtime.start(porter, ()).await.unwrap();
    let id = "a".repeat(200);
    porter.send(Word(1)).id(&id).await.unwrap();
    let (price, name) = tokio::join!(
        porter.ask(Price(1)).id(&id).timeout("1h").into_future(),
        porter.ask(Name(1)).id(&id).timeout("1h").into_future(),
    );
    assert_eq!((price.unwrap(), name.unwrap().as_str()), (7, "bread"));
    assert_eq!(porter.ask(Price(2)).id(&id).await.unwrap(), 7, "it was asked before");
    for wrong in ["", "a/b", &"a".repeat(201)] {
        assert!(porter.ask(Price(1)).id(wrong).await.is_err(), "{wrong}");
    }
}
