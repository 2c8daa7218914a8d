//! The workflow that runs a program, and tells the ledger what it sees.
//!
//! What takes its place from its number in its scope (a wait, a child, something sent) has a scope of its own here:
//! `select!` begins its branches in no particular order.

mod asides;
mod outside;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use everstep::storage::record::{Failure, FailureKind};
use everstep::{
    Accepts, Activity, Attempt, Backoff, Ctx, Loop, Message, Messages, Policy, Result, Strategy, Workflow,
    WorkflowError, branch, ok,
};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};

use super::client;
use super::ledger::{self, Place};
use super::program::{Doom, Labour, Node, Program};

/// A message. It says whom it is for, so that one that strayed is noticed.
#[derive(Debug, Clone, Message, Serialize, Deserialize)]
pub(crate) struct News {
    pub(crate) to: String,
    pub(crate) sender: String,
    pub(crate) number: u64,
}

impl News {
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.sender, self.number)
    }
}

/// A question.
#[derive(Debug, Clone, Message, Serialize, Deserialize)]
#[message(reply(String))]
pub(crate) struct Riddle {
    pub(crate) to: String,
    pub(crate) sender: String,
    pub(crate) number: u64,
}

impl Riddle {
    pub(crate) fn id(&self) -> String {
        format!("ask {}-{}", self.sender, self.number)
    }
}

/// What a wait for either of them takes.
#[derive(Debug, Messages)]
enum Post {
    News(News),
    Riddle(Riddle),
}

/// An event.
#[derive(Debug, Clone, Message, Serialize, Deserialize)]
pub(crate) struct Tidings {
    pub(crate) id: String,
}

pub(crate) struct Interpreter;

impl Workflow for Interpreter {
    const NAME: &'static str = "interpreter";
    type Input = Program;
    type Output = Vec<String>;

    /// What panics fails at once: without a strategy it would be put aside, and not come to its end.
    fn policy() -> Policy {
        Policy::new().strategy(Strategy::Compensate)
    }

    async fn run(ctx: Ctx<Self>, program: Program) -> Result<Vec<String>> {
        let (id, number) = (ctx.id().to_string(), ctx.run_number());
        ledger::with(|ledger| ledger.begins(&id, number, &program));
        let at = At {
            path: format!("{id}/{number}"),
            ctx: ctx.clone(),
        };
        let mut outcome = run(at, "p".into(), program.node.clone()).await;
        if outcome.is_ok() && program.again > 0 {
            let again = program.again - 1;
            // The next run is nobody's child: the place that bore it bore one.
            return ctx.continue_as_new(Program { again, ..program });
        }
        if outcome.is_ok() && program.doom != Doom::No {
            outcome = Err(WorkflowError::msg("doomed"));
        }
        let panics = outcome.is_err() && program.doom == Doom::Panics;
        ledger::with(|ledger| ledger.ends(&id, number, &outcome));
        assert!(!panics, "planned");
        outcome
    }
}

impl Accepts<News> for Interpreter {}
impl Accepts<Riddle> for Interpreter {}

/// Where in the program: a context, and the way to it from the root.
#[derive(Clone)]
struct At {
    ctx: Ctx<Interpreter>,
    path: String,
}

impl At {
    fn inside(&self, ctx: Ctx<Interpreter>, name: &str) -> Self {
        let path = format!("{}/{name}", self.path);
        Self { ctx, path }
    }

    fn place(&self, name: &str) -> Place {
        Place {
            instance: self.ctx.id().to_string(),
            path: format!("{}/{name}", self.path),
        }
    }

    /// An observation: what was seen, when, and what chance says then.
    fn saw(&self, what: impl std::fmt::Display) -> Vec<String> {
        let now = self.ctx.now().duration_since(std::time::UNIX_EPOCH).unwrap();
        vec![format!("{what} @{} #{}", now.as_millis(), self.ctx.random() % 100)]
    }
}

/// Whether a failure says that the instance itself is to end; what a child ended with does not.
fn tells_to_end(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Cancelled | FailureKind::DeadlineExceeded => true,
        FailureKind::Child => false,
        _ => failure.branches.iter().any(|(_, branch)| tells_to_end(branch)),
    }
}

type Trace = BoxFuture<'static, Result<Vec<String>>>;

