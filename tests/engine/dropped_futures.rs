//! Dropping a future of the context cancels what it stood for, and replay drops it at the same place.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Attempt, Ctx, Loop, Message, branch, ensure, ok};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, poll};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

macro_rules! workflow {
    ($name:ident, |$ctx:ident| $body:expr) => {
        define!($name: () => String, accepts [News], |$ctx, _| $body);
    };
}

workflow!(TwoSteps, |ctx| {
    let mut one = ctx
        .step("one", || async { ok("one") }.map(|done| done.map(str::to_owned)))
        .fuse();
    let mut two = ctx.step("two", || async { ok("two".to_owned()) }).fuse();
    let first = futures_util::select! { one = one => one?, two = two => two? };
    drop((one, two));
    ctx.receive::<News>().await?;
    ok(first)
});

/// FAULTS 38.
#[test]
fn a_dropped_step_is_cancelled_and_its_late_result_changes_nothing() {
    for seed in 0..6 {
        let first = in_every_mode::<TwoSteps, _>(seed, |rig| {
            rig.tell_late_results();
            rig.start("i", &());
            assert_eq!(rig.run("i").unwrap(), End::Waiting);
            let steps: Vec<_> = rig.history("i").into_keys().collect();
            assert_eq!(steps.len(), 1, "only the winner is recorded: {steps:?}");
            rig.send("i", &News(1));
            rig.run("i").unwrap()
        });
        let mut live = Rig::<TwoSteps>::new(Plan::Live, seed);
        live.start("i", &());
        live.run("i").unwrap();
        assert_eq!(live.cancelled_attempts(), 1, "{first:?}, seed {seed}");
    }
}

workflow!(SecondAttempt, |ctx| {
    let work = |attempt: Attempt| async move {
        ensure!(attempt.number() == 3, "not yet");
        ok(format!("attempt {}", attempt.number()))
    };
    let one = ctx.step("one", work);
    let two = ctx.step("two", || async { ok("two".to_owned()) });
    let (one, two) = futures_util::try_join!(one, two)?;
    ok(format!("{one}, {two}"))
});

