//! Random programs of verbs, and a workflow that runs them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use everstep::{Accepts, Attempt, Backoff, Ctx, Loop, Message, Result, Retry, Workflow, WorkflowError};
use everstep::{branch, critical, ok};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// How a step goes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct StepPlan {
    /// So many attempts fail; at three it has failed for good.
    pub(crate) fails: u32,
    /// The wait between two of them.
    pub(crate) delay_ms: u64,
    pub(crate) ephemeral: bool,
}

/// A part of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Node {
    Step(StepPlan),
    /// Fails at the first attempt, for good.
    Critical,
    Sleep(u64),
    Receive,
    ReceiveWithin(u64),
    Version,
    Sequence(Vec<Node>),
    Join(Vec<Node>),
    Race(Vec<Node>),
    /// So many at once.
    Map(usize, Vec<Node>),
    Try(Box<Node>),
    /// So many iterations, stored and trimmed every so many.
    Loop(u32, u64, Box<Node>),
}

thread_local! {
    /// Attempts that were made. Steps run in the thread of the rig.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn take_calls() -> usize {
    CALLS.take()
}

#[derive(Debug, Message, Serialize, Deserialize)]
pub(crate) struct News(pub(crate) u32);

pub(crate) struct Interpreter;

impl Workflow for Interpreter {
    const NAME: &'static str = "random program";
    type Input = Node;
    type Output = Vec<String>;

    async fn run(ctx: Ctx<Self>, node: Node) -> Result<Vec<String>> {
        run(ctx, "p".to_owned(), node).await
    }
}

impl Accepts<News> for Interpreter {}

/// The beginning of 2030, when the rig begins.
const BEGINNING_MS: u64 = 1_893_456_000_000;

/// What was seen, and when.
fn saw(ctx: &Ctx<Interpreter>, what: impl std::fmt::Display) -> Vec<String> {
    let now = ctx.now().duration_since(UNIX_EPOCH).unwrap();
    vec![format!("{what} at {}", now.as_millis() - u128::from(BEGINNING_MS))]
}

fn run(ctx: Ctx<Interpreter>, name: String, node: Node) -> BoxFuture<'static, Result<Vec<String>>> {
    async move {
        match node {
            Node::Step(plan) => step(&ctx, &name, plan).await,
            Node::Critical => {
                let work = || async {
                    CALLS.set(CALLS.get() + 1);
                    Err::<(), _>(critical(WorkflowError::msg("no")))
                };
                ctx.step(&name, work).await?;
                ok(vec![])
            }
            Node::Sleep(ms) => {
                ctx.sleep(&name, Duration::from_millis(ms)).await?;
                ok(saw(&ctx, "slept"))
            }
            Node::Receive => {
                let news = ctx.receive::<News>().await?;
                ok(saw(&ctx, format!("news {}", news.0)))
            }
            Node::ReceiveWithin(ms) => {
                let news = ctx.receive::<News>().within(Duration::from_millis(ms)).await?;
                ok(match news {
                    Some(news) => saw(&ctx, format!("news {}", news.0)),
                    None => saw(&ctx, "no news"),
                })
            }
            Node::Version => ok(saw(&ctx, format!("version {}", ctx.version(&name, 2)?))),
            Node::Sequence(nodes) => {
                let mut trace = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    trace.extend(run(ctx.clone(), format!("{name}.{index}"), node).await?);
                }
                ok(trace)
            }
            nested => scoped(ctx, name, nested).await,
        }
    }
    .boxed()
}

async fn step(ctx: &Ctx<Interpreter>, name: &str, plan: StepPlan) -> Result<Vec<String>> {
    let work = move |attempt: Attempt| async move {
        CALLS.set(CALLS.get() + 1);
        everstep::ensure!(attempt.number() > plan.fails, "attempt {} fails", attempt.number());
        ok(attempt.number())
    };
    let retry = Retry::default().delay(Duration::from_millis(plan.delay_ms));
    let retry = retry.backoff(Backoff::Fixed).without_jitter();
    let step = ctx.step(name, work).retry(retry);
    let step = if plan.ephemeral { step.ephemeral() } else { step };
    let number = step.await?;
    ok(saw(ctx, format!("attempt {number}")))
}

