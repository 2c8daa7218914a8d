//! What the code has asked for, and what is known about it.
//!
//! The futures of the verbs and the execution that polls them share one journal. A future asks when it is first
//! polled and waits; the execution sees what was asked when the function rests, and delivers outcomes.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::Waker;

use crate::clock::Millis;
use crate::engine::error::Divergence;
use crate::location::{Location, Segment, TooDeep};
use crate::storage::payload::Payload;
use crate::storage::record::{Entry, EntryKind, StepOutcome};

/// A step that has to run.
pub(crate) type StepTask = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = StepOutcome> + Send>> + Send>;

/// What an operation asks for.
pub(crate) enum Request {
    /// Run a step.
    Step(StepTask),
    /// Wait until a time, or for a time from now on.
    Sleep(SleepFor),
    /// Take the next message of this name.
    Receive(&'static str),
}

/// How long to sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SleepFor {
    /// From the moment that the sleep is recorded.
    Duration(Millis),
}

impl Request {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Step(_) => "a step",
            Self::Sleep(_) => "a sleep",
            Self::Receive(_) => "a message",
        }
    }
}

/// What a delivered completion gives to the code.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// How a step ended.
    Step(StepOutcome),
    /// The sleep is over.
    Slept,
    /// A message was taken.
    Message(Payload),
}

/// Names that paths are made of, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<String>,
    indices: HashMap<String, u32>,
    /// How many of them are stored.
    stored: usize,
}

impl Names {
    pub(crate) fn load(names: Vec<String>) -> Self {
        let numbered = names.iter().cloned().zip(0..);
        Self {
            indices: numbered.collect(),
            stored: names.len(),
            names,
        }
    }

    fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        let index = u32::try_from(self.names.len()).expect("a history is bounded far below 2^32 names");
        self.names.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        index
    }

    /// The names that are not stored yet; from now on they count as stored.
    pub(crate) fn take_new(&mut self) -> Vec<(u32, String)> {
        let new = self
            .names
            .iter()
            .cloned()
            .zip(0..)
            .skip(self.stored)
            .map(|(name, index)| (index, name))
            .collect();
        self.stored = self.names.len();
        new
    }
}

/// An operation that the code waits for.
struct Asked {
    kind: &'static str,
    waker: Option<Waker>,
}

/// Shared by the futures of a workflow and the execution that polls them.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) names: Names,
    /// What is recorded. An entry without an order is begun and not complete.
    pub(crate) entries: HashMap<Location, Entry>,
    /// Recorded completions that were not delivered yet, in their order.
    pub(crate) undelivered: VecDeque<Location>,
    /// Operations that the code asked for and history does not know, in the order of asking.
    pub(crate) fresh: Vec<(Location, Request)>,
    asked: HashMap<Location, Asked>,
    delivered: HashMap<Location, Outcome>,
}

impl Journal {
    /// Asks for an operation. Asking for what is recorded as something else is divergence, found when it is delivered.
    pub(crate) fn ask(&mut self, name: &str, request: Request) -> Result<Location, TooDeep> {
        let index = self.names.index(name);
        let location = Location::root().child(Segment::Name(index))?;
        self.asked.insert(
            location.clone(),
            Asked {
                kind: request.kind(),
                waker: None,
            },
        );
        if !self.entries.contains_key(&location) {
            self.fresh.push((location.clone(), request));
        }
        Ok(location)
    }

    /// Takes the outcome of an operation if it was delivered, or remembers whom to wake.
    pub(crate) fn take(&mut self, location: &Location, waker: &Waker) -> Option<Outcome> {
        if let Some(outcome) = self.delivered.remove(location) {
            self.asked.remove(location);
            return Some(outcome);
        }
        if let Some(asked) = self.asked.get_mut(location) {
            asked.waker = Some(waker.clone());
        }
        None
    }

    /// Delivers the next completion. The code must have asked for it.
    pub(crate) fn deliver(&mut self, location: &Location) -> Result<(), Divergence> {
        let recorded = kind(&self.entries[location].kind);
        let path = self.path(location);
        let Some(asked) = self.asked.get_mut(location) else {
            return Err(Divergence {
                path,
                recorded,
                asked: "nothing",
            });
        };
        if asked.kind != recorded {
            return Err(Divergence {
                path,
                recorded,
                asked: asked.kind,
            });
        }
        if let Some(waker) = asked.waker.take() {
            waker.wake();
        }
        self.delivered
            .insert(location.clone(), outcome(&self.entries[location].kind));
        Ok(())
    }

    /// A location as people read it.
    pub(crate) fn path(&self, location: &Location) -> String {
        let name = |index: u32| self.names.names.get(index as usize).map_or("?", String::as_str);
        let segments = location.segments().iter().map(|segment| match segment {
            Segment::Name(index) => name(*index).to_owned(),
            Segment::Iteration { number, .. } => format!("~{number}"),
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::Step(_) => "a step",
        EntryKind::Sleep { .. } => "a sleep",
        EntryKind::Message(_) => "a message",
    }
}

fn outcome(kind: &EntryKind) -> Outcome {
    match kind {
        EntryKind::Step(Some(outcome)) => Outcome::Step(outcome.clone()),
        EntryKind::Step(None) => unreachable!("only a completed step is delivered"),
        EntryKind::Sleep { .. } => Outcome::Slept,
        EntryKind::Message(message) => Outcome::Message(message.payload.clone()),
    }
}
