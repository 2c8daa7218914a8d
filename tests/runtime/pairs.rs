//! FAULTS 56: any two things that happen to an instance at once come to what they come to one after the other, in one of
//! the two orders; which one, the order of commits decides, and both answers fit it.
//!
//! For every pair and every situation the outcomes of both orders are found by doing one after the other. Then both are
//! done at once, the second a few polls behind the first, and what comes of it has to be one of the two. What each comes
//! to alone is the table in `docs/GUARANTEES.md`, which is checked as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{
    AnyHandle, Attempt, Ctx, Effect, Error, Handle, Message, Operated, Result, Retry, Runtime, Sent, WorkflowError,
    ensure, ok, workflow,
};
use serde::{Deserialize, Serialize};

use crate::kit::{Word, machine, pass};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Remark;

/// Waits for a word for a minute, or does something that takes as long, or that has to be done again as much later. What
/// fails is kept for inspection.
#[workflow(accepts(Word, Remark), strategy = "quarantine")]
async fn raced(ctx: Ctx<Raced>, comes_to: Situation) -> Result<Option<u64>> {
    ctx.step("pack", || async { ok(()) }).await?;
    match comes_to {
        Situation::Quarantined => Err(WorkflowError::msg("it was to fail")),
        Situation::Running => ok(ctx.step("load", || load(WAKES)).await?),
        Situation::BackingOff => {
            let again = Retry::default().delay(WAKES).without_jitter();
            let load = |attempt: Attempt| async move {
                ensure!(attempt.number() > 1, "not at once");
                load(Duration::ZERO).await
            };
            ok(ctx.step("load", load).retry(again).await?)
        }
        _ => ok(ctx.receive::<Word>().within(WAKES).await?.map(|Word(word)| word)),
    }
}

async fn load(takes: Duration) -> Result<Option<u64>> {
    pass(takes).await;
    ok(None)
}

/// What can happen to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Cancel,
    Terminate,
    Pause,
    Resume,
    Retry,
    Reset,
    Release,
    Delete,
    Send,
    Complete,
    Wake,
}

const ALL: [Happens; 11] = [
    Happens::Cancel,
    Happens::Terminate,
    Happens::Pause,
    Happens::Resume,
    Happens::Retry,
    Happens::Reset,
    Happens::Release,
    Happens::Delete,
    Happens::Send,
    Happens::Complete,
    Happens::Wake,
];

/// How an instance is when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Situation {
    Waiting,
    /// An attempt at a step runs.
    Running,
    /// One has failed, and the next is not due yet.
    BackingOff,
    Paused,
    Completed,
    Terminated,
    Quarantined,
}

const SITUATIONS: [Situation; 7] = [
    Situation::Waiting,
    Situation::Running,
    Situation::BackingOff,
    Situation::Paused,
    Situation::Completed,
    Situation::Terminated,
    Situation::Quarantined,
];

/// What two of them answered, and how the instance is afterwards.
type Outcome = (String, String, String);

/// When the instance wakes by itself, from its start.
const WAKES: Duration = Duration::from_secs(60);

/// Longer than anything takes that does not wait for a time.
const SETTLES: Duration = Duration::from_millis(100);

async fn begin(runtime: &Runtime, situation: Situation) -> Handle<Raced> {
    let handle = runtime.start(raced, situation).await.unwrap().into_handle();
    match situation {
        Situation::Waiting | Situation::Running | Situation::BackingOff => {}
        Situation::Paused => drop(handle.pause().await.unwrap()),
        Situation::Completed => drop(handle.send(Word(9)).await.unwrap()),
        Situation::Terminated => {
            handle.reached(|status| status == Status::Waiting).await.unwrap();
            handle.terminate("the situation").await.unwrap();
        }
        Situation::Quarantined => {}
    }
    pass(SETTLES).await;
    handle
}

