//! Random programs: what an instance is told to do.

use everstep::ClosePolicy;
use serde::{Deserialize, Serialize};

use crate::chance::Chance;

/// A program, and which of those that were offered for one instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) variant: u32,
    /// Runs that follow.
    pub(crate) again: u32,
    pub(crate) doom: Doom,
    /// The place in another program that bore it; known when it is born.
    pub(crate) born: Option<String>,
    /// Whoever bore it may close it.
    pub(crate) closable: bool,
    pub(crate) node: Node,
}

/// Whether it fails in the end, whatever it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Doom {
    No,
    Fails,
    Panics,
}

/// A part of a program. Times are in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Node {
    Step(Labour),
    Sleep(u64),
    /// A sleep until so long after the time that the code knows.
    SleepUntil(u64),
    /// An id of chance.
    Uuid,
    /// Something for whoever follows the instance.
    Emit,
    /// The question whether it is to end.
    IsCancelled,
    Receive,
    ReceiveWithin(u64),
    /// The same until so long after the time that the code knows.
    ReceiveUntil(u64),
    /// Two at most, for so long, or until so long after the time that the code knows.
    ReceiveMany(u64),
    ReceiveManyUntil(u64),
    /// A message or a question, which is not answered then, whichever came first.
    ReceiveAny(Option<u64>),
    /// A question that is answered like this, if it comes in time.
    Answer(Answering, Option<u64>),
    /// A promise whose token is given away, and that is awaited for so long at most.
    Promise(Option<u64>),
    /// An event, for everyone or for one, that is kept for so long.
    Publish(bool, u64),
    /// A wait for an event.
    Hear(Option<u64>),
    /// Something that callers can ask for.
    Set,
    /// A gate, and a step behind it that only this version of the code makes.
    Version,
    /// A gate that the code has only from a life on, and a step that is another one behind it.
    Patched(u32),
    /// From here on what this turn of a loop did can be undone.
    Checkpoint,
    /// Something to undo, whose undoing fails so many times, by a panic or not.
    Compensate(u32, bool),
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
    /// Whatever comes of it, go on.
    Caught(Box<Node>),
    /// The same in a scope of its own.
    TryScope(Box<Node>),
    /// Out of the reach of a cancellation.
    Shielded(Box<Node>),
    /// A message to another instance, which may not be there.
    Tell(u64),
    /// Another instance.
    Child(Bearing, Box<Program>),
}

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answering {
    Reply,
    Refuse,
    /// Not at all.
    Drop,
}

/// What becomes of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bearing {
    /// Its result is awaited.
    Awaited,
    /// It is started, and awaited later; closed like this if it is dropped before.
    Started(Close),
    /// It is started and asked to end, and how it ends is awaited.
    Cancelled,
    /// It is started and dropped, and closed like this.
    Dropped(Close),
    /// It is let go.
    LetGo,
}

/// A close policy, as a program can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Close {
    Cancel,
    Terminate,
    Abandon,
}

