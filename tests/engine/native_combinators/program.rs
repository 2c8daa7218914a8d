//! Random programs: a tree of operations and combinators, and a workflow that runs it.

use std::time::Duration;

use everstep::{Accepts, Attempt, Backoff, Ctx, Loop, Message, Result, Workflow, WorkflowError, branch, ok};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// A part of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Node {
    /// Fails so many times before it succeeds; at three it has failed for good.
    Step(u32),
    Sleep(u64),
    Receive,
    ReceiveWithin(u64),
    ReceiveMany(u64),
    Sequence(Vec<Node>),
    Join(Box<Node>, Box<Node>),
    TryJoin(Box<Node>, Box<Node>),
    Select(Box<Node>, Box<Node>),
    /// The first so many of them.
    Unordered(usize, Vec<Node>),
    CtxJoin(Vec<Node>),
    CtxRace(Vec<Node>),
    CtxMap(Vec<Node>),
    /// So many iterations, with the state recorded and the history trimmed every so many.
    CtxRepeat(u32, u64, Box<Node>),
}

/// A program, and whether `select!` may poll in the order that it likes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) node: Node,
    pub(crate) biased: bool,
}

#[derive(Debug, Message, Serialize, Deserialize)]
pub(crate) struct News(pub(crate) u32);

pub(crate) struct Interpreter;

impl Workflow for Interpreter {
    const NAME: &'static str = "interpreter";
    type Input = Program;
    type Output = Vec<String>;

    async fn run(ctx: Ctx<Self>, program: Program) -> Result<Vec<String>> {
        let Program { node, biased } = program;
        let at = Place {
            ctx: ctx.clone(),
            biased,
        };
        let trace = run(at, "p".into(), node).await?;
        ctx.set("trace", &trace)?;
        ok(trace)
    }
}

impl Accepts<News> for Interpreter {}

#[derive(Clone)]
struct Place {
    ctx: Ctx<Interpreter>,
    biased: bool,
}

impl Place {
    fn inside(&self, ctx: Ctx<Interpreter>) -> Self {
        Self { ctx, ..self.clone() }
    }

    /// An observation: what was seen, when, and what chance says then.
    fn saw(&self, what: impl std::fmt::Display) -> Vec<String> {
        let now = self.ctx.now().duration_since(std::time::UNIX_EPOCH).unwrap();
        vec![format!("{what} @{} #{}", now.as_millis(), self.ctx.random() % 100)]
    }
}

type Trace = BoxFuture<'static, Result<Vec<String>>>;

fn run(at: Place, name: String, node: Node) -> Trace {
    async move {
        match node {
            Node::Step(fails) => step(at, name, fails).await,
            Node::Sleep(millis) => {
                at.ctx.sleep(&name, Duration::from_millis(millis)).await?;
                ok(at.saw(name))
            }
            Node::Receive | Node::ReceiveWithin(_) | Node::ReceiveMany(_) => alone(at, name, node).await,
            Node::Sequence(nodes) => {
                let mut seen = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    seen.extend(run(at.clone(), format!("{name}.{index}"), node).await?);
                }
                ok(seen)
            }
            Node::Join(..) | Node::TryJoin(..) | Node::Select(..) | Node::Unordered(..) => native(at, name, node).await,
            Node::CtxJoin(_) | Node::CtxRace(_) | Node::CtxMap(_) | Node::CtxRepeat(..) => named(at, name, node).await,
        }
    }
    .boxed()
}

async fn step(at: Place, name: String, fails: u32) -> Result<Vec<String>> {
    let value = at
        .ctx
        .step(&name, move |attempt: Attempt| async move {
            everstep::ensure!(attempt.number() > fails, "attempt {} fails", attempt.number());
            ok(attempt.number())
        })
        .backoff(Backoff::Fixed)
        .await?;
    ok(at.saw(format!("{name}={value}")))
}

/// A wait for messages, in a scope of its own: `select!` begins its branches in no particular order, and the place of
/// a wait is its number in its scope.
async fn alone(at: Place, name: String, node: Node) -> Result<Vec<String>> {
    let inside = at.clone();
    let waiting = branch("wait", move |ctx: Ctx<Interpreter>| async move {
        ok(match node {
            Node::ReceiveWithin(millis) => {
                let news = ctx.receive::<News>().within(Duration::from_millis(millis)).await?;
                inside.saw(format!("{:?}", news.map(|news| news.0)))
            }
            Node::ReceiveMany(millis) => {
                let many = ctx.receive_many::<News>(2);
                let many = many.timeout(Duration::from_millis(millis)).await?;
                inside.saw(format!("{:?}", many.iter().map(|news| news.0).collect::<Vec<_>>()))
            }
            _ => inside.saw(ctx.receive::<News>().await?.0),
        })
    });
    let seen = at.ctx.join(&name, vec![waiting]).await?;
    ok(seen.concat())
}

