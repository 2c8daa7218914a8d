//! What callers do beside calling instances that they know: trials, schedules, starts that wait, operations on many.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{CatchUp, Effect, Error, Every, Overlap, Runtime, Triggered};

use crate::chance::Chance;
use crate::runtime::chore::{Chore, Duty, Notice};
use crate::runtime::ledger::{self, Rules};
use crate::runtime::trial::{self, Trial};

/// Something that a caller does.
#[derive(Debug, Clone)]
pub(crate) enum Beside {
    /// Starts an instance that fails.
    Try(u64, Box<Trial>),
    /// Looks at it, and lets it out of quarantine or does not.
    LookAtTrial(u64, bool),
    Schedule(u64, Rules),
    Hold(u64),
    LetGo(u64),
    Trigger(u64),
    Unschedule(u64),
    /// A start under a key, that waits for so long, and with others before it not longer than that.
    Want(u64, u64, Option<u64>),
    /// One of the crew: its number, and on which side it is.
    Enlist(u64, &'static str),
    /// Something for everyone on one side.
    Batch(u64, Order),
}

/// What a batch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Tell,
    Cancel,
    Terminate,
    Pause,
    Resume,
}

impl Order {
    /// Those that end somebody are for one side, and those that do not for the other.
    fn side(self) -> &'static str {
        match self {
            Self::Cancel | Self::Terminate => "odd",
            Self::Tell | Self::Pause | Self::Resume => "even",
        }
    }

    fn name(self, number: u64) -> String {
        format!("{self:?} {number}").to_lowercase()
    }
}

/// A few things that belong together, or nothing.
pub(super) fn draw(client: u64, chance: &mut Chance) -> Vec<Beside> {
    let mut acts = Vec::new();
    if chance.once_in(3) {
        for number in 0..1 + chance.below(2) {
            let number = client * 10 + number;
            acts.push(Beside::Try(number, Box::new(Trial::draw(chance))));
            acts.push(Beside::LookAtTrial(number, chance.once_in(2)));
        }
    }
    if chance.once_in(8) {
        acts.push(Beside::Schedule(client, rules(chance)));
        for _ in 0..chance.below(4) {
            acts.push(match chance.below(5) {
                0 => Beside::Hold(client),
                1 => Beside::LetGo(client),
                2 if chance.once_in(2) => Beside::Unschedule(client),
                _ => Beside::Trigger(client),
            });
        }
    }
    if chance.once_in(5) {
        let key = chance.below(2);
        for _ in 0..1 + chance.below(4) {
            let wait = [0, 100, 5_000, 3_600_000][chance.below(4) as usize];
            acts.push(Beside::Want(key, wait, chance.once_in(3).then_some(6_000)));
        }
    }
    if chance.once_in(5) {
        for number in 0..1 + chance.below(4) {
            acts.push(Beside::Enlist(
                client * 10 + number,
                ["even", "odd"][number as usize % 2],
            ));
        }
        for number in 0..1 + chance.below(2) {
            let orders = [
                Order::Tell,
                Order::Tell,
                Order::Cancel,
                Order::Terminate,
                Order::Pause,
                Order::Resume,
            ];
            acts.push(Beside::Batch(client * 10 + number, orders[chance.below(6) as usize]));
        }
    }
    acts
}

fn rules(chance: &mut Chance) -> Rules {
    const HOUR_MS: u64 = 3_600_000;
    let overlaps = [Overlap::Skip, Overlap::Queue, Overlap::CancelOld, Overlap::Allow];
    Rules {
        every_ms: HOUR_MS * [3, 8, 24][chance.below(3) as usize],
        overlap: overlaps[chance.below(4) as usize],
        catch_up: [CatchUp::Skip, CatchUp::One, CatchUp::All(2)][chance.below(3) as usize],
        takes_ms: [0, 1_000, 4 * HOUR_MS, 30 * HOUR_MS][chance.below(4) as usize],
    }
}

/// Does it. `said` numbers what has to differ each time.
pub(super) async fn act(runtime: &Runtime, act: &Beside, said: u64) -> Result<(), Error> {
    match act {
        Beside::Try(number, trial) => {
            let id = format!("t{number}");
            trial::start(runtime, &id, (**trial).clone()).await?;
            ledger::with(|ledger| ledger.trial_started(&id, trial));
            Ok(())
        }
        Beside::LookAtTrial(number, releases) => look_at_trial(runtime, &format!("t{number}"), *releases).await,
        Beside::Want(key, wait, at_most) => want(runtime, (*key, said), *wait, *at_most).await,
        Beside::Enlist(number, side) => {
            let id = format!("c{number}{side}");
            let start = runtime.start(Chore, Duty::Crew).id(&id).tag("side", *side);
            start.await?;
            ledger::with(|ledger| ledger.enlists(&id));
            Ok(())
        }
        Beside::Batch(number, order) => batch(runtime, *number, *order).await,
        _ => schedule(runtime, act).await,
    }
}

