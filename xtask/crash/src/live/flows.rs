//! The workflows that are killed: one for each way of waiting, working and failing.

use everstep::{Attempt, Backoff, Ctx, Loop, Message, Result, Runtime, Workflow, branch, critical, ok, workflow};
use serde::{Deserialize, Serialize};

use super::observer::{self, Mark};

/// Something that a client sends.
#[derive(Debug, Message, Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) u64);

/// Notes that a mail job waits for.
pub(crate) const NOTES: u64 = 3;

/// What a job is about; the number of the job decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Steps in a row, the second of which fails at first.
    Chain,
    /// Messages, each with a step.
    Mail,
    /// A sleep between two steps.
    Sleep,
    /// A join of two branches and a map over four items.
    Fan,
    /// Two children.
    Family,
    /// Two steps, a failure, and both undone.
    Saga,
    /// A loop with a step in each iteration.
    Rounds,
    /// Two runs of one instance.
    Renewal,
}

impl Kind {
    pub(crate) fn of(job: u64) -> Self {
        use Kind::{Chain, Family, Fan, Mail, Renewal, Rounds, Saga, Sleep};
        // A client's jobs lie `CLIENTS` apart: the quotient lets each meet every kind.
        [Chain, Mail, Sleep, Fan, Family, Saga, Rounds, Renewal][((job + job / super::CLIENTS) % 8) as usize]
    }

    /// The paths of the steps whose marks the job returns, in order.
    pub(crate) fn paths(self) -> Vec<String> {
        let numbered = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        match self {
            Self::Chain => numbered(&["a", "b", "c", "d"]),
            Self::Mail => (0..NOTES).map(|note| format!("note {note}")).collect(),
            Self::Sleep => numbered(&["before", "after"]),
            Self::Fan => numbered(&[
                "both/left/work",
                "both/right/work",
                "each/each~0/work",
                "each/each~1/work",
                "each/each~2/work",
                "each/each~3/work",
            ]),
            Self::Family => numbered(&["one", "two", "one", "two"]),
            Self::Saga => Vec::new(),
            Self::Rounds => (0..ROUNDS).map(|round| format!("rounds/rounds~{round}/work")).collect(),
            Self::Renewal => numbered(&["last"]),
        }
    }
}

const ROUNDS: usize = 9;

/// Does what its number says, and returns the marks of its steps.
#[workflow(accepts(Note))]
pub(crate) async fn job(ctx: Ctx<Job>, number: u64) -> Result<Vec<Mark>> {
    match Kind::of(number) {
        Kind::Chain => chain(&ctx).await,
        Kind::Mail => mail(&ctx).await,
        Kind::Sleep => {
            let before = work(&ctx, "before").await?;
            ctx.sleep("nap", "15ms").await?;
            ok(vec![before, work(&ctx, "after").await?])
        }
        Kind::Fan => fan(&ctx).await,
        Kind::Family => {
            let (first, second) = (ctx.child(leaf, 1).start().await?, ctx.child(leaf, 2).start().await?);
            let mut marks = first.await?;
            marks.extend(second.await?);
            ok(marks)
        }
        Kind::Saga => saga(&ctx).await,
        Kind::Rounds => rounds(&ctx).await,
        Kind::Renewal if number < FIRST_RUN => {
            work(&ctx, "first").await?;
            ctx.continue_as_new(number + FIRST_RUN)
        }
        Kind::Renewal => ok(vec![work(&ctx, "last").await?]),
    }
}

/// Added to the number of a job in its second run. A multiple of everything that decides the kind.
const FIRST_RUN: u64 = 8 * super::CLIENTS * 1_000_000;

/// A child of a job.
#[workflow]
pub(crate) async fn leaf(ctx: Ctx<Leaf>, _number: u64) -> Result<Vec<Mark>> {
    ok(vec![work(&ctx, "one").await?, work(&ctx, "two").await?])
}

pub(crate) fn runtime() -> everstep::Builder {
    Runtime::builder().workflow(job).workflow(leaf)
}

/// A step that leaves a mark, and the code that sees it.
async fn work<W: Workflow>(ctx: &Ctx<W>, name: &str) -> Result<Mark> {
    let leave = |attempt: Attempt| async move { ok(observer::effect(attempt.idempotency_key())?) };
    // Every kill is a failed attempt.
    let mark = ctx
        .step(name, leave)
        .retries(1_000_000)
        .backoff(Backoff::Fixed)
        .delay("1ms")
        .await?;
    observer::seen(&mark)?;
    ok(mark)
}

async fn chain(ctx: &Ctx<Job>) -> Result<Vec<Mark>> {
    let first = work(ctx, "a").await?;
    let fails_first = |attempt: Attempt| async move {
        let mark = observer::effect(attempt.idempotency_key())?;
        everstep::ensure!(attempt.number() > 1, "the first attempt fails");
        ok(mark)
    };
    let step = ctx.step("b", fails_first).retries(1_000_000).backoff(Backoff::Fixed);
    let second: Mark = step.delay("1ms").await?;
    observer::seen(&second)?;
    ok(vec![first, second, work(ctx, "c").await?, work(ctx, "d").await?])
}

async fn mail(ctx: &Ctx<Job>) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for _ in 0..NOTES {
        let Note(note) = ctx.receive().await?;
        marks.push(work(ctx, &format!("note {note}")).await?);
    }
    ok(marks)
}

async fn fan(ctx: &Ctx<Job>) -> Result<Vec<Mark>> {
    let (left, right) = ctx
        .join(
            "both",
            (
                branch("left", |ctx: Ctx<Job>| async move { work(&ctx, "work").await }),
                branch("right", |ctx: Ctx<Job>| async move { work(&ctx, "work").await }),
            ),
        )
        .await?;
    let mut marks = vec![left, right];
    let each = ctx.map("each", vec![(); 4], 2, |ctx: Ctx<Job>, ()| async move {
        work(&ctx, "work").await
    });
    marks.extend(each.await?);
    ok(marks)
}

async fn saga(ctx: &Ctx<Job>) -> Result<Vec<Mark>> {
    for name in ["first", "second"] {
        let leave = |attempt: Attempt| async move { ok(observer::effect(attempt.idempotency_key())?) };
        let step = ctx
            .step(name, leave)
            .retries(1_000_000)
            .backoff(Backoff::Fixed)
            .delay("1ms");
        let mark: Mark = step.rollback(undo).await?;
        observer::seen(&mark)?;
    }
    Err(critical(std::io::Error::other("as planned")))
}

async fn undo(mark: Mark) -> Result<()> {
    ok(observer::undone(&mark)?)
}

async fn rounds(ctx: &Ctx<Job>) -> Result<Vec<Mark>> {
    let body = |ctx: Ctx<Job>, mut marks: Vec<Mark>| async move {
        marks.push(work(&ctx, "work").await?);
        ok(if marks.len() == ROUNDS {
            Loop::Break(marks)
        } else {
            Loop::Continue(marks)
        })
    };
    ok(ctx
        .repeat("rounds", Vec::new(), body)
        .commit_interval(3)
        .history_keep(2)
        .await?)
}
