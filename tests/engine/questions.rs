//! Whoever asks gets one answer: what the code said, or that it said nothing. BEHAVIOUR 19.

use std::time::Duration;

use everstep::storage::record::FailureKind;
use everstep::testing::rig::{End, Rig, in_every_mode};
use everstep::{Accepts, Asked, Ctx, Loop, Message, Policy, Result, Strategy, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
#[message(reply(String))]
struct Name(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => u32, accepts [Name], |$ctx, _| $body);
    };
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What came of a question, in words.
fn answer<W: Workflow>(rig: &Rig<W>, question: &str) -> String {
    match rig.answer::<Name>("i", question) {
        None => "open".to_owned(),
        Some(Ok(answer)) => answer,
        Some(Err(failure)) => format!("{:?}: {}", failure.kind, failure.message),
    }
}

const UNANSWERED: &str = "Rejected: the workflow did not answer the question";

workflow!(Answers, |ctx| {
    let first = ctx.question::<Name>().await?;
    let number = first.0;
    let name = ctx
        .step("look up", move || async move { ok(format!("name {number}")) })
        .await?;
    ctx.sleep("think", "10s").await?;
    first.reply(&name)?;
    let (question, reply) = ctx.question::<Name>().timeout("1h").await?.into_parts();
    reply.refuse("not that one")?;
    ctx.sleep("rest", "1h").await?;
    ok(number + question.0)
});

#[test]
fn an_answer_is_stored_once_and_stays() {
    in_every_mode::<Answers, _>(1, |rig| {
        rig.start("i", &());
        let one = rig.ask_after("i", secs(5), &Name(1));
        let two = rig.ask_after("i", secs(6), &Name(2));
        rig.run_for("i", secs(8)).unwrap();
        assert_eq!((answer(rig, &one), answer(rig, &two)), ("open".into(), "open".into()));
        rig.run_for("i", secs(60)).unwrap();
        let answers = (answer(rig, &one), answer(rig, &two));
        assert_eq!(answers, ("name 1".into(), "Rejected: not that one".into()));
        assert_eq!(rig.run("i").unwrap(), End::Completed(3));
        assert_eq!((answer(rig, &one), answer(rig, &two)), answers);
        assert_eq!((rig.answers_len("i"), rig.inbox_len("i")), (2, 0));
    });
}

workflow!(Forgets, |ctx| {
    let kept = ctx.question::<Name>().await?;
    drop(ctx.question::<Name>().await?);
    ctx.receive::<Name>().await?;
    ctx.sleep("s", "10s").await?;
    ok(kept.0)
});

/// Taken and dropped, received as if it were a message, kept until the end, never taken: each is told.
#[test]
fn what_is_never_answered_is_answered_with_an_error() {
    in_every_mode::<Forgets, _>(1, |rig| {
        rig.start("i", &());
        let questions: Vec<_> = (0..4)
            .map(|number| rig.ask_after("i", secs(1), &Name(number)))
            .collect();
        rig.run_for("i", secs(5)).unwrap();
        let told: Vec<_> = questions.iter().map(|question| answer(rig, question)).collect();
        assert_eq!(told, ["open", UNANSWERED, UNANSWERED, "open"]);
        assert_eq!(rig.run("i").unwrap(), End::Completed(0));
        assert!(questions.iter().all(|question| answer(rig, question) == UNANSWERED));
        assert_eq!(rig.answers_len("i"), 4, "all of it in the commits of the instance");
    });
}

/// Without a strategy it would be put aside.
struct Breaks;

impl Workflow for Breaks {
    const NAME: &'static str = "Breaks";
    type Input = ();
    type Output = u32;

    fn policy() -> Policy {
        Policy::new().strategy(Strategy::Compensate)
    }

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let asked = ctx.question::<Name>().await?;
        ctx.sleep("s", "10s").await?;
        panic!("no name for {}", asked.0)
    }
}

impl Accepts<Name> for Breaks {}

#[test]
fn a_question_is_told_when_the_code_breaks_or_is_cancelled() {
    for cancel_after in [secs(5), secs(1_000)] {
        in_every_mode::<Breaks, _>(1, |rig| {
            rig.start("i", &());
            let question = rig.ask_after("i", secs(1), &Name(1));
            rig.cancel_after("i", cancel_after, "enough");
            assert!(matches!(rig.run("i").unwrap(), End::Failed(_)));
            assert_eq!(
                (answer(rig, &question), rig.answers_len("i")),
                (UNANSWERED.to_owned(), 1)
            );
        });
    }
}

workflow!(Serves, |ctx| {
    let body = |ctx: Ctx<Serves>, served: u32| async move {
        let asked: Asked<Name> = ctx.question().await?;
        if asked.0 == 99 {
            asked.reply(&"bye".to_owned())?;
            return ok(Loop::Break(served));
        }
        let name = format!("{} after {served}", asked.0);
        asked.reply(&name)?;
        ok(Loop::Continue(served + 1))
    };
    ctx.repeat("serve", 0, body).commit_interval(2).history_keep(0).await
});

#[test]
fn a_loop_answers_each_question_once() {
    in_every_mode::<Serves, _>(1, |rig| {
        rig.start("i", &());
        let questions: Vec<_> = (0..7)
            .map(|number| rig.ask_after("i", secs(number), &Name(number as u32)))
            .collect();
        let last = rig.ask_after("i", secs(60), &Name(99));
        assert_eq!(rig.run("i").unwrap(), End::Completed(7));
        for (number, question) in questions.iter().enumerate() {
            assert_eq!(answer(rig, question), format!("{number} after {number}"));
        }
        assert_eq!(answer(rig, &last), "bye");
    });
}

workflow!(Boasts, |ctx| {
    let (_, reply) = ctx.question::<Name>().await?.into_parts();
    let refused = reply.with(&"x".repeat(300_000)).unwrap_err();
    everstep::ensure!(refused.kind == FailureKind::Limit, "{refused}");
    ok(1)
});

#[test]
fn an_answer_that_is_too_large_is_an_error_for_both() {
    in_every_mode::<Boasts, _>(1, |rig| {
        rig.start("i", &());
        let question = rig.ask("i", &Name(1));
        assert_eq!(rig.run("i").unwrap(), End::Completed(1));
        assert_eq!(answer(rig, &question), UNANSWERED);
    });
}

workflow!(Told, |ctx| {
    let asked = ctx.question::<Name>().await?;
    let number = asked.0;
    asked.reply(&"nobody waits".to_owned())?;
    ok(number)
});

/// A question that was sent as a message expects no answer.
#[test]
fn what_was_only_told_gets_no_answer() {
    in_every_mode::<Told, _>(1, |rig| {
        rig.start("i", &());
        rig.send("i", &Name(7));
        assert_eq!(rig.run("i").unwrap(), End::Completed(7));
        assert_eq!(rig.answers_len("i"), 0);
    });
}