/// Looks at an instance on trial, and releases it if it is to.
pub(crate) async fn look_at_trial(runtime: &Runtime, id: &str, releases: bool) -> Result<(), Error> {
    let known = ledger::with(|ledger| ledger.looks_at_trial(id));
    let handle = runtime.instance(id)?;
    let status = match handle.status().await {
        Ok(described) => described.status,
        Err(Error::Unknown(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    ledger::with(|ledger| ledger.saw_trial(id, known, status));
    if releases && status == Status::Quarantined {
        ledger::with(|ledger| ledger.trial_is_released(id));
        handle.release().await?;
        ledger::with(|ledger| ledger.trial_was_released(id));
    }
    Ok(())
}

async fn want(runtime: &Runtime, (key, number): (u64, u64), wait: u64, at_most: Option<u64>) -> Result<(), Error> {
    ledger::with(|ledger| ledger.wants(key, number, at_most.map_or(wait, |_| 0)));
    let debounce = runtime.debounce(format!("key {key}"), Duration::from_millis(wait));
    let mut starting = debounce.starts(Chore, Duty::Wanted(key, number));
    if let Some(at_most) = at_most {
        starting = starting.within(Duration::from_millis(at_most));
    }
    let waits = starting.await?;
    ledger::with(|ledger| ledger.will_be(key, number, waits.id().as_str()));
    Ok(())
}

async fn batch(runtime: &Runtime, number: u64, order: Order) -> Result<(), Error> {
    let name = order.name(number);
    ledger::with(|ledger| ledger.begins_batch(&name, order.side()));
    let crew = runtime.batch(runtime.list().workflow("chore").tag("side", order.side()));
    let batch = match order {
        Order::Tell => crew.send(&Notice {
            batch: name.clone(),
            last: false,
        }),
        Order::Cancel => crew.cancel("enough"),
        Order::Terminate => crew.terminate("enough"),
        Order::Pause => crew.pause(),
        Order::Resume => crew.resume(),
    };
    batch.start(&name).await?;
    ledger::with(|ledger| ledger.batch_began(&name));
    Ok(())
}

/// Makes a schedule, holds it, lets it go on, asks it for an instance now, or deletes it.
async fn schedule(runtime: &Runtime, act: &Beside) -> Result<(), Error> {
    let (Beside::Schedule(number, _)
    | Beside::Hold(number)
    | Beside::LetGo(number)
    | Beside::Trigger(number)
    | Beside::Unschedule(number)) = act
    else {
        return Ok(());
    };
    let (number, name) = (*number, format!("s{number}"));
    if let Beside::Schedule(_, rules) = act {
        ledger::with(|ledger| ledger.schedules(number, *rules));
        let every = Every::new(Duration::from_millis(rules.every_ms));
        let scheduling = runtime
            .schedule(name, every)
            .starts(Chore, Duty::Slot(number, rules.takes_ms));
        scheduling.overlap(rules.overlap).catch_up(rules.catch_up).await?;
        return Ok(());
    }
    if ledger::with(|ledger| ledger.schedule(number).is_none()) {
        return Ok(());
    }
    let handle = runtime.schedule_handle(&name)?;
    let done = match act {
        Beside::Hold(_) => {
            let resumes = ledger::with(|ledger| ledger.resumes_of(number));
            handle.pause().await.map(|effect| {
                if effect != Effect::Ended {
                    ledger::with(|ledger| ledger.holds_schedule(number, resumes));
                }
            })
        }
        Beside::LetGo(_) => {
            ledger::with(|ledger| ledger.resumes_schedule(number));
            handle.resume().await.map(drop)
        }
        Beside::Trigger(_) => {
            ledger::with(|ledger| ledger.triggers(number));
            handle.trigger().await.map(|triggered| {
                if let Triggered::Started(instance) = triggered {
                    ledger::with(|ledger| ledger.expects_chore(instance.id().as_str()));
                }
            })
        }
        _ => {
            ledger::with(|ledger| ledger.unschedules(number));
            handle.delete().await
        }
    };
    match done {
        Err(Error::Unknown(_) | Error::Deleted(_)) => Ok(()),
        done => done,
    }
}
