//! BEHAVIOUR 4 and 46: a failed step gets new attempts, and an instance can be taken back to any recorded place.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use everstep::storage::record::Status;
use everstep::{Attempt, Ctx, Effect, Loop, Result, ok, workflow};

use crate::kit::{Word, everyone, machine};

/// The idempotency keys of the attempts at each step, by instance and name.
static DONE: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

static MONEY: AtomicBool = AtomicBool::new(false);

fn note(attempt: &Attempt, name: &str) {
    let place = format!("{} {name}", attempt.instance());
    let key = attempt.idempotency_key().to_owned();
    DONE.lock().unwrap().entry(place).or_default().push(key);
}

/// The same as a whole step.
fn noted(attempt: &Attempt, name: &str) -> Result<()> {
    note(attempt, name);
    ok(())
}

fn done(place: &str) -> Vec<String> {
    DONE.lock().unwrap().get(place).cloned().unwrap_or_default()
}

#[workflow]
async fn pays(ctx: Ctx<Pays>) -> Result<()> {
    let reserve = |attempt: Attempt| async move { noted(&attempt, "reserve") };
    ctx.step("reserve", reserve).await?;
    let charge = |attempt: Attempt| async move {
        note(&attempt, "charge");
        everstep::ensure!(MONEY.load(Ordering::Relaxed), "no money");
        ok(())
    };
    ctx.step("charge", charge).retries(0).await?;
    ok(())
}

#[tokio::test(start_paused = true)]
async fn a_retry_gives_the_failed_step_new_attempts_under_its_key() {
    let runtime = everyone().workflow(pays).open_simulated(machine()).await.unwrap();
    let pays = runtime.start(pays, ()).id("pays").await.unwrap();
    assert_eq!(pays.result().await.unwrap_err().code(), "ES0402");
    MONEY.store(true, Ordering::Relaxed);
    assert_eq!(pays.retry().await.unwrap().before, Status::Failed);
    pays.result().await.unwrap();
    assert_eq!(done("pays reserve").len(), 1, "what was done is kept");
    let keys = done("pays charge");
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
    assert_eq!(pays.status().await.unwrap().run, 2);
    assert_eq!(pays.retry().await.unwrap().effect, Effect::Ended, "it has completed");
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[workflow(accepts(Word))]
async fn travels(ctx: Ctx<Travels>) -> Result<u64> {
    ctx.step("pack", |attempt: Attempt| async move { noted(&attempt, "pack") })
        .await?;
    let word = ctx.receive::<Word>().await?.0;
    ctx.step("fly", |attempt: Attempt| async move { noted(&attempt, "fly") })
        .await?;
    ctx.sleep("rest", "1h").await?;
    ok(word)
}

#[tokio::test(start_paused = true)]
async fn a_reset_does_again_what_came_after_and_gives_messages_back() {
    let runtime = everyone().workflow(travels).open_simulated(machine()).await.unwrap();
    let travels = runtime.start(travels, ()).id("travels").await.unwrap();
    travels.send(Word(7)).await.unwrap();
    travels.reached(|status| status == Status::Sleeping).await.unwrap();
    assert_eq!(travels.reset("nowhere").await.unwrap_err().code(), "ES0413");
    assert_eq!(travels.reset("fly").await.unwrap().before, Status::Sleeping);
    travels.reached(|status| status == Status::Sleeping).await.unwrap();
    let keys = done("travels fly");
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "it is another effect now");
    // While it sleeps, to the sleep itself: it begins anew.
    travels.reset("rest").await.unwrap();
    travels.reached(|status| status == Status::Sleeping).await.unwrap();
    assert_eq!((done("travels fly").len(), travels.status().await.unwrap().run), (2, 3));
    // To before the message, which is there again.
    travels.reset("Word~0").await.unwrap();
    assert_eq!(travels.result().timeout("1d").await.unwrap(), 7);
    assert_eq!((done("travels pack").len(), done("travels fly").len()), (1, 3));
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[workflow]
async fn circles(ctx: Ctx<Circles>) -> Result<u64> {
    let rounds = ctx.repeat("rounds", 0_u64, async |ctx: Ctx<Circles>, round| {
        ctx.step("left", |attempt: Attempt| async move { noted(&attempt, "left") })
            .await?;
        ctx.sleep("nap", "1m").await?;
        ctx.step("right", |attempt: Attempt| async move { noted(&attempt, "right") })
            .await?;
        ok(if round == 2 {
            Loop::Break(round)
        } else {
            Loop::Continue(round + 1)
        })
    });
    ok(rounds.await?)
}

#[tokio::test(start_paused = true)]
async fn a_reset_inside_a_loop_does_its_iteration_again() {
    let runtime = everyone().workflow(circles).open_simulated(machine()).await.unwrap();
    let circles = runtime.start(circles, ()).id("circles").await.unwrap();
    while done("circles left").len() < 2 {
        crate::kit::pass(std::time::Duration::from_secs(10)).await;
    }
    circles.reset("rounds/rounds~1/nap").await.unwrap();
    assert_eq!(circles.result().await.unwrap(), 2);
    assert_eq!((done("circles left").len(), done("circles right").len()), (4, 3));
}

#[workflow(accepts(Word))]
async fn waits(ctx: Ctx<Waits>) -> Result<u64> {
    ok(ctx.receive::<Word>().await?.0)
}

#[workflow]
async fn raises(ctx: Ctx<Raises>) -> Result<u64> {
    let child = ctx.child(waits, ()).id("raised").start().await?;
    ctx.step("look", |attempt: Attempt| async move { noted(&attempt, "look") })
        .await?;
    let other = ctx.child(waits, ()).start().await?;
    drop(other);
    ok(child.await?)
}

/// Found in review: the end of a child names the run that started it, and a parent that was taken back to a later place
/// passed it over and waited for ever.
#[tokio::test(start_paused = true)]
async fn a_child_from_before_a_reset_is_still_waited_for() {
    let builder = everyone().workflow(raises).workflow(waits);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let raises = runtime.start(raises, ()).id("raises").await.unwrap();
    raises.reached(|status| status == Status::Waiting).await.unwrap();
    raises.reset("look").await.unwrap();
    raises.reached(|status| status == Status::Waiting).await.unwrap();
    assert_eq!(done("raises look").len(), 2);
    let raised = runtime.handle(waits, "raised").unwrap();
    raised.send(Word(7)).await.unwrap();
    assert_eq!(raises.result().await.unwrap(), 7);
}

/// Found in review: a child ended while its parent was paused, and a reset of the parent threw its result away.
#[tokio::test(start_paused = true)]
async fn a_child_that_ended_before_a_reset_has_not_ended_in_vain() {
    let builder = everyone().workflow(raises).workflow(waits);
    let runtime = builder.open_simulated(machine()).await.unwrap();
    let raises = runtime.start(raises, ()).id("raises").await.unwrap();
    raises.reached(|status| status == Status::Waiting).await.unwrap();
    raises.pause().await.unwrap();
    let raised = runtime.handle(waits, "raised").unwrap();
    raised.send(Word(7)).await.unwrap();
    raised.result().await.unwrap();
    crate::kit::pass(std::time::Duration::from_secs(1)).await;
    raises.reset("look").await.unwrap();
    raises.resume().await.unwrap();
    assert_eq!(raises.result().timeout("1h").await.unwrap(), 7);
}
