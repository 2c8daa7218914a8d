//! Making a case that fails smaller: whatever can be left out so that it still fails is left out.

use super::case::{Case, Limits};
use super::client::{Act, Terms};
use super::machine::Odds;
use super::program::{Doom, Node, Program};

/// How many smaller cases are tried.
const TRIES_MAX: usize = 300;

/// The smallest case that was found that still fails, and what it says.
pub(crate) fn shrink(mut case: Case, mut said: String, fails: impl Fn(&Case) -> Option<String>) -> (Case, String) {
    let mut tries = 0;
    loop {
        let smaller = candidates(&case).into_iter().find_map(|candidate| {
            tries += 1;
            let said = (tries <= TRIES_MAX).then(|| fails(&candidate)).flatten()?;
            Some((candidate, said))
        });
        match smaller {
            Some((candidate, why)) => (case, said) = (candidate, why),
            None => return (case, said),
        }
    }
}

/// Everything that is a little smaller, the smallest first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut candidate = case.clone();
        change(&mut candidate);
        found.push(candidate);
    };
    for client in 0..case.clients.len() {
        with(&|case| drop(case.clients.remove(client)));
    }
    for life in 0..case.lives.len().saturating_sub(1) {
        with(&|case| {
            case.lives.remove(life);
        });
    }
    for (client, acts) in case.clients.iter().enumerate() {
        if acts.len() > 4 {
            for half in [0..acts.len() / 2, acts.len() / 2..acts.len()] {
                with(&|case| drop(case.clients[client].drain(half.clone())));
            }
        }
        for act in (0..acts.len()).rev() {
            with(&|case| drop(case.clients[client].remove(act)));
        }
    }
    for (life, lived) in case.lives.iter().enumerate() {
        for odds in lived.odds.smaller() {
            with(&|case| case.lives[life].odds = odds);
        }
        if lived.off_ms > 0 {
            with(&|case| case.lives[life].off_ms = 0);
        }
        if format!("{:?}", lived.limits) != format!("{:?}", Limits::WIDE) {
            with(&|case| case.lives[life].limits = Limits::WIDE);
        }
    }
    if case.shards > 1 {
        with(&|case| case.shards = 1);
    }
    for (client, acts) in case.clients.iter().enumerate() {
        for (at, act) in acts.iter().enumerate() {
            let Act::Start(instance, program, terms) = act else {
                continue;
            };
            for program in programs(program) {
                with(&|case| case.clients[client][at] = Act::Start(*instance, program.clone(), *terms));
            }
            if *terms != Terms::default() {
                with(&|case| case.clients[client][at] = Act::Start(*instance, program.clone(), Terms::default()));
            }
        }
    }
    found
}

fn programs(program: &Program) -> Vec<Program> {
    let mut found: Vec<_> = nodes(&program.node)
        .into_iter()
        .map(|node| Program {
            node,
            ..program.clone()
        })
        .collect();
    if program.again > 0 {
        found.push(Program {
            again: 0,
            ..program.clone()
        });
    }
    if program.doom != Doom::No {
        found.push(Program {
            doom: Doom::No,
            ..program.clone()
        });
    }
    found
}

/// What a node can be replaced with.
fn nodes(node: &Node) -> Vec<Node> {
    let one = |inner: &Node, around: &dyn Fn(Box<Node>) -> Node| -> Vec<Node> {
        let inside = nodes(inner).into_iter().map(|node| around(Box::new(node)));
        std::iter::once(inner.clone()).chain(inside).collect()
    };
    let two = |a: &Node, b: &Node, around: &dyn Fn(Box<Node>, Box<Node>) -> Node| -> Vec<Node> {
        let first = nodes(a)
            .into_iter()
            .map(|node| around(Box::new(node), Box::new(b.clone())));
        let second = nodes(b)
            .into_iter()
            .map(|node| around(Box::new(a.clone()), Box::new(node)));
        [a.clone(), b.clone()].into_iter().chain(first).chain(second).collect()
    };
    let many = |parts: &[Node], around: &dyn Fn(Vec<Node>) -> Node| -> Vec<Node> {
        let mut found = Vec::new();
        for at in 0..parts.len() {
            let mut rest = parts.to_vec();
            let part = rest.remove(at);
            if !rest.is_empty() {
                found.push(around(rest));
            }
            for node in nodes(&part) {
                let mut changed = parts.to_vec();
                changed[at] = node;
                found.push(around(changed));
            }
        }
        if let [only] = parts {
            found.push(only.clone());
        }
        found
    };
    match node {
        Node::Sequence(parts) => many(parts, &Node::Sequence),
        Node::Join(a, b) => two(a, b, &Node::Join),
        Node::TryJoin(a, b) => two(a, b, &Node::TryJoin),
        Node::Select(a, b) => two(a, b, &Node::Select),
        Node::Unordered(first, parts) => many(parts, &|parts| Node::Unordered(*first, parts)),
        Node::CtxJoin(parts) => many(parts, &Node::CtxJoin),
        Node::CtxRace(parts) => many(parts, &Node::CtxRace),
        Node::CtxMap(parts) => many(parts, &Node::CtxMap),
        Node::CtxRepeat(times, every, inner) => one(inner, &|inner| Node::CtxRepeat(*times, *every, inner)),
        Node::Caught(inner) => one(inner, &Node::Caught),
        Node::TryScope(inner) => one(inner, &Node::TryScope),
        Node::Shielded(inner) => one(inner, &Node::Shielded),
        Node::Child(bearing, program) => programs(program)
            .into_iter()
            .map(|program| Node::Child(*bearing, Box::new(program)))
            .collect(),
        _ => Vec::new(),
    }
}

/// A case, a line for everything in it.
pub(crate) fn told(case: &Case) -> String {
    let mut lines = vec![format!("seed {}, {} shards", case.seed, case.shards)];
    for (client, acts) in case.clients.iter().enumerate() {
        lines.extend(acts.iter().map(|act| format!("  caller {}: {act:?}", client + 1)));
    }
    lines.extend(case.lives.iter().map(|life| format!("  {life:?}")));
    lines.join("\n")
}

impl Odds {
    /// The same with one thing less that goes wrong.
    fn smaller(self) -> Vec<Self> {
        let part: [fn(&mut Self) -> &mut u64; 8] = [
            |odds| &mut odds.crash,
            |odds| &mut odds.lost,
            |odds| &mut odds.unavailable,
            |odds| &mut odds.slow,
            |odds| &mut odds.full,
            |odds| &mut odds.zombie,
            |odds| &mut odds.nudge,
            |odds| &mut odds.turns,
        ];
        let without = |part: fn(&mut Self) -> &mut u64| {
            let mut odds = self;
            (std::mem::take(part(&mut odds)) > 0).then_some(odds)
        };
        part.into_iter().filter_map(without).collect()
    }
}
