//! Random callers, who ask again when they got no answer.

mod beside;
mod call;
mod operator;

use std::time::Duration;

use everstep::clock::Clock;
use everstep::storage::record::Priority;
use everstep::{Error, Runtime};

pub(crate) use beside::{Beside, look_at_trial};
pub(crate) use call::{ask, decide, follow, handle, look, publish, result, send};

use super::interpreter::{News, Riddle};
use super::ledger;
use super::machine::Wall;
use super::program::{self, FOR_EVER_MS, Program};
use crate::chance::Chance;

/// Instances that callers know of.
const INSTANCES: usize = 4;

/// How long a caller waits for an answer before it goes away and asks again.
const PATIENCE: Duration = Duration::from_secs(300);

/// Something that a caller does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Start(usize, Program, Terms),
    Send(usize),
    /// The message before once more: somebody who did not hear the answer.
    SendAgain(usize),
    Ask(usize),
    AskAgain(usize),
    /// Keeps or breaks one of the promises that were given away.
    Decide(u64, bool),
    /// An event, for one or for everybody, that is kept for so long.
    Publish(bool, u64),
    Query(usize),
    List,
    Look(usize),
    Result(usize),
    Passivate(usize),
    Nudge(usize),
    Cancel(usize),
    Terminate(usize),
    Pause(usize),
    Resume(usize),
    /// Takes it back to one of the operations in its history.
    Reset(usize, u64),
    Retry(usize),
    Delete(usize),
    Release(usize),
    Jump(i64),
    Beside(Beside),
    Wait(u64),
}

/// How an instance is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// It may have so long.
    deadline_ms: Option<u64>,
    /// It begins after so long.
    after_ms: Option<u64>,
    priority: Priority,
}

impl Terms {
    fn draw(chance: &mut Chance) -> Self {
        Self {
            deadline_ms: match chance.below(24) {
                0 => Some(1 + chance.below(5_000)),
                1 => Some(1 + chance.below(100_000_000)),
                _ => None,
            },
            after_ms: match chance.below(12) {
                0 => Some(chance.below(5_000)),
                1 => Some(chance.below(100_000_000)),
                _ => None,
            },
            priority: [Priority::Low, Priority::Normal, Priority::Normal, Priority::High][chance.below(4) as usize],
        }
    }
}

/// What a caller does.
pub(crate) fn draw(number: u64, instances: usize, chance: &mut Chance) -> Vec<Act> {
    let mut acts = Vec::new();
    for instance in 0..instances {
        let program = program::draw(chance, number as u32);
        acts.push(Act::Start(instance, program, Terms::draw(chance)));
    }
    let mut beside = beside::draw(number, chance).into_iter();
    for _ in 0..6 + chance.below(24) {
        if chance.once_in(3) {
            acts.extend(beside.next().map(Act::Beside));
        }
        let instance = chance.below(instances as u64) as usize;
        acts.push(match chance.below(40) {
            0 | 1 => Act::Start(
                instance,
                program::draw(chance, 100 + number as u32),
                Terms::draw(chance),
            ),
            2..6 => Act::Send(instance),
            6 => Act::SendAgain(instance),
            7 | 8 => Act::Look(instance),
            9 => Act::Result(instance),
            10..13 => Act::Passivate(instance),
            13 => Act::Nudge(instance),
            14 if chance.once_in(3) => Act::Terminate(instance),
            14 => Act::Cancel(instance),
            15 => Act::Pause(instance),
            16 => Act::Resume(instance),
            17 => Act::Jump(match chance.below(4) {
                0 => chance.below(7_200_000) as i64 - 3_600_000,
                _ => chance.below(20_000) as i64 - 8_000,
            }),
            18 | 19 => Act::Ask(instance),
            20 => Act::AskAgain(instance),
            21..24 => Act::Decide(chance.draw(), chance.below(3) > 0),
            24 | 25 => Act::Publish(
                chance.once_in(2),
                [0, 1_000, FOR_EVER_MS, FOR_EVER_MS][chance.below(4) as usize],
            ),
            26 => Act::Query(instance),
            27 => Act::List,
            28 => Act::Reset(instance, chance.draw()),
            29 => Act::Retry(instance),
            // One caller cleans up, so that it is known who deleted what.
            30 if number == 1 => Act::Delete(instance),
            31 => Act::Release(instance),
            _ => Act::Wait(match chance.below(3) {
                0 => chance.below(20),
                1 => chance.below(5_000),
                _ => chance.below(100_000_000),
            }),
        });
    }
    acts.extend(beside.map(Act::Beside));
    acts
}

/// A caller: what it still has to do, and what it has sent to whom. It outlives the process that it calls.
#[derive(Debug)]
pub(crate) struct Client {
    number: u64,
    acts: std::vec::IntoIter<Act>,
    now: Option<Act>,
    sent: [u64; INSTANCES],
    asked: [u64; INSTANCES],
    /// Decisions and events so far.
    said: u64,
}

