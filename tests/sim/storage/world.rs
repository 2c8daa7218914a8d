//! One seed: rounds of decisions against one store that keeps failing.

use std::io::ErrorKind;
use std::sync::Arc;

use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Gate, Plan};
use everstep::storage::key::Local;
use everstep::storage::record::Name;
use everstep::storage::{Activation, Commit, Error, OpenOptions, Store};

use super::decision::{answer, commit, compare, id};
use super::model::{Decision, Model};
use crate::chance::Chance;

const NAMES: [&str; 4] = ["a", "ab", "b", "größe"];
const ROUNDS: u64 = 30;

/// The store, the model, and chance.
pub(crate) struct World {
    memory: Memory,
    plan: Plan,
    store: Store,
    stale: Activation,
    model: Model,
    chance: Chance,
    arrivals: u64,
    trace: Vec<String>,
}

/// What happens to the group of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    /// The answer is lost, and the group with it.
    LostBefore,
    /// The answer is lost, the group is done.
    LostAfter,
    /// The engine can't be reached.
    Unavailable,
    /// The disk is full.
    Full,
    /// The process dies while the group is on its way.
    Crash,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let memory = Memory::new();
        let plan = Plan::new();
        let (store, stale) = open(&memory, &plan);
        let chance = Chance::new(seed);
        Self {
            memory,
            plan,
            store,
            stale,
            model: Model::default(),
            chance,
            arrivals: 0,
            trace: Vec::new(),
        }
    }

    pub(crate) fn run(mut self) -> Vec<String> {
        for _ in 0..ROUNDS {
            self.round();
            if self.chance.below(8) == 0 {
                self.reopen();
            }
            compare(&self.store, &self.model, &NAMES);
        }
        self.trace
    }

    /// Hands over one commit that is held in the engine, and then a handful that must become one group.
    fn round(&mut self) {
        let gate = Gate::new();
        let fate = self.fate();
        self.plan.at_commit(1, CommitFault::Delay(gate.latch()));
        let second = Gate::new();
        match fate {
            Fate::Well => {}
            Fate::LostBefore => self.plan.at_commit(2, CommitFault::FailBefore),
            Fate::LostAfter => self.plan.at_commit(2, CommitFault::FailAfter),
            Fate::Unavailable => self.plan.at_commit(2, CommitFault::Fail(ErrorKind::TimedOut)),
            Fate::Full => self.plan.at_commit(2, CommitFault::Fail(ErrorKind::StorageFull)),
            Fate::Crash => self.plan.at_commit(2, CommitFault::Delay(second.latch())),
        }
        let first = self.store.try_submit(self.filler()).unwrap();
        gate.wait(1);
        // Whatever is refused, something of the group has to be written, so that it meets its fate.
        let second_filler = self.store.try_submit(self.filler()).unwrap();
        let mut model = self.model.clone();
        let mut pending = Vec::new();
        for _ in 0..1 + self.chance.below(9) {
            let name = NAMES[self.chance.below(4) as usize];
            let decision = self.decision(&model, name);
            let before = model.instances.get(name).cloned();
            let expected = model.decide(name, decision);
            let after = model.instances.get(name);
            let commit = commit(&self.store, name, decision, before.as_ref(), after, &self.stale);
            pending.push((name, decision, expected, self.store.try_submit(commit).unwrap()));
            if decision == Decision::Purge {
                // It closes its group.
                break;
            }
        }
        gate.open();
        first.wait().unwrap();
        if fate == Fate::Crash {
            second.wait(1);
            self.plan.crash().unwrap();
            second.open();
        }
        let done = matches!(fate, Fate::Well | Fate::LostBefore | Fate::LostAfter);
        assert_eq!(second_filler.wait().is_ok(), done, "{fate:?}");
        for (name, decision, expected, pending) in pending {
            let found = answer(&pending.wait());
            self.trace.push(format!("{fate:?} {name} {decision:?} {found:?}"));
            match found {
                Ok(found) => assert!(
                    done && found == expected,
                    "{name} {decision:?}: {found:?}, not {expected:?}"
                ),
                Err(error) => assert!(!done && failure(fate, &error), "{fate:?} {name} {decision:?}: {error}"),
            }
        }
        if done {
            self.model = model;
        }
        if matches!(fate, Fate::Full | Fate::Crash) {
            self.reopen();
        }
    }

    fn fate(&mut self) -> Fate {
        match self.chance.below(16) {
            0 => Fate::LostBefore,
            1 => Fate::LostAfter,
            2 => Fate::Unavailable,
            3 => Fate::Full,
            4 => Fate::Crash,
            _ => Fate::Well,
        }
    }

    fn decision(&mut self, model: &Model, name: &str) -> Decision {
        let instance = model.instances.get(name);
        let known = instance.map_or(1, |instance| instance.revision);
        // Now and then somebody is late and decides on what was.
        let revision = if self.chance.below(6) == 0 {
            known.saturating_sub(1)
        } else {
            known
        };
        let slot = self.chance.below(12) as u32;
        let arrival = instance.and_then(|instance| instance.inbox.first().map(|(arrival, _)| *arrival));
        match self.chance.below(14) {
            0..3 => Decision::Start,
            3..6 => Decision::Step { revision, slot },
            6..9 => {
                self.arrivals += 1;
                Decision::Deliver {
                    message: self.chance.below(30),
                    arrival: self.arrivals,
                }
            }
            9..11 => Decision::Take {
                revision,
                arrival,
                slot,
            },
            11 => Decision::End { revision },
            12 => Decision::Purge,
            _ => Decision::Stale,
        }
    }

    /// A commit that nobody can refuse.
    fn filler(&self) -> Commit {
        let namespace = self.store.namespace(&id("filler"));
        let mut filler = Commit::new(namespace.shard());
        filler.set(&namespace, &Local::Name(0), &Name("filler".into()));
        filler
    }

    fn reopen(&mut self) {
        self.plan = Plan::new();
        let (store, stale) = open(&self.memory, &self.plan);
        self.store = store;
        self.stale = stale;
        self.trace.push("reopened".into());
    }
}

/// Opens the store anew; the one before it, if there is one, is fenced from here on.
fn open(memory: &Memory, plan: &Plan) -> (Store, Activation) {
    let engine = Faulty::new(Arc::new(memory.clone()), plan.clone());
    let store = OpenOptions::new().open_engine(Arc::new(engine)).unwrap();
    let stale = store.activate(&id(NAMES[0]));
    store.activate(&id(NAMES[0]));
    (store, stale)
}

fn failure(fate: Fate, error: &Error) -> bool {
    match fate {
        Fate::Unavailable | Fate::Crash => error.code() == "ES0217",
        Fate::Full => error.code() == "ES0210",
        Fate::Well | Fate::LostBefore | Fate::LostAfter => false,
    }
}
