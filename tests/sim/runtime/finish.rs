//! How what runs beside comes to its end: who is put aside is released, schedules are deleted, the crew is told to go.

use std::time::Duration;

use everstep::{Error, Runtime};

use super::chore::Notice;
use super::client;
use super::ledger;

/// Days that everyone is given.
const PATIENCE: u64 = 60;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Looks at everyone on trial, and tells who has not ended.
pub(super) async fn trials(runtime: &Runtime) -> Vec<String> {
    let left = ledger::with(|ledger| ledger.trials_left());
    for id in &left {
        client::look_at_trial(runtime, id, true).await.unwrap();
    }
    ledger::with(|ledger| ledger.trials_left())
}

/// Sees that schedules begin their slots, and that batches come to their end; then there is nothing more to come. Where
/// it is `crowded`, few instances have a place in memory at once.
pub(super) async fn the_rest(runtime: &Runtime, crowded: bool) {
    let schedules = ledger::with(|ledger| ledger.all_schedules());
    let mut before = Vec::new();
    for number in &schedules {
        before.push(started(runtime, *number).await);
    }
    if before.iter().any(Option::is_some) {
        // What is in the way of a slot takes more than a day.
        tokio::time::sleep(4 * DAY).await;
    }
    if crowded {
        // A schedule needs a place too. One that comes to it a minute too late, and is to skip what it missed, begins
        // nothing until those who are in its way have ended.
        come_to_a_slot(runtime, &schedules, &before).await;
    }
    for (number, before) in schedules.into_iter().zip(before) {
        if let Some(before) = before
            && started(runtime, number).await.is_some_and(|now| now <= before)
        {
            ledger::with(|ledger| ledger.violation(format!("schedule {number} begins nothing any more")));
        }
        ledger::with(|ledger| ledger.unschedules(number));
        match runtime.schedule_handle(&format!("s{number}")).unwrap().delete().await {
            Ok(()) | Err(Error::Unknown(_) | Error::Deleted(_)) => {}
            Err(error) => panic!("schedule {number} can't be deleted: {error}"),
        }
    }
    batches(runtime).await;
}

/// Gives these schedules the time that it takes until each of those that were looked at before has begun something.
async fn come_to_a_slot(runtime: &Runtime, schedules: &[u64], before: &[Option<u64>]) {
    for _ in 0..PATIENCE {
        let mut left = false;
        for (number, before) in schedules.iter().zip(before) {
            if let Some(before) = before {
                left |= started(runtime, *number).await.is_some_and(|now| now <= *before);
            }
        }
        if !left {
            return;
        }
        tokio::time::sleep(DAY).await;
    }
}

/// Gives these the time that it takes until they have ended: who has a place in memory may keep it for days.
async fn come_to_their_end(runtime: &Runtime, ids: &[String]) {
    for _ in 0..PATIENCE {
        tokio::time::sleep(DAY).await;
        let mut left = false;
        for id in ids {
            let status = runtime.instance(id.as_str()).unwrap().status().await.unwrap().status;
            left |= !status.is_terminal();
        }
        if !left {
            return;
        }
    }
}

/// How many instances a schedule has begun, if it is there and not held. To delete one is to end it and then to remove
/// it: whoever was cut off in between asks again, and until then it is there and over.
async fn started(runtime: &Runtime, number: u64) -> Option<u64> {
    let described = runtime.schedule_handle(&format!("s{number}")).unwrap().describe().await;
    match described {
        Ok(described) if described.paused => None,
        Ok(described) if described.ended && ledger::with(|ledger| ledger.may_be_deleted(number)) => None,
        Ok(described) => Some(described.started),
        Err(Error::Unknown(_) | Error::Deleted(_)) => None,
        Err(error) => panic!("schedule {number} can't be described: {error}"),
    }
}

async fn batches(runtime: &Runtime) {
    let batches = ledger::with(|ledger| ledger.batches());
    let mut over = Vec::new();
    for name in &batches {
        let batch = runtime.batch_handle(name).unwrap();
        match batch.progress().await {
            Err(Error::Unknown(_)) => continue,
            progress => drop(progress.unwrap()),
        }
        let progress = batch.finished().timeout("60d").await.unwrap();
        let counted = progress.done + progress.unchanged + progress.failed;
        ledger::with(|ledger| ledger.batch_is_over(name, (progress.matched, counted)));
        over.push(name);
    }
    tokio::time::sleep(DAY).await;
    let told = over
        .iter()
        .filter(|name| name.starts_with("cancel") || name.starts_with("terminate"));
    for name in told {
        for id in ledger::with(|ledger| ledger.crew_of(name)) {
            let status = runtime.instance(id.as_str()).unwrap().status().await.unwrap().status;
            if !status.is_terminal() {
                ledger::with(|ledger| ledger.violation(format!("{id} is {status}, and {name} came to it")));
            }
        }
    }
    for id in ledger::with(|ledger| ledger.crew()) {
        let handle = runtime.handle(super::chore::Chore, id.as_str()).unwrap();
        if handle.status().await.unwrap().paused {
            handle.resume().await.unwrap();
        }
        let last = Notice {
            batch: "last".to_owned(),
            last: true,
        };
        match handle.send(last).id("last").await {
            Ok(_) | Err(Error::Finished { .. }) => {}
            Err(error) => panic!("{id} can't be told to go: {error}"),
        }
    }
    come_to_their_end(runtime, &ledger::with(|ledger| ledger.crew())).await;
    for id in ledger::with(|ledger| ledger.crew()) {
        let status = runtime.instance(id.as_str()).unwrap().status().await.unwrap().status;
        if !status.is_terminal() {
            ledger::with(|ledger| ledger.violation(format!("{id} was told to go and is {status}")));
        }
    }
}