/// The verbs that make scopes.
async fn scoped(ctx: Ctx<Interpreter>, name: String, node: Node) -> Result<Vec<String>> {
    let branches = |nodes: Vec<Node>| -> Vec<_> {
        let begin = |(index, node): (usize, Node)| {
            branch(&format!("b{index}"), move |ctx: Ctx<Interpreter>| {
                run(ctx, "in".to_owned(), node)
            })
        };
        nodes.into_iter().enumerate().map(begin).collect()
    };
    match node {
        Node::Join(nodes) => ok(ctx.join(&name, branches(nodes)).await?.concat()),
        Node::Race(nodes) => {
            let winner = ctx.race(&name, branches(nodes)).await?;
            ok([vec![winner.name], winner.value].concat())
        }
        Node::Map(at_once, nodes) => {
            let body = |ctx, node| run(ctx, "in".to_owned(), node);
            ok(ctx.map(&name, nodes, at_once, body).await?.concat())
        }
        Node::Try(node) => {
            let tried = ctx.try_scope(&name, |ctx: Ctx<Interpreter>| run(ctx, "in".to_owned(), *node));
            match tried.await? {
                Ok(trace) => ok(trace),
                Err(failure) => ok(saw(&ctx, format!("caught {:?}", failure.kind))),
            }
        }
        Node::Loop(times, every, node) => {
            let body = move |ctx: Ctx<Interpreter>, (done, mut trace): (u32, Vec<String>)| {
                let node = (*node).clone();
                async move {
                    trace.extend(run(ctx, "in".to_owned(), node).await?);
                    ok(if done + 1 == times {
                        Loop::Break(trace)
                    } else {
                        Loop::Continue((done + 1, trace))
                    })
                }
            };
            let repeat = ctx.repeat(&name, (0, Vec::new()), body);
            repeat.commit_interval(every).history_every(every).history_keep(1).await
        }
        other => Err(WorkflowError::msg(format!("not a scope: {other:?}"))),
    }
}

impl Node {
    /// Counts the verbs of a program.
    pub(crate) fn count(&self, met: &mut BTreeMap<&'static str, u32>) {
        let (verb, inside): (_, &[Node]) = match self {
            Self::Step(_) => ("step", &[]),
            Self::Critical => ("critical", &[]),
            Self::Sleep(_) => ("sleep", &[]),
            Self::Receive => ("receive", &[]),
            Self::ReceiveWithin(_) => ("within", &[]),
            Self::Version => ("version", &[]),
            Self::Sequence(nodes) => ("sequence", nodes),
            Self::Join(nodes) => ("join", nodes),
            Self::Race(nodes) => ("race", nodes),
            Self::Map(_, nodes) => ("map", nodes),
            Self::Try(node) => ("try", std::slice::from_ref(node)),
            Self::Loop(_, _, node) => ("loop", std::slice::from_ref(node)),
        };
        *met.entry(verb).or_default() += 1;
        inside.iter().for_each(|node| node.count(met));
    }

    /// The same without waits for messages: of parts that run at once only one may wait for them, or who gets which
    /// would be another question.
    fn deaf(self) -> Self {
        let all = |nodes: Vec<Self>| nodes.into_iter().map(Self::deaf).collect();
        match self {
            Self::Receive => Self::Sleep(77_777),
            Self::ReceiveWithin(ms) => Self::Sleep(ms),
            Self::Sequence(nodes) => Self::Sequence(all(nodes)),
            Self::Join(nodes) => Self::Join(all(nodes)),
            Self::Race(nodes) => Self::Race(all(nodes)),
            Self::Map(at_once, nodes) => Self::Map(at_once, all(nodes)),
            Self::Try(node) => Self::Try(Box::new(node.deaf())),
            Self::Loop(times, every, node) => Self::Loop(times, every, Box::new(node.deaf())),
            other => other,
        }
    }
}

/// All but the first do not listen.
fn one_listens(nodes: Vec<Node>) -> Vec<Node> {
    let mut nodes = nodes.into_iter();
    let first = nodes.next();
    first.into_iter().chain(nodes.map(Node::deaf)).collect()
}

pub(crate) fn nodes() -> impl Strategy<Value = Node> {
    let wait = || 1..40_000_u64;
    let step = (
        prop_oneof![3 => Just(0_u32), 2 => 1..3_u32, 1 => Just(3)],
        wait(),
        any::<bool>(),
    );
    let leaf = prop_oneof![
        6 => step.prop_map(|(fails, delay_ms, ephemeral)| Node::Step(StepPlan { fails, delay_ms, ephemeral })),
        1 => Just(Node::Critical),
        4 => wait().prop_map(Node::Sleep),
        1 => Just(Node::Receive),
        2 => wait().prop_map(Node::ReceiveWithin),
        1 => Just(Node::Version),
    ];
    leaf.prop_recursive(4, 16, 3, move |node| {
        let several = || prop::collection::vec(node.clone(), 2..4);
        // Whoever races waits first, so that nobody is there at once.
        let racing = (wait(), node.clone()).prop_map(|(ms, node)| Node::Sequence(vec![Node::Sleep(ms), node]));
        let racing = prop::collection::vec(racing, 2..4);
        prop_oneof![
            3 => several().prop_map(Node::Sequence),
            1 => several().prop_map(|nodes| Node::Join(one_listens(nodes))),
            2 => racing.prop_map(|nodes| Node::Race(one_listens(nodes))),
            1 => (1..3_usize, several()).prop_map(|(at_once, nodes)| {
                Node::Map(at_once, nodes.into_iter().map(Node::deaf).collect())
            }),
            2 => node.clone().prop_map(|node| Node::Try(Box::new(node))),
            2 => (1..4_u32, 1..3_u64, node.clone()).prop_map(|(times, every, node)| {
                Node::Loop(times, every, Box::new(node))
            }),
        ]
    })
}