/// Lets it happen, and says what was answered.
async fn happen(what: Happens, handle: &Handle<Raced>) -> String {
    match what {
        Happens::Cancel => operated(handle.cancel("a race").await),
        Happens::Terminate => operated(handle.terminate("a race").await),
        Happens::Pause => operated(handle.pause().await),
        Happens::Resume => operated(handle.resume().await),
        Happens::Retry => operated(handle.retry().await),
        Happens::Reset => operated(handle.reset("pack").await),
        Happens::Release => operated(handle.release().await),
        Happens::Delete => answer(handle.delete().await.map(|()| "done")),
        Happens::Send => sent(handle.send(Remark).await),
        Happens::Complete => sent(handle.send(Word(1)).await),
        Happens::Wake => "-".to_owned(),
    }
}

fn operated(operated: Result<Operated, Error>) -> String {
    answer(operated.map(|operated| match operated.effect {
        Effect::Done => "done",
        Effect::Already => "already",
        Effect::Ended => "ended",
        Effect::Asked => "asked",
        other => panic!("{other:?}"),
    }))
}

fn sent(sent: Result<Sent, Error>) -> String {
    answer(sent.map(|sent| match sent {
        Sent::Accepted => "accepted",
        Sent::Duplicate => "duplicate",
    }))
}

fn answer(answer: Result<&str, Error>) -> String {
    answer.map_or_else(|error| error.code().to_owned(), str::to_owned)
}

/// How the instance is when nothing more happens.
async fn afterwards(handle: &AnyHandle) -> String {
    pass(SETTLES).await;
    match handle.status().await {
        Ok(status) => {
            let woken = match handle.result_as::<Option<u64>>().timeout("1ms").await {
                Ok(None) => " woken",
                _ => "",
            };
            let held = if status.paused && status.status != Status::Paused {
                " held"
            } else {
                ""
            };
            let run = if status.run == 1 { "" } else { " again" };
            format!("{}{woken}{held}{run}", status.status)
        }
        Err(Error::Deleted(_)) => "deleted".to_owned(),
        Err(error) => panic!("{error}"),
    }
}

/// Lets time pass until it would wake by itself. Every situation is reached a settling after the start.
async fn until_due() {
    pass(WAKES - SETTLES).await;
}

/// One after the other: what was answered to the first, and how far its doing has got so many polls later, is what the
/// second finds. None: everything is done in between.
async fn in_order(runtime: &Runtime, situation: Situation, pair: [Happens; 2], polls: Option<usize>) -> Outcome {
    let handle = begin(runtime, situation).await;
    if pair[0] == Happens::Wake || (pair[1] == Happens::Wake && polls.is_some()) {
        until_due().await;
    }
    let first = happen(pair[0], &handle).await;
    match polls {
        Some(polls) => yields(polls).await,
        None if pair[1] == Happens::Wake => pass(WAKES).await,
        None => pass(SETTLES).await,
    }
    let second = happen(pair[1], &handle).await;
    (first, second, afterwards(&handle).await)
}

/// Both at once, the second so many polls behind.
async fn at_once(runtime: &Runtime, situation: Situation, pair: [Happens; 2], behind: usize) -> Outcome {
    let handle = begin(runtime, situation).await;
    if pair.contains(&Happens::Wake) {
        until_due().await;
    }
    let (first, second) = futures_util::join!(happen(pair[0], &handle), async {
        yields(behind).await;
        happen(pair[1], &handle).await
    });
    (first, second, afterwards(&handle).await)
}

async fn yields(polls: usize) {
    for _ in 0..polls {
        tokio::task::yield_now().await;
    }
}

