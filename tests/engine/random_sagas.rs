//! Random nestings of sagas: whatever was completed and can be undone is undone once, the last first.
//!
//! The expectation is as simple as can be. What can be undone is what the history shows as completed: steps by the
//! order of their completion, compensations by what the code had seen. In a loop only the last iteration counts that
//! made a checkpoint. The calls, the records and the end must be that, in every mode.

use std::collections::BTreeMap;
use std::sync::Mutex;

use everstep::storage::record::{Decided, Entry, EntryKind, Status};
use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Ctx, Loop, Result, Workflow, WorkflowError, branch, ok};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// What was undone: its path.
static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Node {
    /// A step that can be undone.
    Step,
    /// A compensation.
    Compensate,
    /// A sleep of so many milliseconds: what happens at once elsewhere happens before it.
    Sleep(u64),
    /// An error.
    Fail,
    Sequence(Vec<Node>),
    Join(Vec<Node>),
    Race(Vec<Node>),
    Map(Box<Node>),
    Try(Box<Node>),
    /// So many iterations; a bit for each that makes a checkpoint.
    Loop(u32, u32, Box<Node>),
}

struct Saga;

impl Workflow for Saga {
    const NAME: &'static str = "Saga";
    type Input = Node;
    type Output = ();

    async fn run(ctx: Ctx<Self>, node: Node) -> Result<()> {
        play(ctx, "in".to_owned(), true, node).await?;
        Err(WorkflowError::msg("the end"))
    }
}

/// Plays a node. The paths of what is done are made here, as the history will have them.
fn play(ctx: Ctx<Saga>, path: String, undoable: bool, node: Node) -> BoxFuture<'static, Result<()>> {
    async move {
        match node {
            Node::Step if undoable => {
                let value = format!("{path}step");
                let step = ctx.step("step", move || std::future::ready(ok(value.clone())));
                step.rollback(called).await?;
            }
            Node::Step => ctx.step("step", || async { ok(()) }).await?,
            Node::Compensate if undoable => {
                ctx.compensate("undo", format!("{path}undo"), called);
            }
            Node::Compensate => {}
            Node::Sleep(millis) => ctx.sleep("sleep", std::time::Duration::from_millis(millis)).await?,
            Node::Fail => return Err(WorkflowError::msg("no")),
            Node::Sequence(nodes) => {
                for (at, node) in nodes.into_iter().enumerate() {
                    let (scope, path) = (format!("s{at}"), format!("{path}s{at}/"));
                    let body = move |ctx| play(ctx, path, undoable, node);
                    ctx.join(&scope, vec![branch("b", body)]).await?;
                }
            }
            Node::Join(nodes) => {
                let of = |(at, node)| part(at, &format!("{path}join/"), undoable, node);
                ctx.join("join", nodes.into_iter().enumerate().map(of).collect::<Vec<_>>())
                    .await?;
            }
            Node::Race(nodes) => {
                let of = |(at, node)| part(at, &format!("{path}race/"), undoable, node);
                ctx.race("race", nodes.into_iter().enumerate().map(of).collect::<Vec<_>>())
                    .await?;
            }
            Node::Map(node) => {
                let body = |ctx, number: u64| play(ctx, format!("{path}map/map~{number}/"), undoable, (*node).clone());
                ctx.map("map", 0..3, 2, body).await?;
            }
            Node::Try(node) => {
                let body = |ctx| play(ctx, format!("{path}try/"), undoable, *node);
                let _caught: Result<(), _> = ctx.try_scope("try", body).await?;
            }
            Node::Loop(times, marks, node) => {
                let body = move |ctx: Ctx<Saga>, number: u32| {
                    let (node, path) = ((*node).clone(), format!("{path}loop/loop~{number}/"));
                    async move {
                        let marked = undoable && marks >> number & 1 == 1;
                        if marked {
                            ctx.checkpoint("checkpoint")?;
                        }
                        play(ctx, path, marked, node).await?;
                        ok(match number + 1 {
                            next if next == times => Loop::Break(()),
                            next => Loop::Continue(next),
                        })
                    }
                };
                let repeat = ctx.repeat("loop", 0, body).commit_interval(1).history_every(1);
                repeat.history_keep(u64::from(marks & 1)).await?;
            }
        }
        ok(())
    }
    .boxed()
}

type Body = Box<dyn FnOnce(Ctx<Saga>) -> BoxFuture<'static, Result<()>> + Send>;

fn part(at: usize, path: &str, undoable: bool, node: Node) -> everstep::Branch<Body> {
    let path = format!("{path}b{at}/");
    branch(
        &format!("b{at}"),
        Box::new(move |ctx| play(ctx, path, undoable, node)) as Body,
    )
}

async fn called(what: String) -> Result<()> {
    CALLS.lock().unwrap().push(what);
    ok(())
}