fn run(at: At, name: String, node: Node) -> Trace {
    async move {
        match node {
            Node::Step(labour) => step(at, name, labour).await,
            Node::Sleep(millis) => {
                let place = at.place(&name);
                ledger::with(|ledger| ledger.lies_down(&place, millis));
                at.ctx.sleep(&name, Duration::from_millis(millis)).await?;
                ledger::with(|ledger| ledger.wakes(&place));
                ok(at.saw(name))
            }
            Node::SleepUntil(_) | Node::Uuid | Node::Emit | Node::IsCancelled => asides::run(at, name, &node).await,
            Node::Receive
            | Node::ReceiveWithin(_)
            | Node::ReceiveUntil(_)
            | Node::ReceiveMany(_)
            | Node::ReceiveManyUntil(_) => wait(at, name, node).await,
            Node::ReceiveAny(patience) => wait_for_any(at, name, patience).await,
            Node::Sequence(nodes) => {
                let mut seen = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    seen.extend(run(at.clone(), format!("{name}.{index}"), node).await?);
                }
                ok(seen)
            }
            Node::Caught(node) => {
                let outcome = run(at.clone(), format!("{name}.c"), *node).await;
                if outcome.as_ref().is_err_and(|error| tells_to_end(error.failure())) {
                    ledger::with(|ledger| ledger.hears_that_it_ends(at.ctx.id().as_str()));
                }
                ok([at.saw("caught"), seen(&outcome)].concat())
            }
            Node::TryScope(node) => {
                let (inside, path) = (at.clone(), name.clone());
                let body = move |ctx: Ctx<Interpreter>| run(inside.inside(ctx, &path), "in".into(), *node);
                let outcome = at.ctx.try_scope(&name, body).await?;
                ok(outcome.unwrap_or_else(|failure| vec![format!("failed: {failure}")]))
            }
            Node::Shielded(node) => {
                let shielded = At {
                    ctx: at.ctx.shield(),
                    ..at
                };
                run(shielded, format!("{name}.s"), *node).await
            }
            Node::Child(bearing, program) => outside::child(at, name, bearing, *program).await,
            Node::Tell(to) => tell(at, name, client::name(to as usize)).await,
            Node::Answer(how, patience) => outside::answer(at, name, how, patience).await,
            Node::Promise(patience) => outside::promise(at, name, patience).await,
            Node::Publish(to_one, keep) => outside::publish(at, name, to_one, keep).await,
            Node::Hear(patience) => outside::hear(at, name, patience).await,
            Node::Set => {
                let place = at.place(&name);
                ledger::with(|ledger| ledger.sets(&place));
                at.ctx.set("progress", &place.path)?;
                // `select!` may or may not come to the branches beside one that is ready when it is first polled.
                at.ctx.sleep(&name, Duration::ZERO).await?;
                ok(at.saw(name))
            }
            Node::Version => gate(at, name).await,
            Node::Patched(since) => patch(at, name, since).await,
            Node::Checkpoint => {
                let place = at.place(&name);
                ledger::with(|ledger| ledger.checkpoints(&place));
                at.ctx.checkpoint(&name)?;
                ok(at.saw(name))
            }
            Node::Compensate(fails, panics) => {
                let place = at.place(&name);
                // The same in a run that goes on from this one, where it is not registered again.
                let value = place.path.splitn(3, '/').last().unwrap_or_default().to_owned();
                ledger::with(|ledger| ledger.registers(&place, &value));
                let undoing =
                    move |value: String, attempt: Attempt| undo(place.clone(), (fails, panics), value, attempt);
                at.ctx.compensate(&name, value, undoing);
                ok(at.saw(name))
            }
            Node::Join(..) | Node::TryJoin(..) | Node::Select(..) | Node::Unordered(..) => native(at, name, node).await,
            Node::CtxJoin(_) | Node::CtxRace(_) | Node::CtxMap(_) | Node::CtxRepeat(..) => named(at, name, node).await,
        }
    }
    .boxed()
}

async fn step(at: At, name: String, labour: Labour) -> Result<Vec<String>> {
    let place = at.place(&name);
    ledger::with(|ledger| ledger.asks(&place));
    let doing = place.clone();
    let work = move |attempt: Attempt| labourer(doing.clone(), labour, attempt);
    let mut step = if labour.activity {
        at.ctx.run(Errand, (place.clone(), labour)).named(&name)
    } else {
        at.ctx.step(&name, work)
    };
    step = step.retries(2).backoff(Backoff::Fixed);
    if let Some(fails) = labour.undo_fails {
        let place = place.clone();
        let how = (fails, labour.undo_panics);
        step = step.rollback(move |value: String, attempt: Attempt| undo(place.clone(), how, value, attempt));
    }
    if labour.ephemeral {
        step = step.ephemeral();
    }
    if let Some(timeout) = labour.timeout_ms {
        step = step.timeout(Duration::from_millis(timeout));
    }
    if let Some(silence) = labour.silence_ms {
        step = step.heartbeat(Duration::from_millis(silence));
    }
    let outcome = step.await;
    let said = outcome.as_ref().map_err(ToString::to_string);
    ledger::with(|ledger| {
        if labour.ephemeral {
            // It is seen before it is stored, and may be another one after a crash.
            ledger.saw_passing(&place, &said);
        } else {
            ledger.saw_result(&place, said, labour.undo_fails.is_some());
        }
    });
    ok(at.saw(format!("{name}={}", outcome?)))
}