/// A cancel is two commits: it is asked for, and it is taken. What comes in between comes to something that no order of
/// answers does; all of it is written down in `docs/GUARANTEES.md`. So are two that are asked before the instance has
/// looked: it takes them together, and each is done.
const IN_BETWEEN: [(Happens, Happens, [&str; 3]); 7] = [
    (Happens::Cancel, Happens::Cancel, ["done", "already", "cancelled"]),
    (Happens::Cancel, Happens::Terminate, ["done", "done", "terminated"]),
    (Happens::Cancel, Happens::Complete, ["done", "accepted", "completed"]),
    (Happens::Cancel, Happens::Complete, ["done", "accepted", "cancelled"]),
    (Happens::Cancel, Happens::Reset, ["done", "done", "cancelled again"]),
    (Happens::Pause, Happens::Pause, ["done", "done", "paused"]),
    (Happens::Resume, Happens::Resume, ["done", "done", "waiting"]),
];

fn is_in_between(one: Happens, two: Happens, (first, second, end): &Outcome) -> bool {
    IN_BETWEEN.into_iter().any(|(this, that, outcome)| {
        (this, that, outcome) == (one, two, [first, second, end])
            || (that, this, outcome) == (one, two, [second, first, end])
    })
}

async fn every_pair_in(situation: Situation) {
    let runtime = Runtime::builder()
        .workflow(raced)
        .open_simulated(machine())
        .await
        .unwrap();
    let polls = [0, 1, 2, 3, 5, 8];
    let mut ordered: BTreeMap<[Happens; 2], BTreeSet<Outcome>> = BTreeMap::new();
    for one in ALL {
        for two in ALL {
            let orders = ordered.entry([one, two]).or_default();
            for between in polls.map(Some).into_iter().chain([None]) {
                orders.insert(in_order(&runtime, situation, [one, two], between).await);
            }
        }
    }
    let mut wrong = Vec::new();
    for one in ALL {
        for two in ALL {
            for behind in polls {
                let both = at_once(&runtime, situation, [one, two], behind);
                // In virtual time: it is over when nobody has anything to do.
                let found = tokio::time::timeout(Duration::from_secs(3_600), both).await;
                let Ok(found) = found else {
                    panic!("{one:?}, and {behind} polls later {two:?}: somebody waits for ever");
                };
                let turned = (found.1.clone(), found.0.clone(), found.2.clone());
                let fits = ordered[&[one, two]].contains(&found) || ordered[&[two, one]].contains(&turned);
                if !fits && !is_in_between(one, two, &found) {
                    wrong.push(format!("{one:?}, and {behind} polls later {two:?}: {found:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{situation:?}, and no order comes to this:\n{}",
        wrong.join("\n")
    );
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_while_it_waits() {
    every_pair_in(Situation::Waiting).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_while_a_step_runs() {
    every_pair_in(Situation::Running).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_while_it_backs_off() {
    every_pair_in(Situation::BackingOff).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_while_it_is_paused() {
    every_pair_in(Situation::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_when_it_has_completed() {
    every_pair_in(Situation::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_when_it_was_terminated() {
    every_pair_in(Situation::Terminated).await;
}

#[tokio::test(start_paused = true)]
async fn every_pair_comes_to_an_order_while_it_is_in_quarantine() {
    every_pair_in(Situation::Quarantined).await;
}

/// What each comes to alone is what is written down.
#[tokio::test(start_paused = true)]
async fn the_table_says_what_happens() {
    let runtime = Runtime::builder()
        .workflow(raced)
        .open_simulated(machine())
        .await
        .unwrap();
    let mut table = String::from(
        "|  | waiting | running | backing off | paused | completed | terminated | quarantined |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for what in ALL {
        table.push_str(&format!("| {} |", format!("{what:?}").to_lowercase()));
        for situation in SITUATIONS {
            let handle = begin(&runtime, situation).await;
            let before = afterwards(&handle).await;
            if what == Happens::Wake {
                pass(WAKES).await;
            }
            let answered = happen(what, &handle).await;
            let after = afterwards(&handle).await;
            let after = if after == before {
                String::new()
            } else {
                format!(": {after}")
            };
            table.push_str(&format!(" {answered}{after} |"));
        }
        table.push('\n');
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/GUARANTEES.md")).unwrap();
    assert!(
        page.contains(&table),
        "docs/GUARANTEES.md should have this table:\n{table}"
    );
}