#[test]
fn the_late_result_of_an_attempt_that_another_one_followed_changes_nothing() {
    let end = in_every_mode::<SecondAttempt, _>(1, |rig| {
        rig.tell_late_results();
        rig.start("i", &());
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed("attempt 3, two".into()));
}

/// Found by reading: both attempts end in one commit, the first result lets the function return, and the second was
/// taken for a completion that the code had never asked for. The instance was stuck as soon as it was done.
#[test]
fn a_loser_that_ended_in_the_same_commit_is_no_divergence() {
    for seed in 0..6 {
        let mut rig = Rig::<TwoSteps>::new(Plan::Live, seed).spread(1, Duration::ZERO);
        rig.start("i", &());
        rig.send("i", &News(1));
        let end = rig.run("i").unwrap();
        assert_eq!(rig.history("i").len(), 3, "both ended, and the message was taken");
        assert_eq!(rig.replay("i").unwrap(), Some(end), "seed {seed}");
    }
}

workflow!(Returns, |ctx| {
    let mut one = ctx.step("one", || async { ok("one".to_owned()) }).fuse();
    let mut two = ctx.step("two", || async { ok("two".to_owned()) }).fuse();
    ok(futures_util::select! { one = one => one?, two = two => two? })
});

#[test]
fn a_loser_that_ended_in_the_same_commit_is_no_divergence_at_the_end() {
    for seed in 0..6 {
        let mut rig = Rig::<Returns>::new(Plan::Live, seed).spread(1, Duration::ZERO);
        rig.start("i", &());
        let end = rig.run("i").unwrap();
        assert_eq!(rig.replay("i").unwrap(), Some(end), "seed {seed}");
    }
}

workflow!(SleepOrStep, |ctx| {
    let sleep = ctx.sleep("long", "1h");
    let step = ctx.step("quick", || async { ok(()) });
    futures_util::future::select(sleep, step).await;
    ctx.receive::<News>().await?;
    ok("done".to_owned())
});

/// FAULTS 29.
#[test]
fn a_dropped_sleep_loses_its_alarm() {
    in_every_mode::<SleepOrStep, _>(1, |rig| {
        rig.start("i", &());
        assert_eq!(rig.run("i").unwrap(), End::Waiting);
        let state = rig.state("i");
        assert_eq!((state.status, state.alarm_at_ms), (Status::Waiting, None));
        rig.send("i", &News(1));
        rig.run("i").unwrap()
    });
}

workflow!(MessageOrStep, |ctx| {
    let message = ctx
        .receive::<News>()
        .map(|news| news.map(|news| format!("news {}", news.0)));
    let step = ctx.step("quick", || async { ok("step".to_owned()) });
    let first = futures_util::future::select(Box::pin(message), step).await;
    let first = first.factor_first().0?;
    ctx.sleep("later", "1h").await?;
    ok(first)
});

#[test]
fn a_dropped_wait_takes_no_message() {
    let end = in_every_mode::<MessageOrStep, _>(1, |rig| {
        rig.start("i", &());
        rig.send_after("i", Duration::from_secs(60), &News(1));
        let end = rig.run("i").unwrap();
        assert_eq!(rig.inbox_len("i"), 1, "it stays for whoever comes next");
        end
    });
    assert_eq!(end, End::Completed("step".into()));
}

/// Found by reading: a message and the end of a step became one commit, the step first. It made the code drop the wait
/// that had taken the message, and the message was gone.
#[test]
fn a_message_that_comes_together_with_a_result_is_not_lost() {
    let mut rig = Rig::<MessageOrStep>::new(Plan::Live, 1).spread(1, Duration::ZERO);
    rig.start("i", &());
    rig.send_after("i", Duration::ZERO, &News(1));
    let end = rig.run("i").unwrap();
    assert_eq!(end, End::Completed("news 1".into()), "the message comes first");
    assert_eq!(rig.history("i").len(), 3, "and the step ended in the same commit");
}

workflow!(FirstOfTwoWaits, |ctx| {
    let waits: FuturesUnordered<_> = [ctx.receive::<News>(), ctx.receive::<News>()].into_iter().collect();
    let first = waits.take(1).collect::<Vec<_>>().await.remove(0)?;
    ctx.sleep("later", "1h").await?;
    ok(format!("news {}", first.0))
});

/// Found by reading: two waits took two messages in one commit; the first made the code drop the second, and its
/// message was gone.
#[test]
fn of_two_waits_the_dropped_one_takes_no_message() {
    let end = in_every_mode::<FirstOfTwoWaits, _>(1, |rig| {
        rig.start("i", &());
        rig.send("i", &News(1));
        rig.send("i", &News(2));
        let end = rig.run("i").unwrap();
        assert_eq!(rig.inbox_len("i"), 1);
        end
    });
    assert_eq!(end, End::Completed("news 1".into()));
}

workflow!(TwoWaits, |ctx| {
    let (one, two) = futures_util::join!(ctx.receive::<News>().within("1s"), ctx.receive::<News>().within("1s"));
    ok(format!("{:?} {:?}", one?.map(|news| news.0), two?.map(|news| news.0)))
});

#[test]
fn messages_that_are_there_win_over_times_that_are_over_for_every_wait() {
    let end = in_every_mode::<TwoWaits, _>(1, |rig| {
        rig.start("i", &());
        assert_eq!(rig.run_for("i", Duration::from_millis(500)).unwrap(), End::Waiting);
        rig.send("i", &News(1));
        rig.send("i", &News(2));
        rig.advance(Duration::from_secs(5));
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed("Some(1) Some(2)".into()));
}

thread_local! {
    /// Whether something is polled before what is ready beside it.
    static IS_POLLED: Cell<bool> = const { Cell::new(false) };
}

/// What `select!` does with something beside a branch that is ready at once: it draws lots whether to poll it at all.
async fn beside_what_is_ready(future: impl Future) {
    let mut future = pin!(future);
    let poll = poll_fn(|cx| {
        if IS_POLLED.get() {
            assert!(future.as_mut().poll(cx).is_pending());
        }
        Poll::Ready(())
    });
    poll.await;
}

define!(Compounds: u32 => String, accepts [News], |ctx, kind| {
    let nap = |ctx: Ctx<Self>| async move { ok(ctx.sleep("nap", "1h").await?) };
    match kind {
        0 => {
            let body = move |ctx: Ctx<Self>, (): ()| async move { ok(Loop::<(), ()>::Continue(nap(ctx).await?)) };
            beside_what_is_ready(ctx.repeat("loop", (), body).into_future()).await;
        }
        1 => beside_what_is_ready(ctx.join("join", (branch("one", nap), branch("two", nap)))).await,
        2 => beside_what_is_ready(ctx.race("race", (branch("one", nap), branch("two", nap)))).await,
        3 => beside_what_is_ready(ctx.map("map", [1, 2], 2, |ctx, _| nap(ctx))).await,
        4 => beside_what_is_ready(async { ctx.promise::<()>("promise")?.await }).await,
        _ => {
            let inner = move |ctx: Ctx<Self>| async move {
                ctx.checkpoint("here")?;
                let promise = ctx.promise::<()>("promise")?;
                ctx.join("inner", (branch("one", nap), branch("two", nap))).await?;
                ok(promise.await?)
            };
            beside_what_is_ready(ctx.join("join", vec![branch("outer", inner)])).await;
        }
    }
    ctx.receive::<News>().await?;
    ok("done".to_owned())
});

/// Found by the simulation: a loop or a join that `select!` polled and dropped before the code rested stayed in the
/// history. A replay that did not poll it had an entry too many, and the instance was stuck for good. Found in review:
/// so did a promise.
#[test]
fn what_is_asked_for_and_dropped_before_the_code_rests_leaves_nothing_behind() {
    for (kind, polled) in (0..6).flat_map(|kind| [(kind, true), (kind, false)]) {
        let mut rig = Rig::<Compounds>::new(Plan::Live, 1).audited();
        IS_POLLED.set(polled);
        rig.start("i", &kind);
        assert_eq!(rig.run("i").unwrap(), End::Waiting);
        let history: Vec<_> = rig.history("i").into_keys().collect();
        assert!(
            history.iter().all(|path| path.starts_with("News")),
            "{kind}: {history:?}"
        );
        IS_POLLED.set(!polled);
        assert_eq!(rig.replay("i").unwrap(), None);
        rig.send("i", &News(1));
        assert_eq!(rig.run("i").unwrap(), End::Completed("done".into()));
        IS_POLLED.set(polled);
        assert_eq!(rig.replay("i").unwrap(), Some(End::Completed("done".into())));
    }
}

define!(Gated: u32 => Vec<u32>, accepts [News], |ctx, kind| {
    let way = |ctx: Ctx<Self>, name: &'static str| async move {
        let version = ctx.version(name, 2)?;
        ctx.step(&format!("{name} {version}"), || async { ok(()) }).await?;
        ok(version)
    };
    match kind {
        0 => beside_what_is_ready(way(ctx.clone(), "gate")).await,
        1 => {
            let two = async { futures_util::try_join!(way(ctx.clone(), "gate"), way(ctx.clone(), "other")) };
            beside_what_is_ready(two).await;
        }
        _ => {
            let body = |ctx: Ctx<Self>, turn: u32| async move {
                beside_what_is_ready(way(ctx.clone(), "gate")).await;
                ctx.receive::<News>().await?;
                ok(if turn == 2 { Loop::Break(()) } else { Loop::Continue(turn + 1) })
            };
            ctx.repeat("turns", 0, body).commit_interval(1).await?;
        }
    }
    ctx.receive::<News>().await?;
    // It has not been here, whatever of its past it has not come by again.
    let ahead = way(ctx.clone(), "ahead").await?;
    ctx.receive::<News>().await?;
    ok(vec![ahead, way(ctx, "far ahead").await?])
});

/// Found by the simulation: a gate that `select!` polled, and dropped with what was behind it before the code rested, stayed
/// in the history. A replay that did not poll it had an entry too many, and the instance was stuck for good. BEHAVIOUR 28.
#[test]
fn a_gate_that_is_passed_and_dropped_before_the_code_rests_need_not_be_come_to_again() {
    for (kind, polled) in (0..3).flat_map(|kind| [(kind, true), (kind, false)]) {
        let mut rig = Rig::<Gated>::new(Plan::Live, 1).audited();
        IS_POLLED.set(polled);
        rig.start("i", &kind);
        for number in 0..8 {
            let end = rig.run("i").unwrap();
            for again in [!polled, polled] {
                IS_POLLED.set(again);
                let replayed = rig.replay("i").unwrap();
                let ended = (end != End::Waiting).then(|| end.clone());
                assert_eq!(replayed, ended, "{kind}, {polled}, {again}, {number}");
            }
            match end {
                End::Waiting => rig.send("i", &News(number)),
                end => assert_eq!(end, End::Completed(vec![2, 2]), "{kind}, {polled}"),
            }
        }
        assert!(matches!(rig.run("i").unwrap(), End::Completed(_)));
        // The same in a process that comes by it again each time.
        IS_POLLED.set(polled);
        let mut evicted = Rig::<Gated>::new(Plan::Evict, 1).audited();
        evicted.start("i", &kind);
        for number in 0..8 {
            let end = evicted.run("i").unwrap();
            IS_POLLED.set(number % 2 == 0);
            match end {
                End::Waiting => evicted.send("i", &News(number)),
                end => assert_eq!(end, End::Completed(vec![2, 2]), "{kind}, {polled}"),
            }
        }
        assert!(matches!(evicted.run("i").unwrap(), End::Completed(_)));
    }
}

define!(GatedBeforeOlder: u32 => (), accepts [News], |ctx, kind| {
    match kind {
        // What is waited for behind the gate was asked for before it, and waits since before the last rest, or since after.
        0 | 1 => {
            let mut older = Box::pin(ctx.promise::<()>("older")?.into_future());
            assert!(poll!(&mut older).is_pending());
            if kind == 1 {
                ctx.receive::<News>().await?;
            }
            let gated = async {
                ctx.version("gate", 2)?;
                ok(older.await?)
            };
            beside_what_is_ready(gated).await;
        }
        // The gate lies in a turn that is over by then.
        _ => {
            let (tell, told) = tokio::sync::oneshot::channel::<()>();
            let told = told.shared();
            let body = |ctx: Ctx<Self>, turn: u32| {
                let told = told.clone();
                async move {
                    told.await.ok();
                    if turn == 0 {
                        ctx.version("gate", 2)?;
                    } else {
                        ctx.sleep("nap", "1h").await?;
                    }
                    ok(Loop::<u32, ()>::Continue(turn + 1))
                }
            };
            let mut turns = Box::pin(ctx.repeat("turns", 0, body).commit_interval(9).into_future());
            assert!(poll!(&mut turns).is_pending());
            ctx.receive::<News>().await?;
            tell.send(()).ok();
            beside_what_is_ready(turns).await;
        }
    }
    ctx.receive::<News>().await?;
    ok(())
});

/// Found by reading: a gate was one in passing only if something was dropped that had been asked for behind it, and only
/// as long as its turn of a loop was not over. Before an await on something older it stayed in the history, and a replay
/// that did not poll it was stuck for good. BEHAVIOUR 28.
#[test]
fn a_gate_before_an_await_on_something_older_need_not_be_come_to_again() {
    for (kind, polled) in (0..3).flat_map(|kind| [(kind, true), (kind, false)]) {
        let mut rig = Rig::<GatedBeforeOlder>::new(Plan::Live, 1).audited();
        IS_POLLED.set(polled);
        rig.start("i", &kind);
        let mut end = rig.run("i").unwrap();
        for number in 0..if kind == 0 { 1 } else { 2 } {
            for again in [!polled, polled] {
                IS_POLLED.set(again);
                assert_eq!(rig.replay("i").unwrap(), None, "{kind}, {polled}, {again}, {number}");
            }
            rig.send("i", &News(number));
            end = rig.run("i").unwrap();
        }
        assert_eq!(end, End::Completed(()), "{kind}, {polled}");
        IS_POLLED.set(!polled);
        assert_eq!(rig.replay("i").unwrap(), Some(end), "{kind}, {polled}");
    }
}

thread_local! {
    /// Whether the code has not been called yet.
    static IS_FIRST: Cell<bool> = const { Cell::new(true) };
}

define!(GatedAhead: () => u32, accepts [], |ctx, _| {
    IS_POLLED.set(IS_FIRST.replace(false));
    let gate = async {
        ctx.version("gate", 2)?;
        ok(ctx.step("way", || async { ok(()) }).await?)
    };
    beside_what_is_ready(gate).await;
    ctx.step("one", || async { ok(()) }).await?;
    let ahead = ctx.version("ahead", 2)?;
    ctx.step(&format!("way {ahead}"), || async { ok(()) }).await?;
    ok(ahead)
});

/// What is left in the history of a gate like that does not make a new one look as if it had been passed before it existed.
#[test]
fn a_gate_ahead_is_new_whatever_gates_were_dropped_before() {
    let end = in_every_mode::<GatedAhead, _>(1, |rig| {
        IS_FIRST.set(true);
        rig.start("i", &());
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed(2));
}

workflow!(LoopThatIsCancelled, |ctx| {
    let body = |ctx: Ctx<Self>, (): ()| async move {
        let woken = ctx.sleep("long", "1h").await;
        ok(Loop::Break(woken.is_ok()))
    };
    let looping = branch("loop", move |ctx: Ctx<Self>| async move {
        ok(ctx.repeat("loop", (), body).await?)
    });
    let waiting = branch("wait", |ctx: Ctx<Self>| async move {
        let (one, two) = (
            |ctx: Ctx<Self>| async move { ok(ctx.receive::<News>().await?.0) },
            |_| async { ok(2) },
        );
        ok(ctx.join("join", (branch("one", one), branch("two", two))).await?.0 == 0)
    });
    ctx.receive::<News>().await.ok();
    let won = ctx.race("race", (looping, waiting)).await?;
    ctx.shield().step("tidy up", || async { ok(()) }).await?;
    ctx.shield().sleep("rest", "1h").await?;
    ctx.set("won", &won.name)?;
    ok(won.name)
});

/// Found by the simulation: the end of a loop that a cancellation brought about was recorded. Replay took the loop for
/// over as soon as it came to it, and never came to what had been asked for beside it.
#[test]
fn a_loop_that_a_cancellation_ends_is_over_at_the_same_place_in_replay() {
    let won = in_every_mode::<LoopThatIsCancelled, _>(1, |rig| {
        rig.start("i", &());
        rig.cancel_after("i", Duration::from_secs(1), "enough");
        rig.run("i").unwrap();
        rig.published::<String>("i", "won")
    });
    assert_eq!(won.as_deref(), Some("loop"));
}