/// The same as an activity.
struct Errand;

impl Activity for Errand {
    const NAME: &'static str = "errand";
    type Input = (Place, Labour);
    type Output = String;

    async fn run(attempt: Attempt, (place, labour): (Place, Labour)) -> Result<String> {
        labourer(place, labour, attempt).await
    }
}

async fn labourer(place: Place, labour: Labour, attempt: Attempt) -> Result<String> {
    let number = attempt.number();
    let (value, yields) = ledger::with(|ledger| {
        let value = ledger.executes(&place, (number, !labour.ephemeral), attempt.idempotency_key());
        (value, ledger.chance.below(3))
    });
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
    let half = Duration::from_millis(labour.takes_ms / 2);
    if labour.silence_ms.is_some() {
        if let Some(progress) = attempt.progress::<String>()? {
            ledger::with(|ledger| ledger.goes_on(&place, &progress));
        }
        asides::lives(&place, &value, &attempt)?;
    }
    tokio::time::sleep(half).await;
    if labour.silence_ms.is_some() {
        asides::lives(&place, &value, &attempt)?;
    }
    tokio::time::sleep(half).await;
    assert!(number > labour.fails || !labour.panics, "planned");
    everstep::ensure!(number > labour.fails, "attempt {number} fails");
    ok(value)
}

