//! What a program comes to, by arithmetic: every part is a function from when it begins to when it ends.

use super::program::Node;

/// What a part comes to.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// When it ends and with what; none if it waits for ever.
    pub(crate) ended: Option<(u64, Result<Vec<String>, String>)>,
    /// When it takes each message.
    pub(crate) taken: Vec<u64>,
    /// When each attempt begins.
    pub(crate) attempts: Vec<u64>,
    /// Whether two things happen at the same time whose order decides.
    pub(crate) tie: bool,
}

impl Ran {
    fn until(at: u64, result: Result<Vec<String>, String>) -> Self {
        Self {
            ended: Some((at, result)),
            ..Self::default()
        }
    }

    fn saw(at: u64, what: impl std::fmt::Display) -> Self {
        Self::until(at, Ok(vec![format!("{what} at {at}")]))
    }

    /// Adds what happened in another part.
    fn and(&mut self, other: &Self) {
        self.taken.extend(&other.taken);
        self.attempts.extend(&other.attempts);
        self.tie |= other.tie;
    }

    /// Forgets what would have happened after this time.
    fn cut(&mut self, at: u64) {
        self.tie |= self.taken.contains(&at) || self.attempts.contains(&at);
        self.taken.retain(|taken| *taken < at);
        self.attempts.retain(|attempt| *attempt < at);
    }
}

/// What a part comes to that begins at this time, when so many messages have been taken of those that arrive.
pub(crate) fn run(node: &Node, at: u64, taken: usize, arrivals: &[u64]) -> Ran {
    let inside = |node: &Node, at| run(node, at, taken, arrivals);
    match node {
        Node::Step(plan) => {
            let tries = (plan.fails + 1).min(3);
            let over = at + u64::from(tries - 1) * plan.delay_ms;
            let mut ran = if plan.fails < 3 {
                Ran::saw(over, format!("attempt {tries}"))
            } else {
                Ran::until(over, Err("Exhausted".to_owned()))
            };
            ran.attempts = (0..tries)
                .map(|number| at + u64::from(number) * plan.delay_ms)
                .collect();
            ran
        }
        Node::Critical => Ran {
            attempts: vec![at],
            ..Ran::until(at, Err("Critical".to_owned()))
        },
        Node::Sleep(ms) => Ran::saw(at + ms, "slept"),
        Node::Receive => receive(at, u64::MAX, taken, arrivals),
        Node::ReceiveWithin(ms) => receive(at, at + ms, taken, arrivals),
        Node::Version => Ran::saw(at, "version 2"),
        Node::Sequence(nodes) => one_after_the_other(&nodes.iter().collect::<Vec<_>>(), at, taken, arrivals),
        Node::Loop(times, _, node) => {
            let rounds = vec![&**node; *times as usize];
            one_after_the_other(&rounds, at, taken, arrivals)
        }
        Node::Join(nodes) => together(nodes.iter().map(|node| inside(node, at)).collect()),
        Node::Map(at_once, nodes) => {
            let mut free = vec![Some(at); *at_once];
            let mut items = Vec::new();
            for node in nodes {
                free.sort_by_key(|at| at.unwrap_or(u64::MAX));
                let Some(begins) = free[0] else {
                    items.push(Ran::default());
                    continue;
                };
                let item = inside(node, begins);
                free[0] = item.ended.as_ref().map(|(at, _)| *at);
                items.push(item);
            }
            together(items)
        }
        Node::Race(nodes) => race(nodes.iter().map(|node| inside(node, at)).collect()),
        Node::Try(node) => {
            let mut ran = inside(node, at);
            if let Some((at, Err(kind))) = &ran.ended {
                ran.ended = Ran::saw(*at, format!("caught {kind}")).ended;
            }
            ran
        }
    }
}

fn receive(at: u64, gives_up: u64, taken: usize, arrivals: &[u64]) -> Ran {
    match arrivals.get(taken).map(|arrival| (*arrival).max(at)) {
        Some(there) if there <= gives_up => Ran {
            taken: vec![there],
            ..Ran::saw(there, format!("news {taken}"))
        },
        _ if gives_up == u64::MAX => Ran::default(),
        _ => Ran::saw(gives_up, "no news"),
    }
}

fn one_after_the_other(nodes: &[&Node], at: u64, taken: usize, arrivals: &[u64]) -> Ran {
    let mut all = Ran::until(at, Ok(Vec::new()));
    for node in nodes {
        let Some((at, Ok(trace))) = &mut all.ended else { break };
        let (at, mut trace) = (*at, std::mem::take(trace));
        let next = run(node, at, taken + all.taken.len(), arrivals);
        all.and(&next);
        all.ended = next.ended.map(|(at, result)| {
            let result = result.map(|more| {
                trace.extend(more);
                trace
            });
            (at, result)
        });
    }
    all
}

/// All run to their end.
fn together(parts: Vec<Ran>) -> Ran {
    let mut all = Ran::default();
    parts.iter().for_each(|part| all.and(part));
    let ends: Option<Vec<_>> = parts.into_iter().map(|part| part.ended).collect();
    all.ended = ends.map(|ends| {
        let at = ends.iter().map(|(at, _)| *at).max().unwrap_or_default();
        let traces: Result<Vec<_>, _> = ends.into_iter().map(|(_, result)| result).collect();
        (
            at,
            traces.map(|traces| traces.concat()).map_err(|_| "Branches".to_owned()),
        )
    });
    all
}

/// The first that ends well wins, and what the others would have done later never happens.
fn race(parts: Vec<Ran>) -> Ran {
    let well = |part: &Ran| {
        part.ended
            .as_ref()
            .filter(|(_, result)| result.is_ok())
            .map(|(at, _)| *at)
    };
    let first = parts.iter().filter_map(well).min();
    let Some(over) = first else {
        let mut all = together(parts);
        all.ended = all.ended.map(|(at, _)| (at, Err("Branches".to_owned())));
        return all;
    };
    let mut all = Ran::default();
    let winners = parts.iter().filter(|part| well(part) == Some(over)).count();
    for (index, mut part) in parts.into_iter().enumerate() {
        if well(&part) == Some(over) {
            let result = part
                .ended
                .take()
                .and_then(|(_, result)| result.ok())
                .unwrap_or_default();
            all.ended = Some((over, Ok([vec![format!("b{index}")], result].concat())));
        } else {
            part.cut(over);
        }
        all.and(&part);
    }
    all.tie |= winners > 1;
    all
}