/// What ought to be undone, by its path in the history: the last first.
fn expected(history: &BTreeMap<String, Entry>) -> Vec<String> {
    let mut found: Vec<((u64, bool, u64), &str)> = Vec::new();
    for (path, entry) in history {
        match &entry.kind {
            EntryKind::Step(Some(Decided::Completed(_))) => {
                let order = entry.completed.expect("a step that is decided is complete").order;
                found.push(((order + 1, false, entry.id), path));
            }
            EntryKind::Compensation { seen, .. } => found.push(((*seen, true, entry.id), path)),
            _ => {}
        }
    }
    let counts = |path: &str| {
        let mut around = path.match_indices("loop~");
        around.all(|(at, _)| {
            let (loop_at, number) = (&path[..at], &path[at..path[at..].find('/').unwrap() + at]);
            let marks = history.keys().filter_map(|other| {
                let rest = other.strip_prefix(loop_at)?;
                let (iteration, rest) = rest.split_once('/')?;
                let marked = rest == "checkpoint" || rest.ends_with("/checkpoint");
                marked.then(|| iteration.to_owned())
            });
            marks.max_by_key(|mark| mark["loop~".len()..].parse::<u32>().unwrap()) == Some(number.to_owned())
        })
    };
    found.retain(|(_, path)| counts(path));
    found.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    found.into_iter().map(|(_, path)| path.to_owned()).collect()
}

fn check(plan: Plan, seed: u64, node: &Node) -> Result<u64, TestCaseError> {
    CALLS.lock().unwrap().clear();
    let mut rig = Rig::<Saga>::new(plan, seed).spread(20, std::time::Duration::from_millis(1));
    rig.start("i", node);
    let end = rig.run("i").unwrap();
    prop_assert!(matches!(&end, End::Failed(_)), "{:?}: {:?}", plan, end);
    let replayed = rig.replay("i").unwrap();
    let messages = |end: &End<()>| match end {
        End::Failed(failure) => failure.message.clone(),
        other => format!("{other:?}"),
    };
    prop_assert_eq!(replayed.as_ref().map(messages), Some(messages(&end)));
    let history = rig.history("i");
    let expected = expected(&history);
    let mut calls = std::mem::take(&mut *CALLS.lock().unwrap());
    calls.dedup();
    let calls: Vec<String> = calls.into_iter().map(|call| call[2..].to_owned()).collect();
    let paths: Vec<String> = expected.iter().map(|path| path.replace("/b/", "/")).collect();
    prop_assert_eq!(&calls, &paths, "{:?}, seed {}", plan, seed);
    for path in &expected {
        let undone = match &history[path].kind {
            EntryKind::Compensation { decided, .. } => decided.clone(),
            _ => match &history[&format!("{path}/rollback")].kind {
                EntryKind::Rollback(decided) => decided.clone(),
                _ => None,
            },
        };
        prop_assert!(
            matches!(undone, Some(Decided::Completed(_))),
            "{} after {:?}",
            path,
            plan
        );
    }
    let records = history
        .keys()
        .filter(|path| path.ends_with("/rollback") || *path == "rollback");
    let steps = expected.iter().filter(|path| path.ends_with("step")).count();
    prop_assert_eq!(
        records.count(),
        steps,
        "nothing else was undone, {:?}, seed {}",
        plan,
        seed
    );
    let status = if expected.is_empty() {
        Status::Failed
    } else {
        Status::Compensated
    };
    prop_assert_eq!(rig.state("i").status, status);
    Ok(rig.commits())
}

fn nodes() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        4 => Just(Node::Step),
        3 => Just(Node::Compensate),
        2 => (1..30_u64).prop_map(Node::Sleep),
        1 => Just(Node::Fail),
    ];
    leaf.prop_recursive(4, 20, 3, |inner| {
        let some = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            3 => some().prop_map(Node::Sequence),
            2 => some().prop_map(Node::Join),
            2 => some().prop_map(Node::Race),
            1 => inner.clone().prop_map(|node| Node::Map(Box::new(node))),
            1 => inner.clone().prop_map(|node| Node::Try(Box::new(node))),
            2 => (1..5_u32, 0..32_u32, inner.clone()).prop_map(|(times, marks, node)| Node::Loop(times, marks, Box::new(node))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// BEHAVIOUR 31, 54: undone once, in the reverse order of completion, whatever crashes.
    #[test]
    fn what_was_done_is_undone(node in nodes(), seed in any::<u64>()) {
        let commits = check(Plan::Live, seed, &node)?;
        check(Plan::Evict, seed, &node)?;
        for commit in 1..=commits {
            check(Plan::CrashBefore(commit), seed, &node)?;
            check(Plan::CrashAfter(commit), seed, &node)?;
        }
    }
}