async fn undo(place: Place, (fails, panics): (u32, bool), value: String, attempt: Attempt) -> Result<()> {
    ledger::with(|ledger| ledger.undoes(&place, &value, attempt.number()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(attempt.number() > fails || !panics, "planned");
    everstep::ensure!(attempt.number() > fails, "undoing fails");
    ledger::with(|ledger| ledger.has_undone(&place));
    ok(())
}

/// A gate, and a step that belongs to what it says.
async fn gate(at: At, name: String) -> Result<Vec<String>> {
    let place = at.place(&name);
    let latest = ledger::with(|ledger| ledger.latest);
    let version = at.ctx.version(&name, latest)?;
    ledger::with(|ledger| ledger.comes_to_gate(&place, version));
    let following = move || {
        ledger::with(|ledger| ledger.follows(&place));
        async { ok(()) }
    };
    at.ctx.step(&format!("{name}.v{version}"), following).await?;
    ok(at.saw(format!("version {version}")))
}

/// A gate that code knows from a life on, and a step that belongs to what it says.
async fn patch(at: At, name: String, since: u32) -> Result<Vec<String>> {
    let place = at.place(&name);
    let is_known = ledger::with(|ledger| ledger.latest >= since);
    let patched = is_known && at.ctx.patched(&name)?;
    ledger::with(|ledger| ledger.comes_to_gate(&place, 1 + u32::from(patched)));
    let following = (patched, place.clone());
    let way = move || {
        let (patched, place) = following.clone();
        // What an attempt of the old way did says nothing until its result is stored.
        if patched {
            ledger::with(|ledger| ledger.follows(&place));
        }
        async { ok(()) }
    };
    at.ctx.step(&format!("{name}.{patched}"), way).await?;
    ledger::with(|ledger| ledger.follows(&place));
    ok(at.saw(format!("patched {patched}")))
}

/// A message to another instance, in a scope of its own like a wait. Its sender is the place, so every one has its own.
async fn tell(at: At, name: String, to: String) -> Result<Vec<String>> {
    let (inside, place) = (at.clone(), at.place(&name));
    let telling = branch("tell", move |ctx: Ctx<Interpreter>| async move {
        let news = News {
            to: to.clone(),
            sender: place.path.clone(),
            number: 1,
        };
        ledger::with(|ledger| ledger.tells(&news));
        ctx.send(Interpreter, to.clone(), news).await?;
        ok(inside.saw(format!("told {to}")))
    });
    ok(at.ctx.join(&name, vec![telling]).await?.concat())
}

/// A wait for messages, in a scope of its own: `select!` begins its branches in no particular order, and the place of
/// a wait is its number in its scope.
async fn wait(at: At, name: String, node: Node) -> Result<Vec<String>> {
    let inside = at.clone();
    let place = at.place(&name);
    let waiting = branch("wait", move |ctx: Ctx<Interpreter>| async move {
        let taken = match node {
            Node::ReceiveWithin(millis) => {
                let news = ctx.receive::<News>().within(Duration::from_millis(millis)).await?;
                news.into_iter().collect()
            }
            Node::ReceiveUntil(millis) => {
                let until = ctx.now() + Duration::from_millis(millis);
                ctx.receive::<News>()
                    .until(until)
                    .or_none()
                    .await?
                    .into_iter()
                    .collect()
            }
            Node::ReceiveMany(millis) => {
                let many = ctx.receive_many::<News>(2);
                many.timeout(Duration::from_millis(millis)).await?
            }
            Node::ReceiveManyUntil(millis) => {
                let until = ctx.now() + Duration::from_millis(millis);
                ctx.receive_many::<News>(2).until(until).await?
            }
            _ => vec![ctx.receive::<News>().await?],
        };
        ledger::with(|ledger| ledger.took(&place, &taken));
        let ids: Vec<_> = taken.iter().map(News::id).collect();
        ok(inside.saw(format!("{ids:?}")))
    });
    ok(at.ctx.join(&name, vec![waiting]).await?.concat())
}

/// A wait for a message or a question, whichever came first.
async fn wait_for_any(at: At, name: String, patience: Option<u64>) -> Result<Vec<String>> {
    let (inside, place) = (at.clone(), at.place(&name));
    let waiting = branch("any", move |ctx: Ctx<Interpreter>| async move {
        let any = ctx.receive_any::<Post>();
        let taken = match patience {
            Some(millis) => any.within(Duration::from_millis(millis)).await?,
            None => Some(any.await?),
        };
        let taken = taken.map(|taken| match taken {
            Post::News(news) => (news.id(), news.to),
            Post::Riddle(riddle) => (riddle.id(), riddle.to),
        });
        let (ids, to): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        ledger::with(|ledger| ledger.took_messages(&place, &ids, &to));
        ok(inside.saw(format!("{ids:?}")))
    });
    ok(at.ctx.join(&name, vec![waiting]).await?.concat())
}

/// What a part saw, or how it failed.
pub(crate) fn seen(outcome: &Result<Vec<String>>) -> Vec<String> {
    match outcome {
        Ok(seen) => seen.clone(),
        Err(error) => vec![format!("failed: {error}")],
    }
}

async fn native(at: At, name: String, node: Node) -> Result<Vec<String>> {
    let part = |index: usize, node: Node| run(at.clone(), format!("{name}.{index}"), node);
    match node {
        Node::Join(a, b) => {
            let (a, b) = futures_util::join!(part(0, *a), part(1, *b));
            ok([seen(&a), seen(&b)].concat())
        }
        Node::TryJoin(a, b) => {
            let (a, b) = futures_util::try_join!(part(0, *a), part(1, *b))?;
            ok([a, b].concat())
        }
        Node::Select(a, b) => ok(seen(&select(part(0, *a), part(1, *b)).await)),
        Node::Unordered(first, nodes) => {
            let parts = nodes.into_iter().enumerate().map(|(index, node)| part(index, node));
            let unordered: FuturesUnordered<_> = parts.collect();
            let results: Vec<_> = unordered.take(first).collect().await;
            ok(results.iter().map(seen).collect::<Vec<_>>().concat())
        }
        other => Err(WorkflowError::msg(format!("not a native combinator: {other:?}"))),
    }
}

/// `select!` in an order that differs from poll to poll, and that the seed knows.
async fn select(mut a: Trace, mut b: Trace) -> Result<Vec<String>> {
    poll_fn(move |cx| {
        let (first, second) = if ledger::with(|ledger| ledger.chance.once_in(2)) {
            (&mut a, &mut b)
        } else {
            (&mut b, &mut a)
        };
        match first.poll_unpin(cx) {
            Poll::Pending => second.poll_unpin(cx),
            ready => ready,
        }
    })
    .await
}

async fn named(at: At, name: String, node: Node) -> Result<Vec<String>> {
    let branches = |nodes: Vec<Node>| -> Vec<_> {
        let begin = |(index, node): (usize, Node)| {
            let (at, inside) = (at.clone(), format!("{name}/b{index}"));
            branch(&format!("b{index}"), move |ctx: Ctx<Interpreter>| {
                run(at.inside(ctx, &inside), "in".into(), node)
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
            let nodes: Vec<_> = nodes.into_iter().enumerate().collect();
            let body = |ctx, (index, node)| run(at.inside(ctx, &format!("{name}/m{index}")), "in".into(), node);
            ok(at.ctx.map(&name, nodes, 2, body).await?.concat())
        }
        Node::CtxRepeat(times, every, node) => {
            let (inside, path) = (at.clone(), name.clone());
            let body = move |ctx: Ctx<Interpreter>, (done, mut trace): (u32, Vec<String>)| {
                let (at, node) = (inside.inside(ctx, &format!("{path}/i{done}")), (*node).clone());
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
