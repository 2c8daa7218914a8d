//! FAULTS 56: a cancellation that meets an attempt that runs, or one that is not due yet, has one end, which the order of
//! commits decides and every answer fits. What the code has heard of never turns into success.
//!
//! `pairs.rs` compares what happens at once with what happens one after the other; this compares it with what has to be.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Attempt, Ctx, Effect, Handle, Operated, Result, Retry, Runtime, Sent, ensure, ok, workflow};

use crate::kit::{Word, machine, pass};
use crate::machine::yields;

/// How long the attempt takes, or the next one is away.
const WAKES: Duration = Duration::from_secs(60);

/// Tells whether it has heard of a cancellation, and returns as if nothing had happened.
#[workflow(accepts(Word))]
async fn labours(ctx: Ctx<Labours>, backs_off: bool) -> Result<bool> {
    let labour = move |attempt: Attempt| async move {
        if !backs_off {
            pass(WAKES).await;
        }
        ensure!(!backs_off || attempt.number() > 1, "not at once");
        ok(())
    };
    let retry = Retry::default().delay(WAKES).without_jitter();
    let laboured = ctx.step("labour", labour).retry(retry).await;
    ok(laboured.is_err() || ctx.is_cancelled())
}

/// What comes beside the cancellation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    /// The attempt ends, or the next one is due and ends.
    Wake,
    Cancel,
    Terminate,
    /// And a resume, when all is over.
    Pause,
    Resume,
    Send,
}

const BESIDE: [Beside; 6] = [
    Beside::Wake,
    Beside::Cancel,
    Beside::Terminate,
    Beside::Pause,
    Beside::Resume,
    Beside::Send,
];

async fn happen(beside: Beside, handle: &Handle<Labours>) -> Option<Operated> {
    match beside {
        Beside::Wake => None,
        Beside::Cancel => Some(handle.cancel("twice").await.unwrap()),
        Beside::Terminate => Some(handle.terminate("at once").await.unwrap()),
        Beside::Pause => Some(handle.pause().await.unwrap()),
        Beside::Resume => Some(handle.resume().await.unwrap()),
        Beside::Send => {
            let sent = handle.send(Word(1)).await;
            let finished = sent.as_ref().is_err_and(|error| error.code() == "ES0407");
            assert!(finished || matches!(sent, Ok(Sent::Accepted)), "{sent:?}");
            None
        }
    }
}

/// Both at once, the other one so many polls before the cancellation, or behind it.
async fn at_once(
    handle: &Handle<Labours>,
    beside: Beside,
    (before, behind): (u32, u32),
) -> (Operated, Option<Operated>) {
    if beside == Beside::Wake {
        // To the moment, and so many polls of it.
        pass(WAKES).await;
    }
    let (cancelled, other) = futures_util::join!(
        async {
            yields(before).await;
            handle.cancel("a race").await.unwrap()
        },
        async {
            yields(behind).await;
            happen(beside, handle).await
        }
    );
    (cancelled, other)
}

/// What it comes to, and whether that fits what was said.
async fn settle(
    handle: &Handle<Labours>,
    cancelled: Operated,
    beside: (Beside, Option<Operated>),
    story: &str,
) -> Status {
    handle.resume().await.unwrap();
    let end = handle.reached(Status::is_terminal).await.unwrap();
    for told in [Some(cancelled), beside.1].into_iter().flatten() {
        assert!(
            told.effect != Effect::Ended || told.now == end,
            "{story}: it was said to have ended as {}, and ended as {end}",
            told.now
        );
    }
    let other = beside.1.filter(|_| beside.0 == Beside::Cancel);
    let done = [Some(cancelled), other]
        .into_iter()
        .flatten()
        .any(|told| told.effect != Effect::Ended);
    match (beside, end) {
        ((Beside::Terminate, Some(told)), Status::Terminated) => assert_eq!(told.effect, Effect::Done, "{story}"),
        ((Beside::Terminate, Some(told)), Status::Cancelled) => assert_eq!(told.effect, Effect::Ended, "{story}"),
        ((Beside::Wake, _), Status::Completed) => {
            let heard = handle.result().await.unwrap();
            assert!(!heard, "{story}: the code has heard of it, and it turned into success");
        }
        (_, Status::Cancelled) => assert!(done, "{story}: nobody says that it was cancelled"),
        (_, end) => panic!("{story}: it ended as {end}"),
    }
    // An end is the end, and nothing begins behind it.
    let before = handle.history().await.unwrap();
    pass(10 * WAKES).await;
    assert_eq!(handle.status().await.unwrap().status, end, "{story}");
    assert_eq!(handle.history().await.unwrap(), before, "{story}");
    end
}

async fn meets(backs_off: bool) {
    let runtime = Runtime::builder().workflow(labours);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let begins = if backs_off { Status::BackingOff } else { Status::Running };
    let mut ends = Vec::new();
    let ways = (0..24).flat_map(|polls| [(polls, 0), (0, polls)]).chain([(500, 0)]);
    for (beside, way) in BESIDE
        .iter()
        .flat_map(|beside| ways.clone().map(move |way| (*beside, way)))
    {
        let story = format!(
            "{begins} and cancelled after {} polls, {beside:?} after {}",
            way.0, way.1
        );
        let handle = runtime.start(labours, backs_off).await.unwrap();
        handle.reached(|status| status == begins).await.unwrap();
        if begins == Status::Running {
            // Not before the attempt has begun.
            yields(100).await;
        }
        let (cancelled, other) = at_once(&handle, beside, way).await;
        // In virtual time: it is over when nobody has anything to do.
        let settled = settle(&handle, cancelled, (beside, other), &story);
        let end = tokio::time::timeout(Duration::from_secs(3_600), settled).await;
        let end = end.unwrap_or_else(|_| panic!("{story}: it never ends"));
        ends.push((beside, end));
    }
    // What may go both ways went both ways. An attempt whose time is over is first: its timer is older.
    for seen in [
        (Beside::Wake, Status::Completed),
        (Beside::Terminate, Status::Terminated),
        (Beside::Terminate, Status::Cancelled),
    ] {
        assert!(ends.contains(&seen), "{seen:?} never was: {ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_meets_an_attempt_that_runs() {
    meets(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_meets_an_attempt_that_is_not_due_yet() {
    meets(true).await;
}