impl From<Close> for ClosePolicy {
    fn from(close: Close) -> Self {
        match close {
            Close::Cancel => Self::Cancel,
            Close::Terminate => Self::Terminate,
            Close::Abandon => Self::Abandon,
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Labour {
    /// Attempts that fail; three are all.
    pub(crate) fails: u32,
    /// Those that fail do so by a panic.
    pub(crate) panics: bool,
    pub(crate) takes_ms: u64,
    pub(crate) timeout_ms: Option<u64>,
    /// It can be undone, which fails so many times before it succeeds; at three it has failed for good.
    pub(crate) undo_fails: Option<u32>,
    /// The same for those.
    pub(crate) undo_panics: bool,
    /// Its result goes with the next commit.
    pub(crate) ephemeral: bool,
    /// It is an activity.
    pub(crate) activity: bool,
    /// It says twice that it is alive, and may be silent for so long.
    pub(crate) silence_ms: Option<u64>,
}

/// A time that outlasts every simulation.
pub(crate) const FOR_EVER_MS: u64 = 20_000 * 24 * 3_600_000;

/// A program of a handful of parts.
pub(crate) fn draw(chance: &mut Chance, variant: u32) -> Program {
    sized(chance, variant, 16)
}

fn sized(chance: &mut Chance, variant: u32, mut room: u32) -> Program {
    let parts = 1 + chance.below(u64::from(room.min(6)));
    let nodes = (0..parts).map(|_| part(chance, &mut room)).collect();
    Program {
        variant,
        born: None,
        closable: true,
        doom: [
            Doom::No,
            Doom::No,
            Doom::No,
            Doom::No,
            Doom::No,
            Doom::Fails,
            Doom::Panics,
        ][chance.below(7) as usize],
        again: if chance.once_in(5) {
            1 + chance.below(2) as u32
        } else {
            0
        },
        node: Node::Sequence(nodes),
    }
}

/// A part of the outermost sequence. Most of them may fail: a program that ends early shows little.
fn part(chance: &mut Chance, room: &mut u32) -> Node {
    let node = node(chance, 3, room, true);
    if chance.once_in(4) {
        node
    } else {
        Node::Caught(Box::new(node))
    }
}

/// `undo` is whether steps may be undone: in loops that takes more, and what lost a race is not undone.
fn node(chance: &mut Chance, depth: u32, room: &mut u32, undo: bool) -> Node {
    if depth == 0 || *room == 0 || chance.below(3) > 0 {
        *room = room.saturating_sub(1);
        return leaf(chance, undo);
    }
    let kind = chance.below(15);
    let undo = undo && !(3..=5).contains(&kind) && !matches!(kind, 7 | 8 | 10);
    let one = |chance: &mut Chance, room: &mut u32| Box::new(node(chance, depth - 1, room, undo));
    let some = |chance: &mut Chance, room: &mut u32| -> Vec<Node> {
        let count = 2 + chance.below(2);
        (0..count).map(|_| node(chance, depth - 1, room, undo)).collect()
    };
    match kind {
        _ if chance.once_in(6) && *room > 2 => {
            *room -= 2;
            child(chance)
        }
        0 => Node::Sequence(some(chance, room)),
        1 => Node::Join(one(chance, room), one(chance, room)),
        2 => Node::TryJoin(one(chance, room), one(chance, room)),
        3 | 4 => Node::Select(one(chance, room), one(chance, room)),
        5 => Node::Unordered(1 + chance.below(3) as usize, some(chance, room)),
        6 => Node::CtxJoin(some(chance, room)),
        7 | 8 => Node::CtxRace(some(chance, room)),
        9 => Node::CtxMap(some(chance, room)),
        10 => Node::CtxRepeat(1 + chance.below(4) as u32, 1 + chance.below(3), one(chance, room)),
        11 => {
            let turn = Node::Sequence(vec![Node::Checkpoint, *one(chance, room)]);
            Node::CtxRepeat(1 + chance.below(4) as u32, 1 + chance.below(3), Box::new(turn))
        }
        12 => Node::Caught(one(chance, room)),
        13 => Node::Shielded(one(chance, room)),
        _ => Node::TryScope(one(chance, room)),
    }
}

fn child(chance: &mut Chance) -> Node {
    let close = [Close::Cancel, Close::Terminate, Close::Abandon][chance.below(3) as usize];
    let bearing = match chance.below(7) {
        0..3 => Bearing::Awaited,
        3 => Bearing::Started(close),
        4 => Bearing::Cancelled,
        5 => Bearing::Dropped(close),
        _ => Bearing::LetGo,
    };
    let mut program = sized(chance, 1, 2);
    program.closable = !matches!(
        bearing,
        Bearing::LetGo | Bearing::Started(Close::Abandon) | Bearing::Dropped(Close::Abandon)
    );
    Node::Child(bearing, Box::new(program))
}

fn leaf(chance: &mut Chance, undo: bool) -> Node {
    let patience = |chance: &mut Chance| (!chance.once_in(3)).then(|| duration(chance));
    match chance.below(35) {
        0..9 => Node::Step(Labour {
            fails: [0, 0, 0, 0, 1, 2, 3][chance.below(7) as usize],
            panics: chance.once_in(3),
            takes_ms: duration(chance) / 2,
            timeout_ms: chance.once_in(5).then(|| 1 + duration(chance)),
            undo_fails: (undo && chance.once_in(2)).then(|| [0, 0, 0, 1, 3][chance.below(5) as usize]),
            undo_panics: chance.once_in(3),
            ephemeral: chance.once_in(8),
            activity: chance.once_in(3),
            silence_ms: chance.once_in(5).then(|| 1 + duration(chance)),
        }),
        9..13 => Node::Sleep(duration(chance)),
        13 => Node::Receive,
        14 => Node::ReceiveWithin(duration(chance)),
        15 => Node::ReceiveMany(duration(chance)),
        16 | 17 => Node::Answer(
            [Answering::Reply, Answering::Reply, Answering::Refuse, Answering::Drop][chance.below(4) as usize],
            patience(chance),
        ),
        18 | 19 => Node::Promise(patience(chance)),
        20 => Node::Publish(
            chance.once_in(2),
            [0, 1_000, FOR_EVER_MS, FOR_EVER_MS][chance.below(4) as usize],
        ),
        21 => Node::Hear(patience(chance)),
        22 => Node::Set,
        23 => Node::Version,
        24 if undo => Node::Compensate([0, 0, 1, 3][chance.below(4) as usize], chance.once_in(3)),
        26 => Node::SleepUntil(duration(chance)),
        27 => Node::Uuid,
        28 | 29 => Node::Emit,
        30 => Node::IsCancelled,
        31 => Node::ReceiveAny(patience(chance)),
        32 => Node::ReceiveUntil(duration(chance)),
        33 => Node::ReceiveManyUntil(duration(chance)),
        34 => Node::Patched(1 + chance.below(5) as u32),
        _ => Node::Tell(chance.below(4)),
    }
}

/// Mostly short, sometimes long, often the same as another one.
fn duration(chance: &mut Chance) -> u64 {
    match chance.below(8) {
        0 => 0,
        1..4 => 10 * (1 + chance.below(4)),
        4..7 => 1_000 * (1 + chance.below(3)),
        _ => 3_600_000 * (1 + chance.below(48)),
    }
}