/// What a part saw, or how it failed.
fn seen(result: Result<Vec<String>>) -> Vec<String> {
    result.unwrap_or_else(|error| vec![format!("failed: {error}")])
}

async fn native(at: Place, name: String, node: Node) -> Result<Vec<String>> {
    let part = |index: usize, node: Node| run(at.clone(), format!("{name}.{index}"), node);
    match node {
        Node::Join(a, b) => {
            let (a, b) = futures_util::join!(part(0, *a), part(1, *b));
            ok([seen(a), seen(b)].concat())
        }
        Node::TryJoin(a, b) => {
            let (a, b) = futures_util::try_join!(part(0, *a), part(1, *b))?;
            ok([a, b].concat())
        }
        Node::Select(a, b) if at.biased => {
            let (mut a, mut b) = (part(0, *a).fuse(), part(1, *b).fuse());
            ok(futures_util::select_biased! { a = a => seen(a), b = b => seen(b) })
        }
        Node::Select(a, b) => {
            let (mut a, mut b) = (part(0, *a).fuse(), part(1, *b).fuse());
            ok(futures_util::select! { a = a => seen(a), b = b => seen(b) })
        }
        Node::Unordered(first, nodes) => {
            let parts = nodes.into_iter().enumerate().map(|(index, node)| part(index, node));
            let unordered: FuturesUnordered<_> = parts.collect();
            let results: Vec<_> = unordered.take(first).collect().await;
            ok(results.into_iter().map(seen).collect::<Vec<_>>().concat())
        }
        other => Err(WorkflowError::msg(format!("not a native combinator: {other:?}"))),
    }
}

async fn named(at: Place, name: String, node: Node) -> Result<Vec<String>> {
    let branches = |nodes: Vec<Node>| -> Vec<_> {
        let begin = |(index, node): (usize, Node)| {
            let at = at.clone();
            branch(&format!("b{index}"), move |ctx: Ctx<Interpreter>| {
                run(at.inside(ctx), "in".into(), node)
            })
        };
        nodes.into_iter().enumerate().map(begin).collect()
    };
    match node {
        Node::CtxJoin(nodes) => ok(at.ctx.join(&name, branches(nodes)).await?.concat()),
        Node::CtxRace(nodes) => {
            let winner = at.ctx.race(&name, branches(nodes)).await?;
            ok([vec![winner.name], winner.value].concat())
        }
        Node::CtxMap(nodes) => {
            let body = |ctx, node| run(at.inside(ctx), "in".into(), node);
            ok(at.ctx.map(&name, nodes, 2, body).await?.concat())
        }
        Node::CtxRepeat(times, every, node) => {
            let inside = at.clone();
            let body = move |ctx: Ctx<Interpreter>, (done, mut trace): (u32, Vec<String>)| {
                let (at, node) = (inside.inside(ctx), (*node).clone());
                async move {
                    trace.extend(at.saw("begins"));
                    trace.extend(run(at, "in".into(), node).await?);
                    ok(if done + 1 == times {
                        Loop::Break(trace)
                    } else {
                        Loop::Continue((done + 1, trace))
                    })
                }
            };
            let repeat = at.ctx.repeat(&name, (0, Vec::new()), body);
            repeat.commit_interval(every).history_every(every).history_keep(1).await
        }
        other => Err(WorkflowError::msg(format!("not a verb of the context: {other:?}"))),
    }
}

/// Programs whose waits take one of `points` lengths, `apart` from each other.
pub(crate) fn programs(points: u64, apart: u64) -> impl Strategy<Value = Node> {
    let wait = (1..=points).prop_map(move |point| point * apart);
    let leaf = prop_oneof![
        4 => prop_oneof![Just(0_u32), Just(0), Just(1), Just(3)].prop_map(Node::Step),
        3 => wait.clone().prop_map(Node::Sleep),
        1 => Just(Node::Receive),
        2 => wait.clone().prop_map(Node::ReceiveWithin),
        1 => wait.prop_map(Node::ReceiveMany),
    ];
    leaf.prop_recursive(4, 14, 3, |node| {
        let several = || prop::collection::vec(node.clone(), 2..4);
        let two = || (node.clone().prop_map(Box::new), node.clone().prop_map(Box::new));
        prop_oneof![
            2 => several().prop_map(Node::Sequence),
            1 => two().prop_map(|(a, b)| Node::Join(a, b)),
            1 => two().prop_map(|(a, b)| Node::TryJoin(a, b)),
            2 => two().prop_map(|(a, b)| Node::Select(a, b)),
            2 => (1..4_usize, several()).prop_map(|(first, nodes)| Node::Unordered(first, nodes)),
            1 => several().prop_map(Node::CtxJoin),
            1 => several().prop_map(Node::CtxRace),
            1 => several().prop_map(Node::CtxMap),
            2 => (1..4_u32, 1..3_u64, node.clone()).prop_map(|(times, every, node)| {
                Node::CtxRepeat(times, every, Box::new(node))
            }),
        ]
    })
}