impl Client {
    pub(crate) fn new(number: u64, acts: Vec<Act>) -> Self {
        Self {
            number,
            acts: acts.into_iter(),
            now: None,
            sent: [0; INSTANCES],
            asked: [0; INSTANCES],
            said: 0,
        }
    }

    /// Does what there is to do, until it is done or the process dies.
    pub(crate) async fn run(&mut self, runtime: &Runtime, clock: &Wall) {
        while let Some(act) = self.now.take().or_else(|| self.acts.next()) {
            // If nobody answers because the process dies, it is done again.
            self.now = Some(act.clone());
            let mut tries = 0;
            loop {
                let waits = match act {
                    Act::Wait(_) => Duration::from_secs(1_000_000),
                    _ => PATIENCE,
                };
                let error = match tokio::time::timeout(waits, self.act(&act, runtime, clock)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => error.to_string(),
                    Err(late) => late.to_string(),
                };
                ledger::with(|ledger| ledger.note(format!("caller {} got no answer: {error}", self.number)));
                tries += 1;
                if tries == 20 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            self.now = None;
        }
    }

    async fn act(&mut self, act: &Act, runtime: &Runtime, clock: &Wall) -> Result<(), Error> {
        match act {
            Act::Start(instance, program, terms) => call::start(runtime, &name(*instance), program, *terms).await,
            Act::Send(instance) => {
                let number = self.sent[*instance] + 1;
                if self.send(runtime, *instance, number).await? {
                    self.sent[*instance] = number;
                }
                Ok(())
            }
            Act::SendAgain(instance) => match self.sent[*instance] {
                0 => Ok(()),
                number => self.send(runtime, *instance, number).await.map(drop),
            },
            Act::Ask(instance) => {
                let number = self.asked[*instance] + 1;
                self.ask(runtime, *instance, number).await?;
                self.asked[*instance] = number;
                Ok(())
            }
            Act::AskAgain(instance) => match self.asked[*instance] {
                0 => Ok(()),
                number => self.ask(runtime, *instance, number).await,
            },
            Act::Decide(pick, keeps) => {
                let Some(token) = ledger::with(|ledger| ledger.token(*pick)) else {
                    return Ok(());
                };
                let decision = format!("caller {} says {}", self.number, self.said);
                decide(runtime, &token, &decision, *keeps).await?;
                self.said += 1;
                Ok(())
            }
            Act::Publish(to_one, keep_ms) => {
                let event = format!("event {} of {}", self.said, self.number);
                publish(runtime, &event, *to_one, *keep_ms).await?;
                self.said += 1;
                Ok(())
            }
            Act::Jump(millis) => {
                ledger::with(|ledger| {
                    ledger.note(format!("clock jumps {millis}"));
                    ledger.clock_is_set();
                });
                clock.jump(*millis);
                // What is tried from here on is tried at this time.
                clock.now_ms();
                Ok(())
            }
            Act::Wait(millis) => {
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                Ok(())
            }
            Act::Beside(act) => {
                // Numbers of those who call are far apart.
                self.said += 1;
                beside::act(runtime, act, self.number * 1_000 + self.said).await
            }
            Act::List => call::list(runtime).await,
            Act::Query(instance) => call::query(runtime, &name(*instance)).await,
            Act::Look(instance) => look(runtime, &name(*instance)).await.map(drop),
            Act::Result(instance) => {
                let id = name(*instance);
                if !ledger::with(|ledger| ledger.instance(&id).started) {
                    return Ok(());
                }
                let waiting = result(runtime, &id);
                tokio::time::timeout(Duration::from_secs(60), waiting)
                    .await
                    .unwrap_or(Ok(()))
            }
            Act::Passivate(instance) => runtime.passivate(&name(*instance)).await,
            Act::Nudge(instance) => runtime.nudge(&name(*instance)),
            Act::Cancel(instance)
            | Act::Terminate(instance)
            | Act::Pause(instance)
            | Act::Resume(instance)
            | Act::Reset(instance, _)
            | Act::Retry(instance)
            | Act::Release(instance)
            | Act::Delete(instance) => {
                let id = name(*instance);
                if !ledger::with(|ledger| ledger.instance(&id).started) {
                    return Ok(());
                }
                operator::operate(&handle(runtime, &id)?, act).await
            }
        }
    }

    async fn send(&self, runtime: &Runtime, instance: usize, number: u64) -> Result<bool, Error> {
        let id = name(instance);
        let news = News {
            to: id.clone(),
            sender: self.number.to_string(),
            number,
        };
        send(&handle(runtime, &id)?, news).await
    }

    async fn ask(&self, runtime: &Runtime, instance: usize, number: u64) -> Result<(), Error> {
        let id = name(instance);
        let riddle = Riddle {
            to: id.clone(),
            sender: self.number.to_string(),
            number,
        };
        ask(&handle(runtime, &id)?, riddle, "10s").await.map(drop)
    }
}

pub(crate) fn name(instance: usize) -> String {
    format!("i{instance}")
}
